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
	"ipcbench/report/answer"
	"ipcbench/report/contrast"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
	"ipcbench/tensor"
)

// pythonAlone returns the synthetic result with workers in Python, without its small model.
func pythonAlone() *result.Result {
	return without(benchtest.Python(), func(c *result.Cell) bool { return c.Model.Name == "cnn" })
}

// python returns that result after edit.
func python(edit func(c *result.Cell)) *metrics.Result {
	return metrics.New(everyCell(pythonAlone(), edit))
}

func labels(cells []*metrics.Cell) string {
	var all []string
	for _, c := range cells {
		all = append(all, c.Label())
	}
	return strings.Join(all, ",")
}

// TestPythonYardstick: guard 25: workers in Python and peers are compared with the control
// by the rule for other hosts. Unproved cells do not affect others.
func TestPythonYardstick(t *testing.T) {
	only := func(names ...string) func(c *result.Cell) { // all others train as long as the control
		return func(c *result.Cell) {
			if !slices.Contains(names, (&metrics.Cell{Cell: c}).Label()) {
				trains(c, 30)
			}
		}
	}
	longer := func(label string) func(c *result.Cell) {
		return func(c *result.Cell) {
			only()(c)
			if (&metrics.Cell{Cell: c}).Label() == label {
				trains(c, 40)
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
		"shm-slab longer": {longer("shm-slab (python)"), "shm-slab (python)"},
		"in Go":           {longer("shm-slab"), ""},
	} {
		r := python(tt.edit)
		v := contrast.Verdicts(r)[0]
		by, off := "round", ""
		if v.Off != nil {
			by, off = "transfer", v.Off.Label()
		}
		check.That(t, v.By == by && off == tt.off, "%s: ranked by %s for %s, want %s", name, v.By, off, tt.off)
		for _, c := range r.Cells {
			_, like := c.TrainsLike()
			known := c.Of("overhead").Known()
			check.That(t, known == (like && !c.IsControl() && c.Unproved == "") && (known || !c.Of("bandwidth").Known()),
				"%s: overhead of %s known: %v", name, c.Name(), known)
		}
	}
}

// TestPythonVerdict: guard 25: proved peers and workers in Python take part in a verdict.
// Unproved cells do not, however fast they are.
func TestPythonVerdict(t *testing.T) {
	const ours = "shm-slab,shm-slab (python),http-shm (python),http,http (python),grpc-stream,grpc-stream (python),"
	v := contrast.Verdicts(python(func(*result.Cell) {}))[0]
	check.Equal(t, labels(v.Ranked), ours+"py-torch-queue,py-grpc,py-http-json")
	among, ok := v.Among(result.InPython)
	check.That(t, ok && labels(among.Ranked) == "shm-slab (python),http-shm (python),http (python),grpc-stream (python)" && among.By == v.By && among.Shown(),
		"among workers in Python: %s", labels(among.Ranked))
	for _, language := range []string{"cobol", ""} { // the best of all is in Go, and so is the best among workers in Go
		among, ok := v.Among(language)
		check.That(t, !ok, "in %q: %s", language, labels(among.Ranked))
	}
	// An unproved cell is neither the best of a sweep nor compared.
	r := benchtest.Python()
	all := r.Cells
	r.Cells = nil
	for _, c := range []result.Cell{all[0], all[1], all[5], all[11]} {
		for clients := range 3 {
			c := withClients(c, clients+1)
			for i := range c.Blocks {
				for k := range c.Blocks[i].Round {
					if c.Variant == "mine" && clients == 2 { // slower than others, so that they cross
						c.Blocks[i].Round[k] *= 100
					}
				}
			}
			r.Cells = append(r.Cells, c)
		}
	}
	s := table.SweepsOf(metrics.New(r))[0]
	check.That(t, s.Over.Name == "clients" && len(s.Lines) == 4 && s.Lines[2].Variant == "grpc-stream (python)" && !s.Lines[3].Ranked(),
		"a sweep over %s of %v", s.Over.Name, s.Lines)
	for _, of := range s.Envelope() {
		check.That(t, of.Best[0].Variant == "shm-slab" && (of.Next == nil || of.Next.Ranked()), "best is %s, next %v", of.Best[0].Variant, of.Next)
	}
	base, head := benchtest.Python(), benchtest.Python()
	head.Cells[1].Software = map[string]string{"python": "3.12"}
	c := compare(t, base, head, CompareOptions{})
	check.That(t, len(c.Rows) == len(base.Cells)-2 && slices.ContainsFunc(c.Differences, func(d Difference) bool { return d.What == "software python" && d.Head == "3.12" }),
		"%d rows, %v", len(c.Rows), c.Differences)
}

// TestTrain: training by a user's function is other work, which no control does. Its name
// is shown with the work, and the reason for ranking by transfer.
func TestTrain(t *testing.T) {
	own := func(c *result.Cell) {
		if c.Language != "" {
			c.Train = "m:f"
		}
	}
	r := python(own)
	for _, c := range r.Cells {
		check.That(t, c.Train == "" || c.Control == nil && c.Group().Train == "m:f", "%s has the control %v", c.Name(), c.Control)
	}
	v := contrast.Verdicts(r)[1]
	check.That(t, v.Group.Train == "m:f" && v.By == "transfer" && v.Off != nil && labels(v.Ranked[:1]) == "shm-slab (python)", "ranked by %s: %s", v.By, labels(v.Ranked))
	alone := without(benchtest.Python(), func(c *result.Cell) bool { return c.Language == "" })
	text := shown(t, everyCell(alone, own))
	holds(t, text, "histology, 66.6 MB in 20 tensors, 1 worker, 1 client, training by m:f\n",
		"Ranked by transfer (a client's round trip without its training), because --train runs have no control.")
	lacks(t, text, "warning")
}

// TestGains: a project's gain is the ratio of rounds. It is computed only for proved
// cells with workers in Python.
func TestGains(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(c *result.Cell)
		want string
	}{
		"one is not proved": {func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Unproved = "no hash"
			}
		}, "BlazeFL until July 2025 shm-slab 2.36, AReaL of 2025 http 18.3, AReaL of 2025 http-shm 25"},
		"over TCP alone": {func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Variant, c.Transport, c.Program = "py-flower", "py-flower", "py-flower"
			}
			if c.Variant == "grpc-stream" {
				c.Variant, c.Settings = "grpc-stream:network=tcp:tls=on", map[string]string{"network": "tcp", "tls": "on"}
			}
		}, "BlazeFL until July 2025 shm-slab 2.36, AReaL of 2025 http 18.3, AReaL of 2025 http-shm 25, Flower 1.43 grpc-stream:network=tcp:tls=on 4.06, Flower 1.43 grpc-stream:network=tcp:tls=on 3.22"},
		"a setting of the row": {func(c *result.Cell) {
			if row, ok := map[string]string{"py-grpc": "py-flower", "py-http-json": "py-flower:chunk=16MiB"}[c.Variant]; ok {
				c.Variant = row
			}
		}, "BlazeFL until July 2025 shm-slab 2.36, Flower 1.43 py-flower:chunk=16MiB 0.241"},
		"more of Flower": {func(c *result.Cell) {
			if row, ok := map[string]string{"py-grpc": "py-flower", "py-http-json": "py-flower:hops=3:process=new"}[c.Variant]; ok {
				c.Variant = row
			}
		}, "BlazeFL until July 2025 shm-slab 2.36"},
		"workers that start in each round": {func(c *result.Cell) {
			if c.Variant == "py-torch-queue" {
				c.Variant = "py-blazefl"
			}
			c.Respawn = c.Variant == "shm-slab" && c.Language != "" || c.Variant == "http"
		}, "OpenFL 1.8, Flower until 1.19 grpc-stream 3.22, AReaL of 2025 http 18.3, AReaL of 2025 http-shm 25, BlazeFL 3 shm-slab 2.36"},
		"workers in Go": {func(c *result.Cell) { c.Language = "" }, ""},
		"other work": {func(c *result.Cell) {
			if c.Language != "" {
				c.Change = benchtest.Text[tensor.Change]("2%")
			}
		}, ""},
		"a namesake": {func(c *result.Cell) { c.Program = "" }, ""},
	} {
		var all []string
		for _, g := range table.GainsOf(python(tt.edit)) {
			times := g.Ratio("round")
			all = append(all, g.Name+" "+g.Against.Variant+" "+strconv.FormatFloat(times.Center, 'g', 3, 64))
			check.That(t, times.Sure() && times.Low < times.Center && times.High > times.Center, "%s: %s: %v", name, g.Against.Label(), times)
		}
		check.Equal(t, strings.Join(all, ", "), tt.want, name)
	}
	lacking := python(func(*result.Cell) {})
	for i := range lacking.Programs {
		lacking.Programs[i].Software = map[string]string{"lacks": "orjson"}
	}
	check.Equal(t, len(table.GainsOf(lacking)), 0, "gains of rows that lack a part of their project")
}

