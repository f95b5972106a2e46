package table

import (
	"math"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A project moves models as a reference row does, and could move them by another transport
// of ipcbench, or by a setting that it has.
type project struct {
	name, row string
	instead   []string // transports; beside them, settings of the row
	again     bool     // an entry above has the settings of the row
	tcp       bool     // only over TCP, which the project uses; each kind of TLS is a pair
	model     string   // the model that the sentence prefers to the largest
	besides   string   // what its way does that the transports do not do
}

const areal = "The process that made a tensor keeps it, and any other fetches it by its id, any number of times."

// projects are those of the view gain. The first ones are in results of earlier versions.
var projects = []project{
	{name: "BlazeFL until July 2025", row: "py-torch-queue", instead: []string{"shm-slab"}},
	{name: "OpenFL 1.8, Flower until 1.19", row: "py-grpc", instead: []string{"grpc-stream"}},
	{name: "AReaL of 2025", row: "py-http-json", instead: []string{"http", "http-shm"}},
	{name: "BlazeFL 3", row: "py-blazefl", instead: []string{"shm-slab"},
		besides: "Processes that start anew in each round keep nothing of the round before."},
	{name: "Flower 1.43", row: "py-flower", instead: []string{"http", "grpc-stream"}, tcp: true,
		besides: "The SuperLink stores objects until they are fetched, and takes none twice; nodes only dial out, which passes firewalls."},
	{name: "OpenFL 1.6", row: "py-openfl", instead: []string{"http", "grpc-stream"}, tcp: true,
		besides: "Its client connects again and repeats a call that failed."},
	{name: "AReaL 2", row: "py-areal", instead: []string{"http"}, tcp: true, model: arealBatch, besides: areal},
	{name: "AReaL 2, workers on the same machine", row: "py-areal", instead: []string{"http-shm"}, again: true, model: arealBatch, besides: areal},
}

// arealBatch is a batch of training data as AReaL moves it: sequences of tokens with their values.
const arealBatch = "uniform:32MiB/16"

// fits reports whether to could replace from, which is the row of the project: a setting of the
// row, or another transport. Workers that this one starts for every round may take the place of
// a row that starts its own.
func (p project) fits(from, to *metrics.Cell) bool {
	kept := to.Group()
	kept.Respawn = false
	switch {
	case kept != from.Group():
		return false
	case to.IsPeer():
		closer := strings.Contains(to.Variant, ":hops=") || strings.Contains(to.Variant, ":process=") // to Flower, no choice that it has
		return !p.again && !closer && strings.HasPrefix(to.Variant, p.row+":") && to.Ranked()
	}
	return (to.Language == result.InPython || to.TLS() != metrics.NoTLS) && slices.Contains(p.instead, to.Without("network", "tls")) && (to.OverTCP() || !p.tcp)
}

// A leg of a route ends at the cell with that label, and changes more than one thing.
type leg struct{ label, changes string }

// routes lead from rows of projects to transports, by rows that are in Python too: the language of the server changes
// in one leg.
var routes = [][]leg{{
	{"py-blazefl", ""},
	{"py-shm", "the pool (processes stay), memory (made once, with its pages), copies (one of the model instead of two, " +
		"none of updates) and the library (numpy instead of torch)"},
	{"shm-slab (python)", "the server's language (Go), copies (none) and waiting (futexes instead of pipes)"},
}, {
	{"py-areal", ""},
	{"py-http", "the encoding (bytes instead of base64 in JSON), connections (one that stays, with one request per model), " +
		"the client (requests) and who serves (the server alone)"},
	{"http:network=tcp (python)", "the server's language (Go), the client (ipcbench's) and memory (both ends receive into " +
		"memory that stays)"},
	{"http-shm (python)", "memory (shared: HTTP has only places in it), copies (none) and the socket (Unix instead of TCP)"},
}}

// GainsOf returns the replacements that were measured, in all groups. The name of a pair is
// the project, and against is the replacement. Unproved reference rows are left out.
func GainsOf(r *metrics.Result) []pair {
	var all []pair
	for _, p := range projects {
		for _, from := range r.Cells {
			if !from.IsPeer() || from.Variant != p.row || !from.Ranked() {
				continue
			}
			for _, to := range r.Cells {
				if of := (pair{p.name, from, to}); p.fits(from, to) && of.Ratio("round").Known() {
					all = append(all, of)
				}
			}
		}
	}
	return all
}

// Gains is the view gain: a sentence for each project about the largest model, and a table for
// each group.
func Gains(r *metrics.Result) doc.Section {
	s := doc.Section{Title: "What projects would gain from another transport", Tail: doc.Say(
		"Workers are in Python, except with TLS, which only workers in Go support. The servers of rows py-* are in Python; those of the other rows are in Go.",
		"CPU time counts all processes; memory is their sum.")}
	groups, _ := byGroup(GainsOf(r))
	before := ""
	for _, p := range projects {
		if pairs := p.chosen(groups); len(pairs) > 0 {
			s.Lead = append(s.Lead, doc.Strong.Say(gainSentence(pairs))...)
			s.Lead = append(s.Lead, doc.Say(Unless(p.besides == before, p.besides))...)
			before = p.besides
		}
	}
	for _, cells := range metrics.GroupBy(Only(r.Cells, (*metrics.Cell).Ranked), (*metrics.Cell).Group) {
		s.Lead = append(s.Lead, doc.Say(besideGains(cells)...)...)
	}
	if s.Lead == nil {
		return doc.Section{Tables: []doc.Table{gainTable(nil, "")}}
	}
	for _, pairs := range groups {
		s.Tables = append(s.Tables, gainTable(pairs, GroupTitle(pairs[0].Cell.Group())))
	}
	return s
}

// chosen returns the pairs of the project in the group that its sentence is about.
func (p project) chosen(groups [][]pair) (of []pair) {
	payload := func(m result.Model) int64 {
		if m.Name == p.model {
			return math.MaxInt64
		}
		return m.Payload()
	}
	for _, g := range groups {
		g = Only(g, func(o pair) bool { return o.Name == p.name })
		if len(g) > 0 && (of == nil || payload(g[0].Cell.Model) > payload(of[0].Cell.Model)) {
			of = g
		}
	}
	return of
}

// instead names the replacement of a pair.
func instead(p pair) string {
	name := plainVariant(p.Against) + Unless(p.Against.TLS() == metrics.NoTLS, " and workers in Go")
	return name + Unless(!p.Against.Respawn, " and fresh workers for each round")
}

// gainSentence compares the transport of one project with its replacements in one group.
func gainSentence(all []pair) string {
	var parts []string
	for i, j := range judged("of this project", all) {
		p := all[i]
		cpu := func(c *metrics.Cell) string { return doc.Quantity("s", c.Of("cpu_per_round").Center) }
		text, took := "with "+instead(p)+" it ", doc.Quantity("s", p.Against.Of("round").Center)
		if i == 0 {
			text = "a round of " + p.Cell.Model.Label() + " with " + instead(p) + " instead of " + p.Cell.Variant + ", a row that imitates it, "
			took += " instead of " + doc.Quantity("s", p.Cell.Of("round").Center)
		}
		took += ", and " + cpu(p.Against) + Unless(i > 0, " instead of "+cpu(p.Cell)) + " of CPU time"
		parts = append(parts, text+j.Inverse().Says()+": "+took)
	}
	return all[0].Name + ": " + strings.Join(parts, "; ") + "."
}

// besideGains returns sentences about ranked cells of a group: the routes, and the time of a row as a share of the time
// of the framework that it imitates, if a peer of that name was measured.
func besideGains(cells []*metrics.Cell) (all []string) {
	title, measured := GroupTitle(cells[0].Group()), map[string]*metrics.Cell{}
	for _, c := range cells {
		measured[c.Label()] = c
	}
	for _, legs := range routes {
		var pairs []pair
		from, changes, missing := measured[legs[0].label], "", ""
		for _, l := range legs[1:] {
			changes += l.changes
			if to := measured[l.label]; from != nil && to != nil {
				pairs = append(pairs, pair{changes, from, to})
				from, changes = to, ""
			} else { // the next leg changes more
				changes, missing = changes+", ", missing+" "+l.label+" was not measured."
			}
		}
		if len(pairs) < 2 {
			continue
		}
		text := "One path, in this order (another one would share the gain differently), " + title + ": "
		for i, j := range judged("of this path", pairs) {
			p := pairs[i]
			text += Unless(i == 0, "; then ") + p.Against.Variant + " instead of " + p.Cell.Variant + " changes " + p.Name +
				": a round " + j.Inverse().Says()
		}
		all = append(all, text+"."+missing)
	}
	for _, c := range cells {
		name, imitates := strings.CutPrefix(c.Transport, "py-")
		if framework := measured[name]; imitates && framework != nil && framework.IsPeer() {
			ratio := doc.Bounded("1", pair{name, c, framework}.Ratio("round"))
			all = append(all, c.Variant+" took "+ratio+" of the time of "+name+", "+title+".")
		}
	}
	return all
}

// gainTable has a row for each pair.
func gainTable(all []pair, title string) doc.Table {
	axes, both := GroupAxes(), columns(`round=round now | -round=round then | cpu_per_round=CPU now | -cpu_per_round=CPU then |
		peak_rss=memory now | -peak_rss=memory then`)
	t := doc.Table{
		Key: "gain", Help: "the transport of a project, and another one that could replace it", Caption: title,
		Keys: 2 + len(axes) + 1,
		Columns: slices.Concat([]doc.Column{{Name: "now"},
			{Name: "instead", Help: "the other transport, or a setting of the same row"}},
			AxisColumns(axes), []doc.Column{{Key: "project"}}, headers(both[:2]),
			[]doc.Column{{Name: "× as fast", Key: "round_ratio", Unit: "1", Help: "the round now ÷ the round then"}},
			headers(both[2:]),
			[]doc.Column{{Name: "transfer, × as fast", Key: "transfer_ratio", Unit: "1",
				Help: "the same for a client's transfer, which only explains: it leaves out " +
					"publishing and page faults. Absent if a side hands tensors over"}}, JudgedColumns),
	}
	for _, project := range metrics.GroupBy(all, func(p pair) string { return p.Name }) {
		for i, j := range judged("of this project", project) {
			p := project[i]
			transfer := p.Ratio("transfer")
			if p.Cell.HandsOver() || p.Against.HandsOver() {
				transfer = stat.None()
			}
			now, then := cellsOf(both, p.Cell), cellsOf(both, p.Against)
			t.Add(Variant(p.Cell), instead(p), AxisCells(axes, p.Against), p.Name, now[0], then[1], j.Ratio,
				now[2], then[3], now[4], then[5], transfer, JudgedCells(&j))
		}
	}
	return t
}
