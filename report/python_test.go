package report

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/metrics"
	"ipcbench/tensor"
)

// python returns the synthetic result with workers in Python, changed, without its small
// model.
func python(edit func(c *result.Cell)) *metrics.Result {
	r := benchtest.Python()
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Model.Name == "cnn" })
	for i := range r.Cells {
		edit(&r.Cells[i])
	}
	return metrics.New(r)
}

func labels(cells []*metrics.Cell) string {
	var all []string
	for _, c := range cells {
		all = append(all, c.Label())
	}
	return strings.Join(all, ",")
}

// TestPythonYardstick: guard 25: workers in Python and peers are compared with the control by the
// rule for other hosts; what has proved nothing changes nothing for others.
func TestPythonYardstick(t *testing.T) {
	only := func(names ...string) func(c *result.Cell) { // all others train as the control does
		return func(c *result.Cell) {
			if !slices.Contains(names, (&metrics.Cell{Cell: c}).Label()) {
				trains(c, 30)
			}
		}
	}
	for name, tt := range map[string]struct {
		edit func(c *result.Cell)
		off  string // the cell for which transfer ranks
	}{
		"as long":         {only(), ""},
		"peers":           {only("py-torch-queue", "py-http-json"), "py-torch-queue"},
		"within 10 %":     {only("py-grpc", "grpc-stream (python)"), ""},
		"unproved":        {only("mine"), ""},
		"a user's own":    {func(c *result.Cell) { c.Train = strings.Repeat("m:f", min(1, len(c.Language))) }, "py-torch-queue"},
		"shm-slab longer": {func(c *result.Cell) { only()(c); stretched(c, "shm-slab", "python", 40) }, "shm-slab (python)"},
		"in Go":           {func(c *result.Cell) { only()(c); stretched(c, "shm-slab", "", 40) }, ""},
	} {
		r := python(tt.edit)
		v := r.Verdicts()[0]
		by := map[bool]string{true: "round", false: "transfer"}[tt.off == ""]
		check.That(t, v.By == by && (v.Off != nil) == (by == "transfer") && (v.Off == nil || v.Off.Label() == tt.off),
			"%s: ranked by %s for %v, want %s for %s", name, v.By, v.Off, by, tt.off)
		for _, c := range r.Cells {
			_, like := c.TrainsLike()
			if known := c.Of("overhead").Known(); known != (like && !c.IsControl() && c.Unproved == "") || c.Of("bandwidth").Known() && !known {
				t.Errorf("%s: overhead of %s known: %v", name, c.Name(), known)
			}
		}
	}
}

// stretched lets the trainings of a transport with workers in a language take that many ms.
func stretched(c *result.Cell, transport, language string, ms float64) {
	if c.Transport == transport && c.Language == language {
		trains(c, ms)
	}
}

