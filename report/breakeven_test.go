package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/report/answer"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
	"ipcbench/tensor"
)

// even returns a result with codecs none and xor over TCP without a rate. ratio is xor's
// share of 100 MB each way, and plain and coded are the rounds in ms.
func even(ratio float64, plain, coded []float64) *result.Result {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	r := benchtest.Result(benchtest.Cell("http", m, 1, 1, plain...), benchtest.Cell("http", m, 1, 1, coded...))
	for i, codec := range []string{"none", "xor"} {
		c := &r.Cells[i]
		c.Settings = map[string]string{"network": "tcp", "codec": codec}
		c.Variant, c.Link = "http:network=tcp:codec="+codec, link.Unshaped
	}
	wire := int64(ratio * 100 * float64(benchtest.MB))
	perRound(r.Cells[1], map[string]int64{"codec.down.payload": 100 * benchtest.MB, "codec.up.payload": 100 * benchtest.MB, "codec.down.wire": wire, "codec.up.wire": wire})
	return r
}

// TestBreakEven: the break-even is bits saved ÷ seconds added, with an interval. A codec
// that saves nothing never pays, and one that adds no time always pays (guard 23).
func TestBreakEven(t *testing.T) {
	six, wide := benchtest.Six, []float64{90, 95, 100, 101, 105, 110}
	for name, tt := range map[string]struct {
		ratio        float64
		plain, coded []float64
		pays         table.Pays
		at, low      float64
		high         float64
	}{
		// 100 MB saved; the bounds are the sixth of 36 differences from either end.
		"50 ms more":      {0.5, six(100), six(150), table.Below, 800e6 / 50e-3, 800e6 / (151.5e-3 - 99e-3), 800e6 / (148.5e-3 - 101e-3)},
		"a little more":   {0.5, wide, six(101.5), table.Below, 800e6 / 1e-3, 800e6 / 9.47e-3, math.Inf(1)},
		"perhaps no more": {0.5, wide, six(100), table.Below, math.Inf(1), 800e6 / 8e-3, math.Inf(1)},
		"faster":          {0.5, six(150), six(100), table.AnyLink, math.Inf(1), math.Inf(1), math.Inf(1)},
		"nothing saved":   {1.0001, six(100), six(150), table.Never, 0, 0, 0},
		"not worth it":    {0.9999, six(100), six(1000), table.Never, 160e3 / 0.9, 0, 0},
		"one block":       {0.5, []float64{100}, []float64{150}, "", 16e9, 16e9, 16e9},
		"one, faster":     {0.5, []float64{150}, []float64{100}, "", math.Inf(1), 0, 0},
		"three, faster":   {0.5, []float64{150, 151, 152}, []float64{100, 101, 102}, "", math.Inf(1), 0, 0},
		"three, costly":   {0.9999, []float64{100, 101, 102}, []float64{1000, 1001, 1002}, "", 0, 0, 0},
		"nothing, once":   {1.0001, []float64{100}, []float64{150}, table.Never, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := table.PathsOf(metrics.New(even(tt.ratio, tt.plain, tt.coded)), true)
			check.Need(t, len(p) == 1 && len(table.BreakEvensOf(p...)) == 1, "%d paths", len(p))
			b := table.BreakEvensOf(p...)[0]
			same := func(got, want float64) bool { return got == want || want != 0 && check.Nearly(got/want, 1, 1e-3) }
			check.That(t, b.Pays == tt.pays && (tt.at == 0 || same(b.At.Center, tt.at)) && (tt.low == 0 || same(b.At.Low, tt.low) && same(b.At.High, tt.high)), "pays %q, %+v", b.Pays, b.At)
		})
	}
}

// TestFewBreakEvens: with too few blocks for an interval of 95 %, no sentence says where a codec
// pays, and the view and the screen say why.
func TestFewBreakEvens(t *testing.T) {
	r := even(0.5, []float64{150, 151, 152}, []float64{100, 101, 102})
	holds(t, shown(t, r, "break-even"), "too few blocks", "Too few blocks: with fewer than 6, it is not known where a codec pays.")
	screen := shown(t, r)
	holds(t, screen, "Over http, xor has too few blocks to say where it pays.")
	lacks(t, screen, "any link")
}