// TestPythonFloors: workers in Python are bounded by the time of an empty call in Python.
func TestPythonFloors(t *testing.T) {
	r := benchtest.Python()
	for language, call := range map[string]float64{"": 10e-6, result.InPython: 100e-6} {
		r.Floors = append(r.Floors, result.Floor{Name: metrics.FloorCall, Unit: "s", Variant: "http-shm", Setup: result.Setup{Language: language}, Blocks: [][]float64{{call}}})
	}
	for _, c := range metrics.New(r).Cells {
		name, times := c.Bound()
		check.That(t, c.Label() != "http-shm (python)" || name == metrics.FloorCall && times.Center == c.Of("transfer").Center/200e-6,
			"%s: %v times %s", c.Name(), times.Center, name)
		check.That(t, !c.IsPeer() || name == "", "%s is bounded by %s", c.Name(), name)
	}
}

// TestNotCounted: values that a program in another language does not count are unknown
// instead of 0.
func TestNotCounted(t *testing.T) {
	r := python(func(c *result.Cell) {
		for i := range c.Blocks {
			for _, p := range []*result.Process{&c.Blocks[i].Server, &c.Blocks[i].Processes[0]} {
				p.Usage.IO = &usage.IO{ReadBytes: 1, WrittenBytes: 1}
				if c.Unproved != "" { // our peer reports nothing about its processes
					*p = result.Process{}
				}
			}
		}
	})
	for _, c := range r.Cells {
		inGo := !c.IsPeer() && c.Language == ""
		for name, want := range map[string]bool{"allocs": inGo, "gc_time": inGo, "kernel_copies": inGo, "cpu_per_gb": c.Unproved == "", "peak_rss": c.Unproved == ""} {
			check.Equal(t, c.Of(name).Known(), want, c.Label(), name, "is known")
		}
	}
}

