package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A Tunnel is one transport in one work with and without TLS: cells that differ in the
// setting tls alone. What was not measured is nil.
type Tunnel struct{ Plain, On, Mutual *metrics.Cell }

// tunnelsOf returns those of all transports that were measured with TLS.
func tunnelsOf(r *metrics.Result) []Tunnel {
	known := slices.DeleteFunc(slices.Clone(r.Cells), func(c *metrics.Cell) bool { return !c.Of("round").Known() })
	var all []Tunnel
	for _, cells := range metrics.GroupBy(known, func(c *metrics.Cell) alike { return alike{c.Group(), c.InTheClear(), c.Language} }) {
		var t Tunnel
		for _, c := range cells {
			switch c.TLS() {
			case metrics.NoTLS:
				t.Plain = c
			case metrics.MutualTLS:
				t.Mutual = c
			default:
				t.On = c
			}
		}
		if t.Most() != nil {
			all = append(all, t)
		}
	}
	return all
}

// Cells are those that were measured, that in the clear first.
func (t Tunnel) Cells() []*metrics.Cell {
	return slices.DeleteFunc([]*metrics.Cell{t.Plain, t.On, t.Mutual}, func(c *metrics.Cell) bool { return c == nil })
}

// Most returns the cell with certificates at both ends, or else at the server alone.
func (t Tunnel) Most() *metrics.Cell { return cmp.Or(t.Mutual, t.On) }

// Ratio returns a sampled metric of a cell with TLS over that of the one in the clear. It
// is not Known where there is none.
func (t Tunnel) Ratio(metric string, c *metrics.Cell) stat.Interval {
	if t.Plain == nil || c == t.Plain {
		return stat.None()
	}
	return c.Ratio(metric, t.Plain)
}

// tlsPrices say what TLS adds to a round: time, CPU time and bytes.
func tlsPrices(r *metrics.Result) doc.Section {
	tunnels := slices.DeleteFunc(tunnelsOf(r), func(t Tunnel) bool { return t.Plain == nil && t.Most().Remote() }) // which have no price
	if len(tunnels) == 0 {
		return doc.Section{}
	}
	s := doc.Section{Title: "What TLS costs"}
	few := len(tunnels) <= mostSentences
	if !few {
		for _, line := range tlsLines(r, len(tunnels)) {
			s.Lead = append(s.Lead, doc.Paragraph{Text: line, Tone: doc.Strong})
		}
	}
	groups := metrics.GroupBy(tunnels, tunnelTitle)
	for _, same := range groups {
		title := tunnelTitle(same[0])
		var lines []doc.Paragraph
		for _, t := range same {
			if t.Plain != nil && few {
				lines = append(lines, doc.Paragraph{Text: tlsSentence(t), Tone: doc.Strong})
			}
		}
		if len(groups) > 1 && len(lines) > 0 {
			lines = append(doc.Say(title+":"), lines...)
		}
		s.Lead = append(s.Lead, lines...)
		s.Tables = filled(s.Tables, tlsTable(same, title), mutualTable(same, title))
		if len(s.Plots) < mostOpen {
			s.Plots = drawn(s.Plots, tlsPlot(same, title))
		}
	}
	s.Tail = tlsNotes(r, tunnels)
	return s
}

// tunnelTitle says what is sent in a tunnel, and over what.
func tunnelTitle(t Tunnel) string {
	c := t.Most()
	title := groupTitle(c.Group())
	switch {
	case c.Link != link.Rate{}: // which the title names
	case c.OverTCP():
		title += ", over TCP"
	default:
		title += ", over Unix sockets"
	}
	return title
}

// tunnelled names the transport of a cell where a title says over what it goes, and
// something else whether with TLS.
func tunnelled(c *metrics.Cell) string {
	return strings.NewReplacer(":network=tcp", "", ":tls="+c.TLS(), "").Replace(variant(c))
}

// tlsName is what the TLS of a cell is called in a sentence.
func tlsName(c *metrics.Cell) string {
	if c.TLS() == metrics.MutualTLS {
		return "mutual TLS"
	}
	return "TLS"
}