// TestImpairedLinks: on a link with a delay there is no break-even. The view says for each such link
// whether a codec is faster there, with a test.
func TestImpairedLinks(t *testing.T) {
	r := benchtest.Linked(map[string]float64{"unshaped": 0, "1Gbit/10ms": 1e9, "100Mbit": 100e6})
	same := func(codec string, rounds ...float64) { // of http on the link with a delay
		everyCell(r, func(c *result.Cell) {
			if c.Transport == "http" && c.Settings["codec"] == codec && c.Link.Delay() > 0 {
				for i := range c.Blocks {
					c.Blocks[i].Round[0], c.Blocks[i].Round[1] = int64(rounds[i]*1e6), int64(rounds[i]*1e6)
				}
			}
		})
	}
	same("int8", 1180, 1300, 1220, 1240, 1150, 1260) // none takes 1.20 to 1.25 s
	view := shown(t, r, "break-even")
	holds(t, view, "\nhistology, 66.6 MB in 20 tensors, 1 worker, 1 client, change 2%, link 1Gbit/10ms, over grpc-stream, a round relative to no codec: with sparse it is 4.75 times as fast (95 % interval 4.65 to 4.84), ",
		"over http, a round relative to no codec: ", "with int8 it is from 5.2 % shorter to 4.9 % longer (no difference shown) and with zstd it takes ")
	check.That(t, !strings.Contains(view, "link 100Mbit, over") && !strings.Contains(view, "link unshaped, over"), "links without a delay:\n%s", view)
	everyCell(r, func(c *result.Cell) { c.Blocks = c.Blocks[:3] })
	without(r, func(c *result.Cell) bool { // none alone over http on that link
		return c.Transport == "http" && c.Link.Delay() > 0 && c.Settings["codec"] != "none"
	})
	holds(t, shown(t, r, "break-even"), "relative to no codec: with sparse it is 4.7", "(too few blocks: use --blocks 6), with int8 it is ")
	without(r, func(c *result.Cell) bool { return c.Link.Delay() == 0 })
	view = shown(t, r, "break-even")
	holds(t, view, "(too few blocks: use --blocks 6)")
	lacks(t, view, table.NoLink)
}

// TestNoBreakEven: there is no break-even if clients overlap, over Unix sockets, or if the
// same transport was not measured without the codec.
func TestNoBreakEven(t *testing.T) {
	for name, edit := range map[string]func(plain, coded *result.Cell){
		"clients":      func(plain, coded *result.Cell) { plain.Workers, coded.Workers = 2, 2 },
		"no plain one": func(plain, _ *result.Cell) { plain.Settings["codec"] = "zstd" },
		"other change": func(plain, _ *result.Cell) { plain.Change = benchtest.Text[tensor.Change]("2%") },
		"other link":   func(plain, _ *result.Cell) { plain.Link = link.Rate{} },
		"respawn":      func(plain, coded *result.Cell) { plain.Respawn, coded.Respawn = true, true },
		"Unix": func(plain, coded *result.Cell) {
			plain.Link, plain.Settings["network"], coded.Link, coded.Settings["network"] = link.Rate{}, "unix", link.Rate{}, "unix"
		},
	} {
		r := even(0.5, benchtest.Six(100), benchtest.Six(150))
		edit(&r.Cells[0], &r.Cells[1])
		for _, b := range table.BreakEvensOf(table.PathsOf(metrics.New(r), true)...) {
			check.That(t, name != "Unix" && b.Pays == "" && !b.At.Known(), "%s: pays %q, %+v", name, b.Pays, b.At)
		}
	}
}