// TestPythonVerdict: guard 25: proved peers and workers in Python take part in a verdict, and what
// is not proved does not, however fast it says that it is.
func TestPythonVerdict(t *testing.T) {
	const ours = "shm-slab,shm-slab (python),http-shm (python),http,http (python),grpc-stream,grpc-stream (python),"
	v := python(func(*result.Cell) {}).Verdicts()[0]
	got := labels(v.Ranked)
	check.That(t, got == ours+"py-torch-queue,py-grpc,py-http-json", "ranked: %s", got)
	if among, ok := v.Among(result.InPython); !ok || labels(among.Ranked) != "shm-slab (python),http-shm (python),http (python),grpc-stream (python)" || among.By != v.By || !among.Proved() {
		t.Errorf("among workers in Python: %s", labels(among.Ranked))
	}
	if among, ok := v.Among("cobol"); ok {
		t.Errorf("in no language: %s", labels(among.Ranked))
	}
	if among, ok := v.Among(""); ok {
		t.Errorf("the best of all is in Go, and so is that among workers in Go: %s", labels(among.Ranked))
	}
	proved := func(c *result.Cell) { c.Unproved = "" }
	if got := python(proved).Verdicts()[0]; got.Best().Variant != "mine" || !got.Proved() {
		t.Errorf("a peer that is faster and proved is second to %s", got.Best().Label())
	}
	// Nor is it the best of a sweep, nor in what is compared.
	r := benchtest.Python()
	steps := func(c result.Cell) (all []result.Cell) {
		for _, clients := range []int{1, 2, 3} {
			c.Clients, c.Blocks = clients, slices.Clone(c.Blocks)
			for i := range c.Blocks {
				b := &c.Blocks[i]
				for _, s := range []*[]int64{&b.Train, &b.RTT, &b.Down, &b.Up} {
					*s = slices.Repeat((*s)[:2], clients)
				}
				for k := range b.Round {
					if c.Variant == "mine" && clients == 3 { // slower than others, so that they cross
						b.Round[k] *= 100
					}
				}
			}
			all = append(all, c)
		}
		return all
	}
	r.Cells = slices.Concat(steps(r.Cells[0]), steps(r.Cells[1]), steps(r.Cells[5]), steps(r.Cells[11]))
	s := sweepsOf(metrics.New(r))[0]
	if s.Over.name != "clients" || len(s.Lines) != 4 || s.Lines[2].Variant != "grpc-stream (python)" || s.Lines[3].TakesPart() {
		t.Errorf("a sweep over %s of %v", s.Over.name, s.Lines)
	}
	for _, of := range s.Envelope() {
		if of.Best[0].Variant != "shm-slab" || of.Next != nil && !of.Next.TakesPart() {
			t.Errorf("best is %s, next %v", of.Best[0].Variant, of.Next)
		}
	}
	base, head := benchtest.Python(), benchtest.Python()
	head.Cells[1].Software = map[string]string{"python": "3.12"}
	c, err := Compare(base, head, CompareOptions{})
	if err != nil || len(c.Rows) != len(base.Cells)-2 || !slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.What == "software python" && d.Head == "3.12" }) {
		t.Errorf("%d rows, %v, %v", len(c.Rows), c.Differences, err)
	}
}

// TestTrain: a user's own training is other work, which no control does.
func TestTrain(t *testing.T) {
	r := python(func(c *result.Cell) {
		if c.Language != "" {
			c.Train = "m:f"
		}
	})
	for _, c := range r.Cells {
		if c.Train != "" && (c.Control != nil || c.Group().Train != "m:f" || slices.ContainsFunc(Findings(r), func(f Finding) bool { return f.Measured == c && f.Rule == "no_control" })) {
			t.Errorf("%s has the control %v", c.Name(), c.Control)
		}
	}
	if v := r.Verdicts()[1]; v.Group.Train != "m:f" || v.By != "transfer" || v.Off == nil || labels(v.Ranked[:1]) != "shm-slab (python)" {
		t.Errorf("ranked by %s: %s", v.By, labels(v.Ranked))
	}
}

// TestGains: what a project would gain is the ratio of transfers, and only of what is
// proved and was measured with workers in Python.
func TestGains(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *result.Cell)
		want string
	}{
		"all": {func(*result.Cell) {}, "BlazeFL shm-slab 257, OpenFL, Flower grpc-stream 5.71, AReaL http 63.3, AReaL http-shm 1.9e+03"},
		"one is not proved": {func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Unproved = "no hash"
			}
		}, "BlazeFL shm-slab 257, AReaL http 63.3, AReaL http-shm 1.9e+03"},
		"workers in Go": {func(c *result.Cell) { c.Language = "" }, ""},
		"other work": {func(c *result.Cell) {
			if c.Language != "" {
				c.Change = benchtest.Text[tensor.Change]("2%")
			}
		}, ""},
		"a namesake": {func(c *result.Cell) { c.Peer = "" }, ""},
	} {
		var all []string
		for _, g := range gainsOf(python(tt.edit)) {
			times := g.ratio("transfer")
			all = append(all, g.name+" "+g.against.Variant+" "+strconv.FormatFloat(times.Center, 'g', 3, 64))
			if !times.Sure() || times.Low >= times.Center || times.High <= times.Center {
				t.Errorf("%s: %s: %v", name, g.against.Label(), times)
			}
		}
		check.Equal(t, strings.Join(all, ", "), tt.want, name)
	}
}