// tlsSentence says what a round takes with TLS, against one without it.
func tlsSentence(t Tunnel) string {
	c := t.Most()
	round, cpu, handshake := t.Ratio("round", c), t.Ratio("cpu_per_gb", c), c.Of("handshake")
	with, name, long, work := "With "+tlsName(c), tunnelled(c), doc.Bounded("1", round)+" times as long", ""
	if cpu.Known() {
		work = " and " + doc.Bounded("1", cpu) + " times the CPU time"
	}
	text := ""
	switch {
	case !round.Sure():
		text = fmt.Sprintf("%s, a round of %s seems to take %s%s, but %s cannot prove it (run with --blocks %d).", with, name, long, work, doc.Plural(round.Blocks, "block"), stat.Blocks)
	case !round.Excludes(1):
		text = fmt.Sprintf("%s, no difference is shown in rounds of %s: %s%s.", with, name, long, work)
	default:
		text = fmt.Sprintf("%s, a round of %s takes %s%s.", with, name, long, work)
	}
	if handshake.Known() {
		text += " Handshakes take " + doc.Quantity("s", handshake.Center) + " before the first round."
	}
	return text
}

// tlsTable has a row for each cell of tunnels: that in the clear, and those with TLS.
func tlsTable(all []Tunnel, title string) doc.Table {
	of, round, cpu, handshake := axes("transport"), column("-round"), column("cpu_per_gb=CPU"), column("handshake")
	table := doc.Table{Key: "tls", Help: "a cell of a transport that was measured with TLS", Caption: title, Keys: 2 + len(of) + 2, Columns: slices.Concat([]doc.Column{{Name: "transport", For: doc.People}, {Name: "TLS", Key: "tls"}}, axisColumns(of), []doc.Column{
		{Name: "transport", For: doc.Programs}, {Name: "against", For: doc.Programs, Help: "the same without TLS, which the ratios are of"},
		round.Column, {Name: "× off", Key: "round_ratio", Unit: "1", Help: "as a multiple of the same transport without TLS"},
		cpu.Column, {Name: "× off", Key: "cpu_ratio", Unit: "1", Middle: true},
		{Name: "more bytes", Unit: "%", Help: "what TLS adds to the bytes on the wire", Middle: true}, handshake.Column, {Name: "ciphers", For: doc.Programs, Help: "the cipher suites"},
	})}
	for _, t := range all {
		for _, c := range t.Cells() {
			more, against := t.Ratio("wire_bytes", c).Map(func(x float64) float64 { return x - 1 }), ""
			if t.Plain != nil && t.Plain != c {
				against = t.Plain.Variant
			}
			table.Add(slices.Concat([]doc.Cell{doc.Words(tunnelled(c)), doc.Words(c.TLS())}, axisCells(of, c), []doc.Cell{doc.Words(c.Variant), doc.Words(against),
				round.of(c), doc.Estimate(t.Ratio("round", c)), cpu.of(c), doc.Estimate(t.Ratio("cpu_per_gb", c)), doc.Estimate(more), handshake.of(c), words(c.Ciphers())})...)
		}
	}
	return table
}

// mutualTable says what certificates of the workers add to that of the server.
func mutualTable(all []Tunnel, title string) doc.Table {
	table := doc.Table{Caption: title + ": mutual rather than on", Columns: []doc.Column{
		{Name: "transport"}, {Name: "round, × on", Unit: "1"}, {Name: "CPU, × on", Unit: "1"}, {Name: "handshake, more", Unit: "s"},
	}}
	for _, t := range all {
		if t.On != nil && t.Mutual != nil {
			table.Add(doc.Words(tunnelled(t.On)), doc.Estimate(t.Mutual.Ratio("round", t.On)), doc.Estimate(t.Mutual.Ratio("cpu_per_gb", t.On)), doc.Estimate(t.Mutual.More("handshake", t.On)))
		}
	}
	return table
}

