package report

import (
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
	"ipcbench/report/metrics"
)

// TestFindings: what cannot be is told, and what can is not (guard 21).
func TestFindings(t *testing.T) {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	floors := []result.Floor{
		{Name: "unix-stream", Unit: "B/s", Blocks: [][]float64{{3e9}, {3e9}, {3.1e9}, {3e9}, {3e9}, {3e9}}},
		{Name: "tls-stream", Unit: "B/s", Bytes: 1e8, Blocks: [][]float64{{1.5e9}, {1.5e9}, {1.5e9}, {1.5e9}, {1.5e9}, {1.5e9}}},
		{Name: "copy", Unit: "B/s", Blocks: [][]float64{{2e9}, {2e9}, {2e9}, {2e9}, {2e9}, {2e9}}},
		{Name: "work", Unit: "s", Model: "even", Clients: 1, Blocks: [][]float64{{0.1}, {0.1}, {0.1}, {0.1}, {0.1}, {0.1}}},
	}
	inproc := benchtest.Cell("inproc", m, 1, 1, benchtest.Six(104)...)
	bodies := func(rounds ...float64) result.Cell {
		return benchtest.Count(benchtest.Cell("pickle", m, 1, 1, rounds...), "body.tensors", 10)
	}
	with := func(tls string, c result.Cell) result.Cell {
		c.Settings = map[string]string{"network": "tcp", "tls": tls}
		return c
	}
	edit := func(c result.Cell, f func(b *result.Block)) result.Cell {
		for i := range c.Blocks {
			f(&c.Blocks[i])
		}
		return c
	}
	on := func(fileSystem string, c result.Cell) result.Cell {
		c.FileSystem = fileSystem
		return c
	}
	tests := []struct {
		name  string
		cells []result.Cell
		want  []string // prefixes, in order
	}{
		{"nothing wrong", []result.Cell{inproc, bodies(benchtest.Six(200)...)}, nil},
		{"as fast as the floor", []result.Cell{inproc, bodies(benchtest.Six(169)...)}, nil}, // its interval reaches below
		{"faster than bytes can be moved", []result.Cell{inproc, bodies(benchtest.Six(150)...)},
			[]string{"error: pickle even workers=1 clients=1: moves bytes at 4.35 GB/s (4.12 to 4.60), faster than the floor unix-stream (3.00 GB/s)"}},
		{"not encrypted", []result.Cell{inproc, with("off", bodies(benchtest.Six(220)...))}, nil},
		{"faster than bytes can be encrypted", []result.Cell{inproc, with("on", bodies(benchtest.Six(220)...))}, // slower than they can be copied
			[]string{"error: pickle even workers=1 clients=1: moves bytes at 1.72 GB/s (1.68 to 1.78), faster than the floor tls-stream (1.50 GB/s)"}},
		{"handles may be as fast as they like", []result.Cell{inproc, benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, benchtest.Six(150)...), "handle.tensors", 10)}, nil},
		{"faster than the control", []result.Cell{inproc, bodies(benchtest.Six(80)...)},
			[]string{"warning: pickle even workers=1 clients=1: faster than inproc by 24.0 ms (22.2 to 25.8) a round"}},
		{"slow control", []result.Cell{benchtest.Cell("inproc", m, 1, 1, benchtest.Six(110)...)},
			[]string{"warning: inproc even workers=1 clients=1: takes 1.10× (1.08 to 1.12) the time of the same work"}},
		{"perhaps a slow control", []result.Cell{benchtest.Cell("inproc", m, 1, 1, 60, 80, 110, 110, 150, 160)}, nil},
		// 4 ms more than the work.
		{"control slow beside a small overhead", []result.Cell{benchtest.Cell("inproc", m, 1, 1, 103.9, 103.95, 104, 104, 104.05, 104.1),
			benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, 124, 124.1, 124.2, 124.3, 124.4, 124.5), "handle.tensors", 10)},
			[]string{"warning: inproc even workers=1 clients=1: 4.00 ms slower than the same work called directly: overheads as small as that of shm-slab (20.3 ms) are too small"}},
		{"control slow by noise", []result.Cell{benchtest.Cell("inproc", m, 1, 1, 90, 96, 102, 104, 110, 115),
			benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, 124, 124.1, 124.2, 124.3, 124.4, 124.5), "handle.tensors", 10)}, nil},
		{"overhead that may be none", []result.Cell{benchtest.Cell("inproc", m, 1, 1, 103.9, 103.95, 104, 104, 104.05, 104.1),
			benchtest.Count(benchtest.Cell("shm-slab", m, 1, 1, 100, 102, 104, 105, 107, 108), "handle.tensors", 10)}, nil},
		{"no control", []result.Cell{bodies(benchtest.Six(200)...)}, []string{"warning: pickle even workers=1 clients=1: no cell of inproc"}},
		{"shorter than its parts", []result.Cell{inproc, edit(bodies(benchtest.Six(200)...), func(b *result.Block) { b.Train[0] *= 5 })},
			[]string{"error: pickle even workers=1 clients=1: block 0: its rounds took 392 ms, but each worker trained for"}},
		{"not proved", []result.Cell{inproc, edit(bodies(benchtest.Six(200)...), func(b *result.Block) { b.Proof = result.Proof{} })},
			[]string{"warning: pickle even workers=1 clients=1: its data was not proved"}},
		{"costly recorder", []result.Cell{inproc, edit(bodies(benchtest.Six(200)...), func(b *result.Block) { b.Spans = 1e5 })},
			[]string{"warning: pickle even workers=1 clients=1: recording took 2 % of its rounds, 4.00 ms each"}}, // guard 7
		{"recorder of a short round", []result.Cell{benchtest.Cell("inproc", m, 1, 1, 0.1, 0.1, 0.1, 0.1)}, nil}, // 4 µs of 100
		{"costly recorder of a short round", []result.Cell{edit(benchtest.Cell("inproc", m, 1, 1, 0.1, 0.1, 0.1, 0.1), func(b *result.Block) { b.Spans = 200 })},
			[]string{"warning: inproc even workers=1 clients=1: recording took 8 % of its rounds, 8.00 µs each"}},
		{"stolen time", []result.Cell{inproc, edit(bodies(benchtest.Six(200)...), func(b *result.Block) {
			b.System = &usage.System{Busy: time.Second, Idle: time.Second, Steal: 2 * time.Second}
		})}, []string{"warning: pickle even workers=1 clients=1: other virtual machines took 50 % of the processors' time"}},
		{"files in memory", []result.Cell{inproc, on("tmpfs", bodies(benchtest.Six(200)...))}, []string{"warning: pickle even workers=1 clients=1: its files are in memory (tmpfs)"}},
		{"files on a disk", []result.Cell{inproc, on("ext4", bodies(benchtest.Six(200)...))}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := benchtest.Result(tt.cells...)
			r.Floors = floors
			got := Findings(metrics.New(r))
			check.Need(t, len(got) == len(tt.want), "got %v, want %d of them", got, len(tt.want))
			for i, f := range got {
				if !strings.HasPrefix(FindingLine(f), tt.want[i]) {
					t.Errorf("got  %s\nwant %s…", FindingLine(f), tt.want[i])
				}
				for _, name := range []string{"text", "md"} {
					document := strings.Join(strings.Fields(format(t, name, r)), " ")
					if text := strings.ReplaceAll(f.Text, ">", "&gt;"); !strings.Contains(document, f.Text) && !strings.Contains(document, text) {
						t.Errorf("the %s report does not hold it:\n%s", name, document)
					}
				}
			}
		})
	}
	small := benchtest.Result(inproc, bodies(benchtest.Six(200)...))
	small.Environment.SocketBuffer = 212_992
	if got := Findings(metrics.New(small)); len(got) != 1 || !strings.HasPrefix(got[0].Text, "sockets hold 213 kB, and transports ask for 1.05 MB") {
		t.Errorf("got %v", got)
	}
	stale := benchtest.Result(edit(benchtest.Cell("inproc", m, 1, 1, benchtest.Six(104)...), func(b *result.Block) { b.Server.StalePeak = true }))
	if got := Findings(metrics.New(stale)); len(got) != 1 || !strings.HasPrefix(got[0].Text, "the server's peak RSS is not known") {
		t.Errorf("got %v", got)
	}
	both := benchtest.Interleaved(1) // with eight blocks of each cell, and no layouts: as a file of one a side
	both.Against = &both.Environment
	shared := func() (texts []string) {
		for _, f := range Findings(metrics.New(both)) {
			if f.Rule == "shared_layouts" {
				texts = append(texts, FindingLine(f))
			}
		}
		return texts
	}
	if got := shared(); len(got) != 1 || !strings.HasPrefix(got[0], "warning: up to 8 blocks of a cell share 1 layout of base and head: ") {
		t.Errorf("got %q", got)
	}
	both.Layouts = &result.Layouts{Base: make([]result.Layout, 8), Head: make([]result.Layout, 3)}
	if got := shared(); len(got) != 1 || !strings.HasPrefix(got[0], "warning: up to 8 blocks of a cell share 3 layouts of head: ") {
		t.Errorf("got %q", got)
	}
	both.Layouts.Head = both.Layouts.Base
	if got := shared(); got != nil {
		t.Errorf("got %q of a layout a block", got)
	}
	race := benchtest.Result(inproc)
	race.Environment.Race, race.Partial = true, "interrupted"
	if got := Findings(metrics.New(race)); len(got) != 2 || got[0].Cell != "" || !strings.Contains(got[1].Text, "ended early (interrupted)") {
		t.Errorf("got %v", got)
	}
}