func TestRate(t *testing.T) {
	for text, want := range map[string]float64{"100Mbit": 100e6, "1Gbit": 1e9, "2500kbit": 2.5e6, "none": 0, "unshaped": 0, "1Gbit/10ms": 0} {
		got, ok := table.Rate(benchtest.Text[link.Rate](text))
		check.That(t, ok == (want > 0) && (!ok || got == want), "%q: %v, %v", text, got, ok)
	}
}

// TestLinkedControl: cells on all links share the control outside of the links that has the
// same change. inproc with a codec is not a control.
func TestLinkedControl(t *testing.T) {
	r := benchtest.Linked(map[string]float64{"unshaped": 0, "1Gbit": 1e9})
	coded := benchtest.Cell("inproc", r.Cells[0].Model, 1, 1, benchtest.Six(70)...)
	coded.Variant, coded.Change, coded.Settings["codec"] = "inproc:codec=sparse", r.Cells[0].Change, "sparse"
	other := benchtest.Cell("inproc", r.Cells[0].Model, 1, 1, benchtest.Six(80)...)
	r.Cells = append(r.Cells, coded, other)
	for _, c := range metrics.New(r).Cells {
		want := r.Cells[0].ID()
		if c.Change == (tensor.Change{}) {
			want = other.ID()
		}
		check.That(t, c.Control.ID() == want, "%s has the control %s", c.Name(), c.Control.ID())
		check.That(t, c.Link == (link.Rate{}) || strings.HasSuffix(c.Name(), " link="+c.Link.String()),
			"%s does not name its link", c.Name())
	}
}

var threeLinks = map[string]float64{"unshaped": 0, "100Mbit": 100e6, "1Gbit": 1e9}

// TestBreakEvenView: the first screen of codecs and links fits a terminal of 80 columns, and the
// other formats have the same numbers. A round's bytes are shown beside those without a
// codec (O17).
func TestBreakEvenView(t *testing.T) {
	r := benchtest.Linked(threeLinks)
	doctest.Golden(t, "links.text", terminal(t, r, 80))
	shows(t, r, map[string][]string{
		"csv": {"metrics http int8 histology 2% 1Gbit wire_down B/round 16652072", "metrics http none 1Gbit wire_down B/round 66608288", "ratio_up 1 0.05999", "break_even int8 at bit/s",
			"metrics http int8 1Gbit phase.compress s/round 0.24", "floors 1Gbit tcp-stream 66608288 value"},
		"json":     {`"pays":"below"`, `"pays":"never"`, `"link":"1Gbit"`, `"error_up_rms":{`},
		"benchfmt": {"/clients=1/change=2%/link=1Gbit ", " wire-down-B/op "},
		"md":       {"1 Gbit/s"},
	})
	narrowed(t, r, map[string]int{"codec=sparse": 6, "transport=http:network=tcp codec=sparse": 3, "transport=http:network=tcp:codec=sparse codec=sparse": 3, "link=none": 2, "link=1Gbit,unshaped": 16, "change=2%": 26, "scenario=fedavg": 26})
}

func narrowed(t *testing.T, r *result.Result, want map[string]int) {
	t.Helper()
	for filter, n := range want {
		v := metrics.New(r)
		err := v.Narrow(strings.Fields(filter))
		check.That(t, err == nil && len(v.Cells) == n, "%s: %d cells, error %v, want %d", filter, len(v.Cells), err, n)
	}
}