// tlsPlot shows what TLS makes of rounds and of CPU time.
func tlsPlot(all []Tunnel, title string) doc.Plot {
	same := 1.0
	p := doc.Plot{Caption: "With TLS, " + title, Kind: doc.Dots, Value: doc.Axis{Name: "× without TLS", Unit: "1"}, Rule: &same}
	for _, of := range []struct{ metric, name string }{{"round", "round"}, {"cpu_per_gb", "CPU time"}} {
		s := doc.Series{Name: of.name}
		for _, t := range all {
			for _, c := range t.Cells() {
				if x := t.Ratio(of.metric, c); x.Known() {
					s.Points = append(s.Points, doc.Point{Name: tunnelled(c) + ", " + c.TLS(), Value: x})
				}
			}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// tlsNotes say what the prices rest on, and what was not measured.
func tlsNotes(r *metrics.Result, tunnels []Tunnel) []doc.Paragraph {
	var texts, ciphers []string
	var cells []*metrics.Cell
	for _, t := range tunnels {
		if t.On != nil && t.Mutual != nil && texts == nil {
			texts = []string{"Certificates of workers are shown and checked in handshakes alone: what travels after that is encrypted in the same way."}
		}
		for _, c := range t.Cells() {
			cells, ciphers = append(cells, c), append(ciphers, c.Ciphers()...)
		}
	}
	texts = append(texts, confidence(cells))
	if slices.Sort(ciphers); len(ciphers) > 0 {
		text := "Go encrypts in user space, with " + doc.List(slices.Compact(ciphers))
		switch aes := r.Environment.AES; {
		case aes != nil && *aes:
			text += "; the processor has instructions for AES"
		case aes != nil:
			text += "; the processor has no instructions for AES"
		}
		texts = append(texts, text+". The kernel could encrypt instead (kTLS), which Go does not make it do: not measured.")
	}
	return doc.Say(append(texts, inTheClear(r, tunnels)...)...)
}

// inTheClear says what to run to see the price of TLS where nothing was measured without;
// empty if nothing is missing, or if it would cross a network in the clear.
func inTheClear(r *metrics.Result, tunnels []Tunnel) []string {
	var missing []string
	for _, t := range tunnels {
		c := t.Most()
		if name := strings.Replace(plainVariant(c), ":tls="+c.TLS(), "", 1) + ":tls=off"; t.Plain == nil && !c.Remote() && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	where := ""
	if r.Environment.Listen != "" {
		where = " --listen 127.0.0.1" // where nothing has to leave the machine bare
	}
	return []string{"What TLS costs is seen beside the same without it: add --transport " + strings.Join(missing, ",") + where + "."}
}

// tlsLines say of the largest model what TLS makes of its rounds, for at most that many
// transports, in a line or two.
func tlsLines(r *metrics.Result, most int) []string {
	priced := slices.DeleteFunc(tunnelsOf(r), func(t Tunnel) bool { return t.Plain == nil })
	if len(priced) == 0 {
		return nil
	}
	groups := metrics.GroupBy(priced, func(t Tunnel) metrics.Group { return t.Plain.Group() })
	largest := slices.MaxFunc(groups, func(a, b []Tunnel) int {
		return cmp.Compare(a[0].Plain.Model.Payload(), b[0].Plain.Model.Payload())
	})
	of := ""
	if len(groups) > 1 {
		of = " (" + groupTitle(largest[0].Plain.Group()) + ")"
	}
	var lines []string
	for _, same := range metrics.GroupBy(largest, func(t Tunnel) string { return tlsName(t.Most()) }) {
		var parts []string
		for i, t := range same[:min(len(same), most)] {
			ratio := t.Ratio("round", t.Most())
			text := doc.Bounded("1", ratio)
			if i == 0 {
				text += " times as long"
			}
			switch text += " over " + variant(t.Plain); {
			case !ratio.Sure():
				text += " (not proved)"
			case !ratio.Excludes(1):
				text += " (no difference shown)"
			}
			parts = append(parts, text)
		}
		line := "With " + tlsName(same[0].Most()) + " a round takes " + doc.List(parts) + of + "."
		if left := len(same) - most; left > 0 {
			line += " " + doc.Plural(left, "more transport") + ": --view tls"
		}
		lines = append(lines, line)
	}
	return lines
}