// TestFindingLines: what holds of several cells is one line, named by what their
// names have in common.
// TestInsecure: a result says of each transport what could be read and changed on a
// network, or who could take part, and nothing of what both ends had certificates for.
func TestInsecure(t *testing.T) {
	r := benchtest.Encrypted(map[string]float64{"http": 1.8})
	r.Environment.Race = true // two more warnings
	r.Environment.Listen = machine.Insecure
	for _, want := range []string{"without TLS (--insecure-network)", "asked workers for no certificate (--insecure-network)"} {
		text := shown(t, r)
		check.That(t, strings.Contains(text, want), "no %q on the first screen:\n%s", want, text)
	}
	for listen, want := range map[string]string{
		"": "", machine.OffLoopback: "", machine.Insecure: "http:network=tcp unencrypted, http:network=tcp:tls=on unproven",
	} {
		r.Environment.Listen = listen
		var got []string
		for _, f := range Findings(metrics.New(r)) {
			if f.Rule == Unencrypted || f.Rule == Unproven {
				got = append(got, f.Measured.Variant+" "+f.Rule)
				check.That(t, strings.Contains(f.Text, "off the loopback interface"), "%s: %s", f.Rule, f.Text)
			}
		}
		text := strings.Join(got, ", ")
		check.That(t, text == want, "%q: got %s, want %s", listen, text, want)
	}
}