// TestPart: a part of a result is complete in each format: it has the controls of its cells, and its bandwidth, and no
// questions, which may be about others.
func TestPart(t *testing.T) {
	r := benchtest.Synthetic(6, 2)
	r.Questions = asked().Questions
	part := check.Value(metrics.Part(r, []string{"transport=pickle", "model=cnn"}))(t)
	check.Must(t, part.Validate())
	for _, c := range part.Cells {
		check.That(t, c.Model.Name == "cnn" && (c.Transport == "pickle" || c.Transport == metrics.Control), "%s", c.ID())
	}
	overheads := map[string]string{}
	for _, c := range metrics.New(r).Cells {
		overheads[c.ID()] = fmt.Sprint(c.Of("overhead"))
	}
	for _, c := range metrics.New(part).Cells {
		check.Equal(t, fmt.Sprint(c.Of("overhead")), overheads[c.ID()], c.ID())
	}
	check.That(t, len(part.Cells) > 1 && len(part.Questions) == 0 && len(r.Questions) == 2, "%d cells", len(part.Cells))
	text := format(t, "text", part)
	holds(t, text, "cnn, ", "pickle")
	lacks(t, text, "histology")
	lacks(t, text, "Which one is faster?")
	_, err := metrics.Part(r, []string{"model=gone"})
	check.Fails(t, err, `"model=gone" leaves no cell`)
}

// shows looks for texts in the formats of r.
func shows(t *testing.T, r *result.Result, formats map[string][]string) {
	t.Helper()
	check.Must(t, r.Validate())
	for name, all := range formats {
		text := format(t, name, r)
		for _, want := range all {
			check.That(t, strings.Contains(text, want) || name == "csv" && hasLine(text, want), "%s: no %q", name, want)
		}
	}
}

// hasLine reports whether a line of CSV has, for each word, a field that begins with it.
func hasLine(text, words string) bool {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(","+line, ","+word) }) {
			return true
		}
	}
	return false
}

// TestFloorsOfWork: floors of work that differs in its change are distinguished.
func TestFloorsOfWork(t *testing.T) {
	r := benchtest.Linked(threeLinks)
	for _, change := range []string{"2%", "10%"} {
		setup := result.Setup{Change: benchtest.Text[tensor.Change](change), Scenario: "sync"}
		r.Floors = append(r.Floors, result.Floor{Name: "work", Unit: "s", Model: "histology", Setup: setup, Clients: 1, Blocks: [][]float64{{1}}})
		setup.Link = benchtest.Text[link.Rate]("1Gbit")
		r.Skipped = append(r.Skipped, result.Skipped{Transport: "http", Variant: "http", Model: "cnn", Workers: 1, Clients: 1, Setup: setup, Why: "memory"})
	}
	for _, want := range []string{"floors histology 10% sync work value", "floors histology 2% sync work value"} {
		check.That(t, hasLine(format(t, "csv", r), want), "no %q in the CSV", want)
	}
	check.Equal(t, strings.Count(format(t, "json", r), `"change":"10%"`), 1, "floors of that change in the answer")
	holds(t, shown(t, r, "floors"), "histology, change 2%, sync, 1 client", "histology, change 10%, sync, 1 client")
}

// TestCodecsWithoutTCP: if nothing was measured over TCP, the view still shows the codecs'
// effects, and the reason why no break-even is known. The first screen names the view.
func TestCodecsWithoutTCP(t *testing.T) {
	r := everyCell(benchtest.Linked(map[string]float64{"": 0}), unix)
	check.Must(t, r.Validate())
	const why = "Break-evens need TCP, and nothing was measured over it"
	view, first := shown(t, r, "break-even"), shown(t, r)
	holds(t, view, "1 client, change 2%, not over TCP\n", "\nhttp with sparse 6.0 6.0 ", ": the data\n", ": losses\n", why)
	holds(t, first, why, "--view break-even,")
	for _, never := range []string{"pays below", "Gbit/s"} {
		lacks(t, first+view, never)
	}
	lacks(t, view, "shm-slab")
}

func unix(c *result.Cell) {
	c.Variant, c.Settings = strings.Replace(c.Variant, ":network=tcp", "", 1), maps.Clone(c.Settings)
	delete(c.Settings, "network")
}

// TestCodecsAlone: without codec none there is no break-even, and the view gives the
// reason.
func TestCodecsAlone(t *testing.T) {
	r := without(benchtest.Linked(threeLinks), func(c *result.Cell) bool { return c.Settings["codec"] == "none" })
	holds(t, shown(t, r, "break-even"), "add none to --codec")
}