// TestPythonFloors: an empty call of a worker in Python is the floor of workers in Python.
func TestPythonFloors(t *testing.T) {
	r := benchtest.Python()
	for language, call := range map[string]float64{"": 10e-6, result.InPython: 100e-6} {
		r.Floors = append(r.Floors, result.Floor{Name: metrics.FloorCall, Unit: "s", Variant: "http-shm", Setup: result.Setup{Language: language}, Blocks: [][]float64{{call}}})
	}
	for _, c := range metrics.New(r).Cells {
		name, times := c.Bound()
		if c.Label() == "http-shm (python)" && (name != metrics.FloorCall || times.Center != c.Of("transfer").Center/200e-6) {
			t.Errorf("%s: %v times %s", c.Name(), times.Center, name)
		}
		check.That(t, c.Peer == "" || name == "", "%s is bounded by %s", c.Name(), name)
	}
}

// TestNotCounted: what a program in another language does not count is not known; it is not 0.
func TestNotCounted(t *testing.T) {
	r := python(func(c *result.Cell) {
		for i := range c.Blocks {
			b := &c.Blocks[i]
			for _, p := range []*result.Process{&b.Server, &b.Processes[0]} {
				p.Usage.IO = &usage.IO{ReadBytes: 1, WrittenBytes: 1}
				if c.Unproved != "" { // our peer says nothing at all of its processes
					*p = result.Process{}
				}
			}
		}
	})
	for _, c := range r.Cells {
		inGo := c.Peer == "" && c.Language == ""
		for name, want := range map[string]bool{"allocs": inGo, "gc_time": inGo, "kernel_copies": inGo, "cpu_per_gb": c.Unproved == "", "peak_rss": c.Unproved == ""} {
			if got := c.Of(name).Known(); got != want {
				t.Errorf("%s: %s is known: %v, want %v", c.Label(), name, got, want)
			}
		}
	}
}

// TestControlBesideOthers: who trains or folds in another language may take less than the control,
// which is in no doubt then.
func TestControlBesideOthers(t *testing.T) {
	r := python(func(c *result.Cell) {
		trains(c, 30)
		for _, b := range c.Blocks {
			if c.Transport != metrics.Control {
				for k := range b.Round {
					b.Round[k] = 40 * benchtest.MS
				}
			}
		}
	})
	var doubts []string
	for _, f := range Findings(r) {
		if f.Rule == "faster_than_control" {
			doubts = append(doubts, f.Measured.Label())
		}
	}
	got := strings.Join(doubts, ",")
	check.That(t, got == "shm-slab,http,grpc-stream", "the control is in doubt for %s", got)
}

// TestPythonView: what a terminal of 80 columns shows of workers in Python and of peers,
// and the same for scripts and pull requests.
func TestPythonView(t *testing.T) {
	r := benchtest.Python()
	check.Must(t, r.Validate())
	shows(t, r, "python.text", [][]string{nil, {"gain"}, {"verdict", "findings", "cells", "workers", "environment"}}, map[string][]string{
		"csv": {
			"metrics shm-slab histology python import s 0.11", "ranking shm-slab histology python rank 1 2", "gain shm-slab BlazeFL", "gain shm-slab transfer_ratio 1 257.", "gain rtt_ratio 1 4.4",
			"metrics py-grpc peer python/peers/py_grpc.py", "metrics mine cnn unproved its", "metrics mine cnn round s",
		},
		"json": {
			`"shm-slab (python)"`, `"language":"python"`, `"numpy=1.24.2"`, `"peer":"python/peers/py_grpc.py"`, `"unproved":"its answer has no hash of round 3"`,
			`"project":"AReaL"`, `"now":"py-http-json"`, `"instead":"http-shm"`,
		},
		"benchfmt": {"/transport=shm-slab/model=histology/workers=1/clients=1/language=python ", "/transport=mine/model=cnn/workers=1/clients=1/unproved=yes "},
		"md": {
			"\n| *peers* ", "\n| mine (unproved) ", "\nmine (unproved): not proved: its answer has no hash of round 3\n", "\n**BlazeFL: shm-slab in the place of py-torch-queue is 257 ",
			"**shm-slab (python)**",
		},
		"html": {`<tbody class="heading">`, "mine (unproved)"},
	})
	for _, never := range []string{"ranking mine", "metrics mine overhead", "metrics mine bandwidth"} {
		check.That(t, !hasLine(format(t, "csv", r), never), "what is not proved has a %s", never)
	}
	text := shown(t, r, "verdict")
	check.That(t, !strings.Contains(text, "mine"), "a verdict names what is not proved: %s", text)
}

