// Package table has the views of a result. Cells enter; sections with tables, plots and notes leave,
// which [doc] writes. Each view is one file: its numbers first, its sentences below.
//
// This file is the vocabulary of all views and of package answer, and is read first: how cells are
// named ([Variant], [Phrases], [NamingOf], [GroupTitle]), and the words for lists, numbers and ranges.
// columns.go makes tables of cells, for people and for programs. What two cells differ in comes from
// package contrast.
package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// GroupTitle names the settings that the cells of a group have in common.
func GroupTitle(g metrics.Group) string {
	t := fmt.Sprintf("%s, %s in %s", g.Model.Name, sizeOf(g.Model, g.Model.Bytes), doc.Plural(g.Model.Tensors, "tensor"))
	if g.Model.Up != "" {
		t += fmt.Sprintf(", up %s, %s in %s", g.Model.Up, sizeOf(g.Model, g.Model.UpBytes), doc.Plural(g.Model.UpTensors, "tensor"))
	}
	return strings.Join(append([]string{t, doc.Plural(g.Workers, "worker"),
		doc.Plural(g.Clients, "client") + Unless(g.Program == "", ", "+g.Program)}, g.Headings()...), ", ")
}

// RateText writes the rate of a link, in bit/s, without trailing zeros.
func RateText(bits float64) string {
	number, unit, _ := strings.Cut(doc.Quantity("bit/s", bits), " ")
	if strings.Contains(number, ".") {
		number = strings.TrimRight(strings.TrimRight(number, "0"), ".")
	}
	return number + " " + unit
}

// plainVariant names the transport of a cell without its codec, without settings that its link
// or workers on other hosts imply, and without the hidden settings.
func plainVariant(c *metrics.Cell, hidden ...string) string {
	hidden = append(hidden, "codec")
	if c.Remote() || c.Link != (link.Rate{}) {
		hidden = append(hidden, "network")
	}
	if c.Remote() && c.TLS() == metrics.MutualTLS {
		hidden = append(hidden, "tls")
	}
	return c.Without(hidden...)
}

// Variant names a cell for readers: its transport, its codec, the language of its workers, and
// that it is unproved.
func Variant(c *metrics.Cell) string { return qualified(plainVariant(c), c) }

// qualified adds the words of [Variant] to a name of the cell's transport.
func qualified(name string, c *metrics.Cell) string {
	if c.Encoded() {
		name += " with " + c.Codec()
	}
	return metrics.InLanguage(name, c.Language) + Unless(c.Unproved == "", " (unproved)")
}

func size(n int64) string { return doc.Quantity("B", float64(n)) }

// sizeOf writes bytes beside the name of a model.
func sizeOf(m result.Model, n int64) string { return doc.Quantity(BytesUnit(m), float64(n)) }

// BytesUnit returns the unit for bytes beside the name of a model, which may be in powers of 1024.
func BytesUnit(m result.Model) string {
	if strings.Contains(m.Label(), "iB") {
		return "iB"
	}
	return "B"
}

// Between writes a range of numbers with its noun.
func Between(least, most int, noun string) string {
	if least == most {
		return doc.Plural(most, noun)
	}
	return fmt.Sprintf("%d to %s", least, doc.Plural(most, noun))
}

// FullCommit names the commit of a build, for other programs.
func FullCommit(commit string, dirty bool) string {
	return commit + Unless(!dirty, "+dirty")
}

// OneIf counts a condition.
func OneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Quoted writes a word so that a shell reads it as one word.
func Quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&;|<>()*?[]{}!~#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// confidence explains the intervals of rounds in cells.
func confidence(cells []*metrics.Cell) string {
	least, most, early := 1.0, 0.0, ""
	for _, c := range cells {
		if c.Interrupted() {
			early = ", as the run ended early."
		}
		if i := c.Of("round"); i.Known() {
			least, most = min(least, i.Confidence), max(most, i.Confidence)
		}
	}
	switch {
	case least >= stat.Confidence:
		return "±: 95 % confidence interval over the blocks (fresh processes) of this run."
	case most > 0:
		return "±: confidence interval over the blocks (fresh processes) of this run, which are too few for 95 %" + cmp.Or(early, fmt.Sprintf(": use --blocks %d.", stat.Blocks))
	}
	return "There is no ±: one block (a session of fresh processes) does not show how much blocks vary" +
		cmp.Or(early, fmt.Sprintf(". Use --blocks %d for 95 %% confidence.", stat.Blocks))
}

// Only returns the items that are wanted.
func Only[T any](items []T, wanted func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), func(x T) bool { return !wanted(x) })
}

// Clip returns the first most items, and the number of the others.
func Clip(items []string, most int) []string {
	if len(items) <= most {
		return items
	}
	return append(slices.Clone(items[:most]), fmt.Sprintf("%d more", len(items)-most))
}