func TestFindingLines(t *testing.T) {
	m := benchtest.Models["cnn"]
	r := benchtest.Result(benchtest.Cell("a", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 1, 1, benchtest.Six(10)...), benchtest.Cell("b", m, 2, 4, benchtest.Six(10)...))
	r.Skipped = []result.Skipped{
		{Transport: "a", Variant: "a", Model: "large", Workers: 1, Clients: 1, Why: "too large"}, {Transport: "b", Variant: "b", Model: "large", Workers: 1, Clients: 1, Why: "too large"},
		{Transport: "c", Variant: "c", Model: "large", Workers: 1, Clients: 1, Why: "too slow"},
	}
	wantLines(t, shown(t, r, "findings"), "skipped: large workers=1 clients=1, 2 cells: too large", "skipped: c large workers=1 clients=1: too slow",
		"warning: 3 cells: no cell of inproc did the same work: the overhead is not known")
}

// TestCopyFloor: a machine that copies faster than its sockets carry is not
// suspected.
func TestCopyFloor(t *testing.T) {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	r := benchtest.Result(benchtest.Cell("inproc", m, 1, 1, benchtest.Six(100)...), benchtest.Count(benchtest.Cell("storage", m, 1, 1, benchtest.Six(150)...), "body.tensors", 1))
	r.Floors = []result.Floor{
		{Name: "unix-stream", Unit: "B/s", Blocks: [][]float64{{3e9}, {3e9}}},
		{Name: "copy", Unit: "B/s", Blocks: [][]float64{{5e9}, {5e9}}},
	}
	got := Findings(metrics.New(r))
	check.That(t, len(got) == 0, "got %v", got)
	wantLines(t, shown(t, r, "floors"), "storage unix-stream 0.988 ± 0.021") // 200 MB in 67.5 ms, as a multiple of 3 GB/s
}
