package table

import (
	"cmp"
	"slices"
	"strings"

	"ipcbench/internal/link"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A tunnel has the cells of one transport and work without TLS, with TLS and with mutual TLS,
// if measured. Each is paired with the cell without TLS.
type tunnel []pair

// tunnelsOf returns the tunnels with a cell without TLS, and those on one host, where such a
// cell could be measured.
func tunnelsOf(r *metrics.Result) []tunnel {
	var all []tunnel
	order := func(c *metrics.Cell) float64 {
		return OneIf(c.TLS() != metrics.NoTLS) + OneIf(c.TLS() == metrics.MutualTLS)
	}
	for _, cells := range alike(r.Cells, (*metrics.Cell).Group, func(c *metrics.Cell) string { return c.Without("tls") }) {
		slices.SortStableFunc(cells, func(a, b *metrics.Cell) int { return cmp.Compare(order(a), order(b)) })
		var t tunnel
		var plain *metrics.Cell
		for _, c := range cells {
			t = append(t, pair{qualified(plainVariant(c, "network", "tls"), c), c, plain})
			if c.TLS() == metrics.NoTLS {
				plain = c
			}
		}
		if c := t.most().Cell; c.TLS() != metrics.NoTLS && (plain != nil || !c.Remote()) {
			all = append(all, t)
		}
	}
	return all
}

// most returns the pair with mutual TLS, or else the one with TLS.
func (t tunnel) most() pair { return t[len(t)-1] }

// title names the work of a tunnel, and the kind of socket.
func (t tunnel) title() string {
	c := t.most().Cell
	over := ", over Unix sockets"
	if c.OverTCP() {
		over = ", over TCP"
	}
	if c.Link != (link.Rate{}) { // the group's title names the link
		over = ""
	}
	return GroupTitle(c.Group()) + over
}

// TlsPrices is the view of the time, CPU time and bytes that TLS adds to a round.
func TlsPrices(r *metrics.Result) doc.Section {
	tunnels := tunnelsOf(r)
	if len(tunnels) == 0 {
		return doc.Section{Tables: []doc.Table{tlsTable(nil, "")}}
	}
	s := doc.Section{Title: "What TLS costs", Lead: doc.Strong.Say(TlsLines(r, len(tunnels))...),
		Tail: tlsNotes(r, tunnels)}
	for _, same := range metrics.GroupBy(tunnels, tunnel.title) {
		s.Tables = append(s.Tables, tlsTable(slices.Concat(same...), same[0].title()))
	}
	return s
}

// withTLS begins a sentence with the TLS of a cell.
func withTLS(p pair) string {
	return "With " + Unless(p.Cell.TLS() != metrics.MutualTLS, "mutual ") + "TLS"
}

// tlsTable has a row for each cell of tunnels: without TLS and with it.
func tlsTable(all []pair, title string) doc.Table {
	axes, round, cpu, handshake := Axes("transport"), Column("-round"), Column("cpu_per_gb=CPU"), Column("handshake")
	cpu.Key = "cpu_per_gb"
	t := doc.Table{Key: "tls", Help: "a cell of a transport that was measured with TLS", Caption: title,
		Keys: 2 + len(axes) + 1, Columns: slices.Concat([]doc.Column{
			{Name: "transport"}, {Name: "TLS", Key: "tls"}}, AxisColumns(axes), []doc.Column{
			{Key: "against", Help: "the same transport without TLS, which the ratios compare with"},
			round.Column, {Name: "× off", Key: "round_ratio", Unit: "1", Help: "as a multiple of the same transport without TLS"},
			cpu.Column, {Name: "× off", Key: "cpu_ratio", Unit: "1", Middle: true},
			{Name: "more bytes", Unit: "%", Help: "wire bytes that TLS adds", Middle: true}, handshake.Column,
			{Key: "ciphers", List: true, Help: "the cipher suites"},
		}, JudgedColumns)}
	paired := Only(all, func(p pair) bool { return p.Against != nil })
	family := judged("of this table", paired)
	for _, p := range all {
		c, against, j := p.Cell, "", (*contrast.Judged)(nil)
		if p.Against != nil {
			against, j, family = p.Against.Variant, &family[0], family[1:]
		}
		more := p.Ratio("wire_bytes").Map(func(x float64) float64 { return x - 1 })
		t.Add(doc.As(c.Variant, p.Name), c.TLS(), AxisCells(axes, c), against, round.of(c), p.Ratio("round"),
			cpu.of(c), p.Ratio("cpu_per_gb"), more,
			handshake.of(c), c.Ciphers(), JudgedCells(j))
	}
	return t
}

// tlsNotes explains the costs of TLS, and what was not measured.
func tlsNotes(r *metrics.Result, tunnels []tunnel) []doc.Paragraph {
	var texts, ciphers []string
	var cells []*metrics.Cell
	for _, t := range tunnels {
		if n := len(t); n > 1 && t[n-2].Cell.TLS() != metrics.NoTLS && texts == nil { // both kinds were measured
			texts = []string{"Mutual TLS also checks the workers' certificates, in handshakes only: after that, data is encrypted in the same way."}
		}
		for _, p := range t {
			cells, ciphers = append(cells, p.Cell), append(ciphers, p.Cell.Ciphers()...)
		}
	}
	texts = append(texts, confidence(cells))
	if slices.Sort(ciphers); len(ciphers) > 0 {
		texts = append(texts, "Go encrypts in user space, with "+doc.List(slices.Compact(ciphers))+
			". Encryption by the kernel (kTLS), which Go does not use, was not measured.")
	}
	return doc.Say(append(texts, InTheClear(r)...)...)
}

// InTheClear returns a hint to measure without TLS, if that is missing. It is empty if that
// would cross a network without TLS.
func InTheClear(r *metrics.Result) []string {
	var missing []string
	for _, t := range tunnelsOf(r) {
		c := t.most().Cell
		name := plainVariant(c, "tls") + ":tls=off"
		if t.most().Against == nil && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	where := ""
	if r.Environment.Listen != "" {
		where = " --listen 127.0.0.1" // unencrypted data stays on this machine
	}
	return []string{"To see what TLS costs, also measure without it: add --transport " + strings.Join(missing, ",") + where + "."}
}

// TlsLines returns a line or two about the cost of TLS for rounds of the largest model, over
// at most most transports.
func TlsLines(r *metrics.Result, most int) (lines []string) {
	var all []pair
	for _, t := range tunnelsOf(r) {
		if p := t.most(); p.Against != nil {
			all = append(all, p)
		}
	}
	if len(all) == 0 {
		return nil
	}
	groups, largest := byGroup(all)
	model := ""
	if len(groups) > 1 {
		model = " (" + GroupTitle(largest[0].Cell.Group()) + ")"
	}
	for _, kind := range metrics.GroupBy(largest, withTLS) {
		var parts []string
		for i, j := range judged("of these transports", kind)[:min(len(kind), most)] {
			parts = append(parts, j.Says()+" over "+Variant(kind[i].Against))
		}
		line := withTLS(kind[0]) + " a round " + doc.List(parts) + model + "."
		if left := len(kind) - most; left > 0 {
			line += " " + doc.Plural(left, "more transport") + ": --view tls"
		}
		lines = append(lines, line)
	}
	return lines
}