// Unless returns text, or an empty string if out is true.
func Unless(out bool, text string) string {
	if out {
		return ""
	}
	return text
}

// Find returns the first cell that is wanted, or nil.
func Find(cells []*metrics.Cell, wanted func(c *metrics.Cell) bool) *metrics.Cell {
	if i := slices.IndexFunc(cells, wanted); i >= 0 {
		return cells[i]
	}
	return nil
}

// mostNamed is the largest number of transports that a verdict names as equally fast.
const mostNamed = 4

// FewNames lists the names of at most mostNamed cells or lines: a, b and 2 more.
func FewNames[T any](of []T, name func(T) string) string {
	return doc.List(Clip(doc.Each(of, name), mostNamed))
}

// span writes the first and the last of something, or only one if they are equal.
func span[T comparable](from, to T) string {
	if from == to {
		return fmt.Sprint(from)
	}
	return fmt.Sprintf("%v to %v", from, to)
}

// A Naming has the axes on which cells differ, and the axes on which they have the same value,
// other than the usual one.
type Naming struct{ Apart, Common []metrics.Axis }

// LabelAxes are the axes that a cell's label names, and the build.
var LabelAxes = []string{"transport", "codec", "language", "program"}

// NamingOf compares cells on all axes except some.
func NamingOf(cells []*metrics.Cell, except ...string) (n Naming) {
	for _, a := range Axes(except...) {
		switch kinds := metrics.GroupBy(cells, func(c *metrics.Cell) string { return phrase(a, c) }); {
		case a.Name == "respawn" && !slices.ContainsFunc(cells, func(c *metrics.Cell) bool { return c.Respawn }): // a peer may differ in it unknown
		case len(kinds) > 1:
			n.Apart = append(n.Apart, a)
		case len(kinds) == 1 && a.Of(cells[0]) != a.Usual:
			n.Common = append(n.Common, a)
		}
	}
	return n
}

// Described returns first and the phrases of a cell on axes, separated by commas.
func Described(first string, of []metrics.Axis, c *metrics.Cell) string {
	return strings.Join(append([]string{first}, Phrases(of, c)...), ", ")
}

// Phrases describe a cell on axes. Axes without a phrase are left out.
func Phrases(of []metrics.Axis, c *metrics.Cell) (all []string) {
	for _, a := range of {
		if text := phrase(a, c); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// phrase describes a cell on an axis, for example as "2 workers". It is empty if the axis does
// not apply to the cell.
func phrase(a metrics.Axis, c *metrics.Cell) string {
	switch value := a.Of(c); {
	case (a.Name == "language" || a.Name == "respawn") && c.IsPeer(): // unknown of a peer
		return ""
	case a.Name == "transport":
		return c.Uncoded()
	case a.Name == "workers" && c.PerProcess > 1 && !c.IsControl():
		return value + " workers" + InProcesses(c)
	case a.Name == "workers" && c.Workers == 1 || a.Name == "clients" && c.Clients == 1:
		return "1 " + strings.TrimSuffix(a.Name, "s")
	case a.Else != "" && value == a.Usual:
		return a.Else
	default:
		return strings.Replace(a.Words, "%s", value, 1)
	}
}

// InProcesses returns the number of processes that host the workers of c.
func InProcesses(c *metrics.Cell) string {
	n := (c.Workers + c.PerProcess - 1) / c.PerProcess
	return fmt.Sprintf(" in %d process", n) + Unless(n == 1, "es")
}

// Axes returns the dimensions of cells, except some.
func Axes(except ...string) []metrics.Axis {
	return slices.DeleteFunc(metrics.Axes(), func(a metrics.Axis) bool { return slices.Contains(except, a.Name) })
}

// GroupAxes returns the dimensions in which cells that did the same work are equal.
func GroupAxes() []metrics.Axis { return Axes("transport", "codec", "language") }

// YardstickText explains why round is not the metric that ranks. It returns nothing if it is.
func YardstickText(y metrics.Yardstick) []string {
	if y.Off == nil {
		return nil
	}
	training, control := y.Off.Training()
	switch {
	case y.Off.Train != "":
		return []string{"Ranked by " + y.By + " (a client's round trip without its training), because --train runs have no control."}
	case !control.Known():
		return []string{"Ranked by " + y.By + ", because no " + metrics.Control + " cell did the same work."}
	}
	return []string{fmt.Sprintf("Ranked by %s (a client's round trip without its training), because training took %s with %s but %s with %s, so overhead is unknown.",
		y.By, doc.Quantity("s", training.Center), Variant(y.Off), doc.Quantity("s", control.Center), metrics.Control)}
}
