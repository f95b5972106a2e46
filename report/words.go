package report

import (
	"cmp"
	"fmt"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// groupTitle names the settings that the cells of a group have in common.
func groupTitle(g metrics.Group) string {
	t := fmt.Sprintf("%s, %s in %s", g.Model.Name, sizeOf(g.Model, g.Model.Bytes), doc.Plural(g.Model.Tensors, "tensor"))
	if g.Model.Up != "" {
		t += fmt.Sprintf(", up %s, %s in %s", g.Model.Up, sizeOf(g.Model, g.Model.UpBytes), doc.Plural(g.Model.UpTensors, "tensor"))
	}
	return strings.Join(append([]string{t, load(g)}, g.Headings()...), ", ")
}

// rateText writes the rate of a link, in bit/s, without trailing zeros.
func rateText(bits float64) string {
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

// variant names a cell for readers: its transport, its codec, the language of its workers, and
// that it is unproved.
func variant(c *metrics.Cell) string { return qualified(plainVariant(c), c) }

// qualified adds the words of [variant] to a name of the cell's transport.
func qualified(name string, c *metrics.Cell) string {
	if c.Encoded() {
		name += " with " + c.Codec()
	}
	return metrics.InLanguage(name, c.Language) + unless(c.Unproved == "", " (unproved)")
}

// load returns the numbers of workers and clients of a group, and its build.
func load(g metrics.Group) string {
	return doc.Plural(g.Workers, "worker") + ", " + doc.Plural(g.Clients, "client") + unless(g.Program == "", ", "+g.Program)
}

func size(n int64) string { return doc.Quantity("B", float64(n)) }

// sizeOf writes bytes beside the name of a model.
func sizeOf(m result.Model, n int64) string { return doc.Quantity(bytesUnit(m), float64(n)) }

// bytesUnit returns the unit for bytes beside the name of a model, which may be in powers of 1024.
func bytesUnit(m result.Model) string {
	if strings.Contains(m.Label(), "iB") {
		return "iB"
	}
	return "B"
}

// between writes a range of numbers with its noun.
func between(least, most int, noun string) string {
	if least == most {
		return doc.Plural(most, noun)
	}
	return fmt.Sprintf("%d to %s", least, doc.Plural(most, noun))
}

// fullCommit names the commit of a build, for other programs.
func fullCommit(commit string, dirty bool) string {
	return commit + unless(!dirty, "+dirty")
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// lastOf returns the last element of a path.
func lastOf(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// quoted writes a word so that a shell reads it as one word.
func quoted(word string) string {
	if word != "" && !strings.ContainsAny(word, " \t\n'\"\\$`&;|<>()*?[]{}!~#") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// confidence explains the intervals of rounds in cells.
func confidence(cells []*metrics.Cell) string {
	least, most, early := 1.0, 0.0, ""
	for _, c := range cells {
		if c.Marks().Interrupted {
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