// TestControlBesideOthers: if a program in another language trains or folds faster than the
// control, that casts no doubt on the control.
func TestControlBesideOthers(t *testing.T) {
	doubts := ""
	for _, f := range answer.Findings(python(func(c *result.Cell) {
		trains(c, 30)
		for _, b := range c.Blocks {
			for k := range b.Round {
				if c.Transport != metrics.Control {
					b.Round[k] = 40 * benchtest.MS
				}
			}
		}
	})) {
		if f.Rule == "faster_than_control" {
			doubts += f.Measured.Label() + ","
		}
	}
	check.Equal(t, doubts, "shm-slab,http,grpc-stream,", "the control is in doubt for")
}

// TestPythonView: the first screen of workers in Python and of peers fits a terminal of 80 columns,
// and the other formats have the same numbers.
func TestPythonView(t *testing.T) {
	r := benchtest.Python()
	doctest.Golden(t, "python.text", terminal(t, pythonAlone(), 80))
	shows(t, r, map[string][]string{
		"csv": {"metrics shm-slab histology python import s 0.11", "ranking shm-slab histology python rank 1 2", "gain shm-slab BlazeFL", "gain shm-slab round_ratio 1 2.3", "gain grpc-stream transfer_ratio 1 5.71",
			"metrics py-grpc peer python/peers/py_grpc.py", "metrics mine cnn unproved its", "metrics mine cnn round s"},
		"json": {`"shm-slab (python)"`, `"language":"python"`, `"numpy=1.24.2"`, `"peer":"python/peers/py_grpc.py"`, `"unproved":"its answer has no hash of round 3"`,
			`"project":"AReaL of 2025"`, `"now":"py-http-json"`, `"instead":"http-shm"`},
		"benchfmt": {"/transport=shm-slab/model=histology/workers=1/clients=1/language=python ", "/transport=mine/model=cnn/workers=1/clients=1/unproved=yes "},
		"md":       {"\n| *peers* ", "\n| mine (unproved) ", "\nmine (unproved): not proved: its answer has no hash of round 3\n", "**shm-slab (python)**"},
		"html":     {`<tbody class="heading">`, "mine (unproved)"},
	})
	for _, never := range []string{"ranking mine", "metrics mine overhead", "metrics mine bandwidth", "gain shm-slab transfer_ratio"} {
		check.That(t, !hasLine(format(t, "csv", r), never), "what is not proved, or a hand-off, has a %s", never)
	}
}

