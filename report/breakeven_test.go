package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
	"ipcbench/tensor"
)

var threeLinks = map[string]float64{"unshaped": 0, "100Mbit": 100e6, "1Gbit": 1e9}

// TestBreakEvenView: what a terminal of 80 columns shows of codecs and links, and the
// same for scripts and pull requests. Bytes of a round stand beside those of a round
// without a codec (O17).
func TestBreakEvenView(t *testing.T) {
	r := benchtest.Linked(threeLinks)
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	shows(t, r, "links.text", [][]string{nil, {"break-even"}, {"findings"}}, map[string][]string{
		"csv": {"metrics http int8 histology 2% 1Gbit wire_down B/round 16652072", "metrics http none 1Gbit wire_down B/round 66608288", "ratio_up 1 0.05999", "break_even int8 at bit/s",
			"metrics http int8 1Gbit phase.compress s/round 0.24", "floors 1Gbit tcp-stream 66608288 value"},
		"json":     {`"pays":"below"`, `"pays":"never"`, `"link":"1Gbit"`, `"error_up_rms":{`},
		"benchfmt": {"/clients=1/change=2%/link=1Gbit ", " wire-down-B/op "},
		"md":       {"1 Gbit/s"},
	})
	for filter, n := range map[string]int{"codec=sparse": 6, "link=none": 2, "link=1Gbit,unshaped": 16, "change=2%": 26, "scenario=fedavg": 26} {
		v := analysis.New(r)
		if err := v.Narrow([]string{filter}); err != nil || len(v.Cells) != n {
			t.Errorf("%s: %d cells, error %v, want %d", filter, len(v.Cells), err, n)
		}
	}
}

// shows compares views, as a terminal of 80 columns has them, with a golden file, and
// looks for texts in what the other formats, by name, make of r.
func shows(t *testing.T, r *result.Result, file string, views [][]string, formats map[string][]string) {
	t.Helper()
	var b strings.Builder
	for _, v := range views {
		if err := writeText(&b, r, Options{Views: v, File: "r.json", Text: doc.TextOptions{Width: 80, Unicode: true}}); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden(t, file, b.String())
	for name, all := range formats {
		text := format(t, name, r)
		for _, want := range all {
			if !strings.Contains(text, want) && !(name == "csv" && hasLine(text, want)) {
				t.Errorf("%s: no %q", name, want)
			}
		}
	}
}

// hasLine reports whether a line of CSV has fields that begin with all of the words.
func hasLine(text, words string) bool {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(","+line, ","+word) }) {
			return true
		}
	}
	return false
}

// TestFloorsOfWork: floors of work that differs in what changes are told apart, and so is
// what was left out.
func TestFloorsOfWork(t *testing.T) {
	r := benchtest.Linked(threeLinks)
	for _, change := range []string{"2%", "10%"} {
		r.Floors = append(r.Floors, result.Floor{Name: "work", Unit: "s", Model: "histology", Setup: result.Setup{Change: benchtest.Text[tensor.Change](change), Scenario: "sync"}, Clients: 1, Blocks: [][]float64{{1}}})
		r.Skipped = append(r.Skipped, result.Skipped{Transport: "http", Variant: "http", Model: "cnn", Workers: 1, Clients: 1, Setup: result.Setup{Change: benchtest.Text[tensor.Change](change), Link: benchtest.Text[link.Rate]("1Gbit")}, Why: "memory"})
	}
	csv := format(t, "csv", r)
	for _, want := range []string{
		"floors histology 10% sync work value", "floors histology 2% sync work value",
	} {
		if !hasLine(csv, want) {
			t.Errorf("no %q in the CSV", want)
		}
	}
	if text := format(t, "json", r); strings.Count(text, `"change":"10%"`) != 1 {
		t.Error("the answer does not say of which change a floor is")
	}
	text := shown(t, r, "floors")
	for _, want := range []string{"histology, change 2%, sync, 1 client", "histology, change 10%, sync, 1 client"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// TestCodecsWithoutTCP: where nothing goes over a network, the view shows what codecs do
// all the same, and why it says of none where it pays; the first screen names it.
func TestCodecsWithoutTCP(t *testing.T) {
	r := benchtest.Linked(map[string]float64{"": 0})
	for i := range r.Cells {
		c := &r.Cells[i]
		delete(c.Settings, "network")
		c.Variant = strings.Replace(c.Variant, ":network=tcp", "", 1)
	}
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	why := "Nothing went over TCP, so there is no rate below which a codec pays"
	for view, all := range map[string][]string{
		"break-even": {"1 client, change 2%, not over TCP\n", "\nhttp with sparse 6.0 6.0 ", ": the data\n", ": what is lost\n", why},
		"":           {why, "--view break-even,"},
	} {
		var views []string
		if view != "" {
			views = []string{view}
		}
		text := shown(t, r, views...)
		for _, want := range all {
			if !strings.Contains(text, want) {
				t.Errorf("view %q: no %q in\n%s", view, want, text)
			}
		}
		if strings.Contains(text, "pays below") || strings.Contains(text, "Gbit/s") || strings.Contains(text, "shm-slab") && view != "" {
			t.Errorf("view %q says where codecs pay, or shows what has none:\n%s", view, text)
		}
	}
}

// TestCodecsAlone: without none, there is no break-even, and the view says why.
func TestCodecsAlone(t *testing.T) {
	r := benchtest.Linked(threeLinks)
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Settings["codec"] == "none" })
	if text := shown(t, r, "break-even"); !strings.Contains(text, "name none in --codec too") {
		t.Errorf("no word of it in\n%s", text)
	}
}