// TestPeerIsBest: a peer that is proved and faster than ours says so, where it stands.
func TestPeerIsBest(t *testing.T) {
	r := benchtest.Python()
	for i := range r.Cells {
		r.Cells[i].Unproved = ""
	}
	text := shown(t, r)
	for _, want := range []string{"mine is best, 100 µs a transfer. The runner-up, shm-slab, costs ", "\nmine 0.100 ± 0.002 1.00 ▏ — 0.609\n"} {
		check.That(t, strings.Contains(text, want), "no %q in:\n%s", want, text)
	}
}

// TestTrainView: a user's own training is named with the work, and why transfer ranks.
func TestTrainView(t *testing.T) {
	r := benchtest.Python()
	r.Cells = slices.DeleteFunc(r.Cells, func(c result.Cell) bool { return c.Language == "" })
	for i := range r.Cells {
		r.Cells[i].Train = "mine:train"
	}
	text := shown(t, r)
	for _, want := range []string{
		"histology, 66.6 MB in 20 tensors, 1 worker, 1 client, training by mine:train\n",
		"Ranked by transfer (a client's round trip without its training): a training of your own has no control.",
	} {
		check.That(t, strings.Contains(text, want), "no %q in:\n%s", want, text)
	}
	check.That(t, !strings.Contains(text, "warning"), "a warning of what cannot be otherwise:\n%s", text)
}

// TestGainSentences: what is said of a gain is as sure as the blocks are.
func TestGainSentences(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *result.Cell)
		want string
	}{
		"faster": {func(*result.Cell) {}, "OpenFL, Flower: grpc-stream in the place of py-grpc is 5.71 (5.60 to 5.83) times as fast: a client's transfer takes 70.0 ms rather than 400 ms."},
		"the same": {func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Blocks = slices.Clone(blocksOf(c, "grpc-stream"))
			}
		}, "OpenFL, Flower: grpc-stream in the place of py-grpc is not shown to be faster or slower, 1.00 (0.980 to 1.02) times as fast: a client's transfer takes 70.0 ms rather than 70.0 ms."},
		"two blocks": {func(c *result.Cell) { c.Blocks = c.Blocks[:2] }, "OpenFL, Flower: grpc-stream in the place of py-grpc seems to be 5.71 (5.66 to 5.77) times as fast, but 2 blocks cannot prove it (run with --blocks 6): a client's transfer takes 69.0 ms rather than 394 ms."},
	} {
		r := benchtest.Python()
		for i := range r.Cells {
			tt.edit(&r.Cells[i])
		}
		t.Run(name, func(t *testing.T) { wantLines(t, shown(t, r, "gain"), tt.want) })
	}
	text := shown(t, benchtest.Synthetic(6, 10), "gain")
	check.That(t, strings.Contains(text, "gain: this result has nothing to show."), "without peers: %s", text)
}

// blocksOf returns the blocks of a transport with workers in Python, of the same model.
func blocksOf(of *result.Cell, transport string) []result.Block {
	for _, c := range benchtest.Python().Cells {
		if c.Language != "" && c.Transport == transport && c.Model == of.Model {
			return c.Blocks
		}
	}
	return nil
}