// TestPeerIsBest: a proved peer that is faster than all transports is named as the fastest.
func TestPeerIsBest(t *testing.T) {
	r := everyCell(benchtest.Python(), func(c *result.Cell) { c.Unproved = "" })
	holds(t, shown(t, r), "mine is the fastest, 100 µs per transfer. The next, shm-slab, takes ", "\nmine 0.100 ± 0.002 1.00 ▏ — 0.609\n")
}

// TestGainSentences: the wording of a gain depends on whether enough blocks show it.
func TestGainSentences(t *testing.T) {
	all := benchtest.Python().Cells
	for want, edit := range map[string]func(c *result.Cell){
		"is from 2.0 % shorter to 2.0 % longer (no difference shown): 149 ms instead of 149 ms, and 223 ms instead of 223 ms of CPU time.": func(c *result.Cell) {
			if c.Variant == "py-grpc" {
				c.Blocks = all[slices.IndexFunc(all, func(of result.Cell) bool {
					return of.Language != "" && of.Transport == "grpc-stream" && of.Model == c.Model
				})].Blocks
			}
		},
		"is 3.22 times as fast (67 % interval 3.19 to 3.25) (too few blocks: use --blocks 6): 147 ms instead of 472 ms, and 220 ms instead of 708 ms of CPU time.": func(c *result.Cell) { c.Blocks = c.Blocks[:2] },
	} {
		wantLines(t, shown(t, everyCell(benchtest.Python(), edit), "gain"), "OpenFL 1.8, Flower until 1.19: a round of histology with grpc-stream instead of py-grpc, a row that imitates it, "+want)
	}
	holds(t, shown(t, everyCell(benchtest.Python(), func(c *result.Cell) {
		switch {
		case c.Variant == "py-http-json":
			c.Variant, c.Model.Name = "py-areal", strings.Replace(c.Model.Name, "cnn", "uniform:32MiB/16", 1)
		case c.Variant == "http-shm":
			c.Respawn, c.Model.Name = true, strings.Replace(c.Model.Name, "cnn", "uniform:32MiB/16", 1)
		}
	}), "gain"), "AReaL 2, workers on the same machine: a round of uniform:32MiB/16 with http-shm and fresh workers for each round instead of py-areal, a row that imitates it, is 25.0 times as fast (95 % interval 24.5 to 25.5): ", "The process that made a tensor keeps it")
	wantLines(t, shown(t, benchtest.Synthetic(6, 10), "gain"), "gain: this result has nothing to show.")
}