// TestLinkVerdict: with one link, the verdict is that of any table; it names rate and
// codec.
func TestLinkVerdict(t *testing.T) {
	text := shown(t, benchtest.Linked(map[string]float64{"100Mbit": 100e6}), "verdict")
	if want := "At 100 Mbit/s grpc-stream with sparse is best, 829 ms a round."; !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

// TestCodecFindings: what a codec or a link puts in doubt is told, and what travels
// faster than its link is an error (guards 23, 24).
func TestCodecFindings(t *testing.T) {
	of := func(r *result.Result, codec string) *result.Cell {
		for i, c := range r.Cells {
			if c.Transport == "http" && c.Link.String() == "100Mbit" && c.Settings["codec"] == codec {
				return &r.Cells[i]
			}
		}
		panic(codec)
	}
	clients := func(n int) func(r *result.Result) {
		return func(r *result.Result) {
			for i := range r.Cells {
				c := &r.Cells[i]
				c.Clients = n
				for b := range c.Blocks {
					of := &c.Blocks[b]
					for _, s := range []*[]int64{&of.Train, &of.RTT, &of.Down, &of.Up} {
						for len(*s) < n*len(of.Round) {
							*s = append(*s, (*s)[0]/int64(n))
						}
					}
				}
			}
		}
	}
	for _, tt := range []struct {
		name string
		edit func(r *result.Result)
		want string // none if empty
	}{
		{"as it should be", func(*result.Result) {}, ""},
		{"plain tensors", func(r *result.Result) { of(r, "sparse").Coding.Plain = []string{"a", "b"} }, "warning: http:network=tcp:codec=sparse histology workers=1 clients=1 change=2% link=100Mbit: the codec does not take some tensors, which travel as they are: a, b"},
		{"full versions", func(r *result.Result) { benchtest.Count(*of(r, "sparse"), "codec.full.missed", 1) }, "timed rounds hold full versions, 0.500 a round"},
		{"density", func(r *result.Result) { of(r, "sparse").Coding.DensityDown = 0.0225 }, "2.2 % of the words of models changed, and 2 % were expected"},
		{"density up", func(r *result.Result) { of(r, "sparse").Coding.DensityUp = 0.4 }, "40 % of the words of updates changed, and 2 % were expected"},
		{"sync has no base up", func(r *result.Result) { c := of(r, "sparse"); c.Scenario, c.Coding.DensityUp = "sync", 0.4 }, ""},
		{"rows", func(r *result.Result) {
			c := of(r, "sparse")
			c.Change, c.Coding.DensityDown = benchtest.Text[tensor.Change]("2%/rows"), 0.05
		}, ""},
		{"more clients change more", clients(4), "2 % of the words of models changed, and 7.8 % were expected"},
		{"dropped", func(r *result.Result) { of(r, "none").Blocks[2].Link = &result.LinkCount{Dropped: 7, Overlimits: 100} }, "the link dropped 7 packets"},
		{"faster than the link", func(r *result.Result) {
			for i := range r.Floors {
				r.Floors[i].Blocks = [][]float64{{11e6}, {11e6}, {11e6}, {11e6}, {11e6}, {11e6}}
			}
		}, "moves bytes at 12.4 MB/s (12.1 to 12.6), faster than the floor tcp-stream (11.0 MB/s)"},
		{"faster by a burst", func(r *result.Result) {
			for i := range r.Floors {
				r.Floors[i].Blocks = [][]float64{{11e6}, {11e6}, {11e6}, {11e6}, {11e6}, {11e6}}
			}
			r.Environment.Link = &machine.Link{Bursts: map[string]int64{"100Mbit": 64 << 20}}
		}, ""},
		{"a rate by its wire size", func(r *result.Result) {
			small := r.Floors[0]
			small.Bytes, r.Floors[0].Blocks = 4e6, [][]float64{{13e6}, {13e6}}
			small.Blocks = [][]float64{{5e6}, {5e6}, {5e6}, {5e6}, {5e6}, {5e6}}
			r.Floors = append(r.Floors, small)
		}, "codec=sparse histology workers=1 clients=1 change=2% link=100Mbit: moves bytes at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Linked(map[string]float64{"100Mbit": 100e6})
			for i := range r.Cells {
				if k := r.Cells[i].Coding; k != nil {
					k.Plain = nil
				}
			}
			tt.edit(r)
			var lines []string
			for _, f := range analysis.New(r).Findings() {
				if f.Rule != "no_control" {
					lines = append(lines, FindingLine(f))
				}
			}
			if all := strings.Join(lines, "\n"); !strings.Contains(all, tt.want) || tt.want == "" && all != "" {
				t.Errorf("got  %s\nwant %s", all, tt.want)
			}
		})
	}
	text := shown(t, benchtest.Linked(threeLinks), "findings")
	if want := fmt.Sprintf("2 cells: %s", "the codec makes nothing smaller: it never pays"); !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}
