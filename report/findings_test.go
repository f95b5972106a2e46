package report

import (
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/answer"
	"ipcbench/report/metrics"
)

// edited returns r with each block of its last cell edited.
func edited(r *result.Result, edit func(b *result.Block)) *result.Result {
	blocks := r.Cells[len(r.Cells)-1].Blocks
	for i := range blocks {
		edit(&blocks[i])
	}
	return r
}

// found checks that the findings of r begin with the texts in want, in this order, and that
// reports contain them.
func found(t *testing.T, r *result.Result, want ...string) {
	t.Helper()
	got := answer.Findings(metrics.New(r))
	check.Need(t, len(got) == len(want), "got %v, want %q", got, want)
	for i, f := range got {
		check.That(t, strings.HasPrefix(answer.FindingLine(f), want[i]), "got  %s\nwant %s…", answer.FindingLine(f), want[i])
		for _, name := range []string{"text", "md"} {
			document := strings.NewReplacer("&gt;", ">", `\_`, "_").Replace(strings.Join(strings.Fields(format(t, name, r)), " "))
			holds(t, document, f.Text)
		}
	}
}

// TestFindings: impossible and doubtful results are reported, and plausible ones are not
// (guard 21).
func TestFindings(t *testing.T) {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	floor := func(name, unit string, x float64) result.Floor {
		return result.Floor{Name: name, Unit: unit, Blocks: slices.Repeat([][]float64{{x}}, 6)}
	}
	tls, work := floor("tls-stream", "B/s", 1.5e9), floor("work", "s", 0.1)
	tls.Bytes, work.Model, work.Clients = 1e8, "even", 1
	floors := []result.Floor{floor("unix-stream", "B/s", 3e9), tls, floor("copy", "B/s", 2e9), work}
	cells := func(cells ...result.Cell) *result.Result {
		r := benchtest.Result(cells...)
		r.Floors = floors
		return r
	}
	inproc := func(rounds ...float64) result.Cell { return benchtest.Cell("inproc", m, 1, 1, rounds...) }
	handles := func(rounds ...float64) result.Cell {
		return benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, rounds...), "handle.tensors", 10)
	}
	control, steady := inproc(benchtest.Six(104)...), inproc(103.9, 103.95, 104, 104, 104.05, 104.1)
	bodies := func(ms float64) result.Cell {
		return benchtest.Count(benchtest.Cell("pickle", m, 1, 1, benchtest.Six(ms)...), "body.tensors", 10)
	}
	with := func(tls string) *result.Result {
		c := bodies(220)
		c.Settings = map[string]string{"network": "tcp", "tls": tls}
		return cells(control, c)
	}
	unknown := bodies(200)
	unknown.Coding = &result.Coding{ErrorDown: &result.CodingError{Max: new(0.1), RMS: new(0.1)}, ErrorUp: &result.CodingError{RMS: new(0.1)}}
	edit := func(f func(b *result.Block)) *result.Result { return edited(cells(control, bodies(200)), f) }
	on := func(fileSystem string) *result.Result {
		c := bodies(200)
		c.FileSystem = fileSystem
		return cells(control, c)
	}
	small := cells(control, bodies(200))
	small.Environment.SocketBuffer = 212_992
	race, partial := cells(control), cells(control)
	race.Environment.Race, partial.Partial = true, "interrupted"
	faster := cells(inproc(benchtest.Six(100)...), bodies(150)) // a machine that copies faster than its sockets do
	faster.Floors = []result.Floor{floor("unix-stream", "B/s", 3e9), floor("copy", "B/s", 5e9)}
	wantLines(t, shown(t, faster, "floors"), "pickle unix-stream 0.988 ± 0.021") // 200 MB in 67.5 ms, as a multiple of 3 GB/s
	faulting := func(faults int64) *result.Result {                              // in each round, at 10 µs
		r := edited(cells(control, bodies(200)), func(b *result.Block) {
			b.Server.Usage.MinorFaults, b.Processes[0].Usage.MinorFaults = faults, faults
		})
		r.Floors = append(slices.Clip(floors), floor("first-touch", "B/s", 4096/10e-6))
		return r
	}
	const pickle = "pickle even workers=1 clients=1: "
	for name, tt := range map[string]struct {
		r    *result.Result
		want []string // prefixes, in order
	}{
		"nothing wrong":                    {cells(control, bodies(200)), nil},
		"as fast as the floor":             {cells(control, bodies(169)), nil}, // the interval extends below the floor
		"faster than bytes can be moved":   {cells(control, bodies(150)), []string{"error: " + pickle + "moves bytes at 4.35 GB/s (4.12 to 4.60), faster than the floor unix-stream (3.00 GB/s)"}},
		"faster than sockets, not copies":  {faster, nil},
		"not encrypted":                    {with("off"), nil},
		"faster than it can be encrypted":  {with("on"), []string{"error: " + pickle + "moves bytes at 1.72 GB/s (1.68 to 1.78), faster than the floor tls-stream (1.50 GB/s)"}}, // slower than copies
		"handles are as fast as they like": {cells(control, handles(benchtest.Six(150)...)), nil},
		"faster than the control":          {cells(control, bodies(80)), []string{"warning: " + pickle + "faster than inproc by 24.0 ms (22.2 to 25.8) per round"}},
		"slow control":                     {cells(inproc(benchtest.Six(110)...)), []string{"warning: inproc even workers=1 clients=1: takes 1.10× (1.08 to 1.12) the time of the same work"}},
		"perhaps a slow control":           {cells(inproc(60, 80, 110, 110, 150, 160)), nil},
		"slow beside a small overhead": {cells(steady, handles(124, 124.1, 124.2, 124.3, 124.4, 124.5)), // 4 ms longer than the work
			[]string{"warning: inproc even workers=1 clients=1: 4.00 ms slower than direct calls, so small overheads, such as the one of shm-slab (20.3 ms), are too small"}},
		"control slow by noise":     {cells(inproc(90, 96, 102, 104, 110, 115), handles(124, 124.1, 124.2, 124.3, 124.4, 124.5)), nil},
		"overhead that may be none": {cells(steady, handles(100, 102, 104, 105, 107, 108)), nil},
		"no control":                {cells(bodies(200)), []string{"warning: " + pickle + "no inproc cell"}},
		"shorter than its parts":    {edit(func(b *result.Block) { b.Train[0] *= 5 }), []string{"error: " + pickle + "block 0: its rounds took 392 ms, but each worker trained for"}},
		"not proved":                {edit(func(b *result.Block) { b.Proof = result.Proof{} }), []string{"warning: " + pickle + "its data was not proved"}},
		"costly recorder":           {edit(func(b *result.Block) { b.Spans = 1e5 }), []string{"warning: " + pickle + "recording spans took 2 % of its rounds, 4.00 ms per round"}}, // guard 7
		"recorder of a short round": {cells(inproc(0.1, 0.1, 0.1, 0.1)), nil},                                                                                                      // 4 µs of 100
		"costly in a short round":   {edited(cells(inproc(0.1, 0.1, 0.1, 0.1)), func(b *result.Block) { b.Spans = 200 }), []string{"warning: inproc even workers=1 clients=1: recording spans took 8 % of its rounds, 8.00 µs per round"}},
		"stolen time":               {edit(func(b *result.Block) { b.System = &usage.System{Busy: 1e9, Idle: 1e9, Steal: 2e9} }), []string{"warning: " + pickle + "other virtual machines took 50 % of the processors' time"}},
		"few page faults":           {faulting(3000), nil},
		"page faults": {faulting(10_000), []string{"warning: page faults may take over a fifth of the rounds of 1 cell, most of all of pickle, even, " +
			"1 worker, 1 client: 10000 a round, up to 100 ms if each takes 10.0 µs, as in the floor first-touch."}},
		"files in memory":         {on("tmpfs"), []string{"warning: " + pickle + "its files are on tmpfs, so no disk was measured"}},
		"files on a disk":         {on("ext4"), nil},
		"small sockets":           {small, []string{"warning: socket buffers hold 213 kB instead of the 1.05 MB that transports ask for"}},
		"a peak of somebody else": {edited(cells(inproc(benchtest.Six(104)...)), func(b *result.Block) { b.Server.StalePeak = true }), []string{"warning: the server's peak RSS is not known"}},
		"error without a number":  {cells(control, unknown), []string{"warning: " + pickle + "the codec's error is not known"}},
		"race detector":           {race, []string{"warning: built with the race detector"}},
		"interrupted":             {partial, []string{"warning: the run ended early (interrupted)"}},
	} {
		t.Run(name, func(t *testing.T) { found(t, tt.r, tt.want...) })
	}
}