// renamed gives peers and transports with workers in Python the names of others.
func renamed(names map[string]string) func(c *result.Cell) {
	return func(c *result.Cell) {
		name, found := names[c.Variant]
		switch {
		case found && c.IsPeer():
			c.Variant, c.Transport, c.Program = name, name, name
		case found && c.Language != "":
			c.Variant = name
		}
	}
}

// TestGainRoutes: a route needs its first row and two others of one group. It names a row that is missing, with whose
// changes the next one is charged, and the product of its factors is the gain from end to end.
func TestGainRoutes(t *testing.T) {
	const (
		inOrder = "One path, in this order (another one would share the gain differently), histology, 66.6 MB in 20 tensors, 1 worker, 1 client: "
		areal   = "the server's language (Go), the client (ipcbench's) and memory (both ends receive into memory that stays)"
		shared  = "memory (shared: HTTP has only places in it), copies (none) and the socket (Unix instead of TCP)"
	)
	slower := map[string]string{"py-http-json": "py-blazefl", "py-grpc": "py-shm"}
	text := shown(t, everyCell(pythonAlone(), renamed(slower)), "gain")
	wantLines(t, text, inOrder+"py-shm instead of py-blazefl changes the pool (processes stay), memory (made once, with its pages), "+
		"copies (one of the model instead of two, none of updates) and the library (numpy instead of torch): "+
		"a round is 4.14 times as fast (95 % interval 4.06 to 4.23); then shm-slab instead of py-shm changes the server's language (Go), "+
		"copies (none) and waiting (futexes instead of pipes): a round is 6.07 times as fast (95 % interval 5.95 to 6.20).")
	holds(t, text, "BlazeFL 3: a round of histology with shm-slab instead of py-blazefl, a row that imitates it, is 25.2 times") // 4.14 × 6.07, rounded
	names := map[string]string{"py-http-json": "py-areal", "http": "http:network=tcp", "py-grpc": "py-http"}
	wantLines(t, shown(t, everyCell(pythonAlone(), renamed(names)), "gain"), inOrder+"py-http instead of py-areal changes "+
		"the encoding (bytes instead of base64 in JSON), connections (one that stays, with one request per model), "+
		"the client (requests) and who serves (the server alone): a round is 4.14 times as fast (95 % interval 4.06 to 4.23); "+
		"then http:network=tcp instead of py-http changes "+areal+": a round is 4.43 times as fast (95 % interval 4.34 to 4.52); "+
		"then http-shm instead of http:network=tcp changes "+shared+": a round is 27 % shorter (95 % interval 25 to 28 %).")
	delete(names, "py-grpc")
	holds(t, shown(t, everyCell(pythonAlone(), renamed(names)), "gain"), "who serves (the server alone), "+areal+": a round is 18.3 times",
		shared, "py-http was not measured.")
	delete(names, "http")
	lacks(t, shown(t, everyCell(pythonAlone(), renamed(names)), "gain"), "One path")
	other := everyCell(pythonAlone(), renamed(slower))
	other.Cells[len(other.Cells)-3].Clients = 2
	lacks(t, shown(t, other, "gain"), "One path")
}

// TestGainFrameworks: the time of a row is compared with the time of the framework that it imitates, if a proved peer of
// that name was measured. A stand-in has no gain and no route.
func TestGainFrameworks(t *testing.T) {
	names := map[string]string{"py-http-json": "flower", "py-grpc": "py-flower", "py-torch-queue": "py-store"}
	text := shown(t, everyCell(pythonAlone(), renamed(names)), "gain")
	wantLines(t, text, "py-flower took 0.241 (0.237 to 0.246) of the time of flower, histology, 66.6 MB in 20 tensors, 1 worker, 1 client.")
	lacks(t, text, "py-store")
	unproved := everyCell(pythonAlone(), renamed(names))
	for i := range unproved.Cells {
		if unproved.Cells[i].Variant == "flower" {
			unproved.Cells[i].Unproved = "no hash"
		}
	}
	wantLines(t, shown(t, unproved, "gain"), "gain: this result has nothing to show.")
}