// TestLinkVerdict: with a single link, the verdict has the usual form and names rate and
// codec.
func TestLinkVerdict(t *testing.T) {
	holds(t, shown(t, benchtest.Linked(map[string]float64{"100Mbit": 100e6}), "verdict"), "At 100 Mbit/s, grpc-stream with sparse is the fastest, 829 ms per round.")
}

// TestCodecFindings: doubts due to a codec or a link are reported, and data that travels
// faster than its link is an error (guards 23, 24).
func TestCodecFindings(t *testing.T) {
	type cells struct {
		r             *result.Result
		plain, sparse *result.Cell // over http
	}
	steady := func(rate float64) (blocks [][]float64) { return slices.Repeat([][]float64{{rate}}, 6) }
	for name, tt := range map[string]struct {
		edit func(of cells)
		want string // expected finding; empty means none
	}{
		"as it should be": {func(cells) {}, ""},
		"plain tensors": {func(of cells) { of.sparse.Coding.Plain = []string{"a", "b"} },
			"warning: http:network=tcp:codec=sparse histology workers=1 clients=1 change=2% link=100Mbit: the codec cannot encode some tensors, which are sent unchanged: a, b"},
		"full versions": {func(of cells) { benchtest.Count(*of.sparse, "codec.full.missed", 1) }, "timed rounds include 0.500 full versions per round"},
		"density":       {func(of cells) { of.sparse.Coding.DensityDown = 0.0225 }, "2.2 % of the elements of models changed, but 2 % were expected"},
		"density up":    {func(of cells) { of.sparse.Coding.DensityUp = 0.4 }, "40 % of the elements of updates changed, but 2 % were expected"},
		"no base up":    {func(of cells) { of.sparse.Scenario, of.sparse.Coding.DensityUp = "sync", 0.4 }, ""},
		"rows": {func(of cells) {
			of.sparse.Change, of.sparse.Coding.DensityDown = benchtest.Text[tensor.Change]("2%/rows"), 0.05
		}, ""},
		"more clients change more": {func(of cells) {
			everyCell(of.r, func(c *result.Cell) { *c = withClients(*c, 4) })
		}, "2 % of the elements of models changed, but 7.8 % were expected"},
		"dropped": {func(of cells) {
			of.plain.Blocks[2].Link = &result.LinkCount{Dropped: 7, Overlimits: 100}
		}, "the link dropped 7 packets"},
		"faster than the link": {func(of cells) { of.r.Floors[0].Blocks = steady(11e6) }, "moves bytes at 12.4 MB/s (12.1 to 12.6), faster than the floor tcp-stream (11.0 MB/s)"},
		"faster by a burst": {func(of cells) {
			of.r.Floors[0].Blocks = steady(11e6)
			of.r.Environment.Link = &machine.Link{Bursts: map[string]int64{"100Mbit": 64 << 20}}
		}, ""},
		"a rate by its wire size": {func(of cells) {
			small := of.r.Floors[0]
			small.Bytes, small.Blocks, of.r.Floors[0].Blocks = 4e6, steady(5e6), steady(13e6)
			of.r.Floors = append(of.r.Floors, small)
		}, "codec=sparse histology workers=1 clients=1 change=2% link=100Mbit: moves bytes at"},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchtest.Linked(map[string]float64{"100Mbit": 100e6})
			of := map[string]*result.Cell{}
			everyCell(r, func(c *result.Cell) {
				if c.Coding != nil {
					c.Coding.Plain = nil
				}
				of[c.Transport+" "+c.Settings["codec"]] = c
			})
			tt.edit(cells{r, of["http none"], of["http sparse"]})
			all := ""
			for _, f := range answer.Findings(metrics.New(r)) {
				if f.Rule != "no_control" {
					all += answer.FindingLine(f) + "\n"
				}
			}
			check.That(t, strings.Contains(all, tt.want) && (tt.want != "" || all == ""), "got  %s\nwant %s", all, tt.want)
		})
	}
}