// TestSharedLayouts: blocks that share a layout are reported (guard 28).
func TestSharedLayouts(t *testing.T) {
	both := benchtest.Interleaved(1) // eight blocks of each cell
	eight := make([]result.Layout, 8)
	for want, layouts := range map[string][2][]result.Layout{
		"warning: up to 8 blocks of a cell share 1 layout of base and head, ": {eight[:1], eight[:1]},
		"warning: up to 8 blocks of a cell share 3 layouts of head, ":         {eight, eight[:3]},
		"": {eight, eight},
	} {
		both.Programs[0].Layouts, both.Programs[1].Layouts = layouts[0], layouts[1]
		got := ""
		for _, f := range answer.Findings(metrics.New(both)) {
			if f.Rule == "shared_layouts" {
				got += answer.FindingLine(f)
			}
		}
		check.That(t, strings.HasPrefix(got, want) && (want != "" || got == ""), "got %q, want %q", got, want)
	}
}

// TestInsecure: a result lists the transports whose data could be read and changed on a
// network, and those that any worker could join. Transports with certificates at both ends
// are not listed.
func TestInsecure(t *testing.T) {
	r := benchtest.Encrypted(map[string]float64{"http": 1.8})
	r.Environment.Race = true // adds two more warnings
	r.Environment.Listen = machine.Insecure
	holds(t, shown(t, r), "without TLS (--insecure-network)", "without asking workers for certificates (--insecure-network)", "beyond the loopback interface")
	for listen, want := range map[string]string{"": "", machine.OffLoopback: "", machine.Insecure: " http:network=tcp unencrypted http:network=tcp:tls=on unproven"} {
		r.Environment.Listen = listen
		got := ""
		for _, f := range answer.Findings(metrics.New(r)) {
			if f.Rule == answer.Unencrypted || f.Rule == answer.Unproven {
				got += " " + f.Measured.Variant + " " + f.Rule
			}
		}
		check.Equal(t, got, want, listen)
	}
}

// TestFindingLines: a finding about several cells is one line, with the common parts of
// their names.
func TestFindingLines(t *testing.T) {
	r := benchtest.Result(six("a", 10), six("b", 10), benchtest.Cell("b", benchtest.Models["cnn"], 2, 4, benchtest.Six(10)...))
	for _, of := range [][2]string{{"a", "too large"}, {"b", "too large"}, {"c", "too slow"}} {
		r.Skipped = append(r.Skipped, result.Skipped{Transport: of[0], Variant: of[0], Model: "large", Workers: 1, Clients: 1, Why: of[1]})
	}
	wantLines(t, shown(t, r, "findings"), "Skipped: large, 1 worker, 1 client, 2 cells: too large", "Skipped: c, large, 1 worker, 1 client: too slow",
		"Warning: cnn, 3 cells: no inproc cell did the same work, so the overhead is unknown")
}
