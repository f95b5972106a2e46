package place

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestPlaceOver: every process has a host. Spread, hosts differ by at most one process, and the first hosts have more.
// Filled, no host has more processes than processors before every other host has as many processes as processors.
func TestPlaceOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		processors := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 12).Draw(t, "processors")
		n := rapid.IntRange(0, 200).Draw(t, "processes")
		p := Rule{Fill: rapid.Bool().Draw(t, "fill")}
		at := p.over(n, processors)
		check.Need(t, len(at) == n, "%d of %d processes have a host", len(at), n)
		got := make([]int, len(processors))
		for _, host := range at {
			got[host]++
		}
		if !p.Fill {
			check.Need(t, slices.Max(got)-slices.Min(got) <= 1 && slices.IsSortedFunc(got, func(a, b int) int { return b - a }),
				"spread: %v", got)
			return
		}
		all, before := 0, 0
		for _, c := range processors {
			all += max(1, c)
		}
		for host, c := range processors {
			turns, rest := n/all, n%all
			want := turns*max(1, c) + min(max(1, c), max(0, rest-before))
			before += max(1, c)
			check.Need(t, got[host] == want, "filled: %d processes on hosts of %v processors: got %v", n, processors, got)
		}
	})
}

func cellOf(t *testing.T, variant string) session.Spec {
	t.Helper()
	model := " uniform:64MiB/4"
	if strings.HasPrefix(variant, "shm-tensor") {
		model = " uniform:1MiB/4" // fits in the 64 MiB that containers have in /dev/shm
	}
	return benchtest.Specs[session.Spec](t, all.Transports(), variant+model+" workers=4 clients=4 depth=1")[0]
}

// TestHostsCheck: a cell that cannot run on its hosts is session.Unfit, and the error names the host, the reason and a remedy.
func TestHostsCheck(t *testing.T) {
	const plenty = 1 << 40
	seats := func(server, h1, h2 int64) []workerHost {
		all := []workerHost{{name: "h1", processors: 2, memory: h1, source: "its cgroup"}, {name: "h2", processors: 2, memory: h2, source: "its cgroup"}}
		if server > 0 {
			all = slices.Insert(all, 0, workerHost{name: ServerHost, processors: 4, memory: server, source: "MemAvailable"})
		}
		return all
	}
	for _, c := range []struct {
		cell string
		rule Rule
		all  []workerHost
		on   string
		want string // if empty, the cell fits
	}{
		{"http:network=tcp", Rule{}, seats(0, plenty, plenty), "h1:2,h2:2", ""},
		{"http:network=tcp", Rule{Fill: true, Server: true}, seats(plenty, plenty, plenty), "server:4", ""},
		{"shm-slab", Rule{Fill: true, Server: true}, seats(plenty, plenty, plenty), "server:4", ""},
		{"storage", Rule{Fill: true, Server: true}, seats(plenty, plenty, plenty), "server:4", ""},
		{"http", Rule{Fill: true, Server: true}, seats(plenty, plenty, plenty), "server:4", ""},
		{"http:network=tcp", Rule{Server: true}, seats(plenty, plenty, plenty), "server:2,h1:1,h2:1", ""},
		{"shm-slab", Rule{Server: true}, seats(plenty, plenty, plenty), "server:2,h1:1,h2:1", "shares memory, but lanes on h1 are on another host"},
		{"shm-tensor", Rule{}, seats(0, plenty, plenty), "h1:2,h2:2", "shares memory, but lanes on h1"},
		{"storage:network=tcp", Rule{}, seats(0, plenty, plenty), "h1:2,h2:2", "a directory that hosts do not share, but lanes on h1 are on another host: set dir= to a directory that they share"},
		{"http", Rule{}, seats(0, plenty, plenty), "h1:2,h2:2", "uses Unix sockets, but lanes on h1 are on another host: remove network=unix"},
		{"http:network=tcp", Rule{}, seats(0, plenty, 100<<20), "h1:2,h2:2", "of memory on h2, but its cgroup has 104 MB (100MiB): choose a smaller model"},
		{"http:network=tcp", Rule{Server: true, Fill: true}, seats(100<<20, plenty, plenty), "server:4", "of memory on server, but MemAvailable has"},
		{"inproc", Rule{}, seats(0, 1, 1), "", ""},
	} {
		h, s := &Hosts{rule: c.rule, all: c.all}, cellOf(t, c.cell)
		got, _ := h.At(s)
		check.That(t, got == c.on, "%s, %v: processes are on %s, want %s", c.cell, c.rule, got, c.on)
		err := h.Check(s)
		unfit := (*session.Unfit)(nil)
		check.That(t, errors.As(err, &unfit) == (c.want != "") && strings.Contains(fmt.Sprint(err), c.want),
			"%s, %v: got error %v\nwant one with %q", c.cell, c.rule, err, c.want)
	}
}

// TestHostsRoom: a host needs a share of the cell's memory in proportion to its processes.
func TestHostsRoom(t *testing.T) {
	s := cellOf(t, "pickle:network=tcp")
	whole := s.Memory()
	for _, c := range []struct {
		h1 int64
		ok bool
	}{{whole * 2 / 6, true}, {whole*2/6 - 100, false}} { // two of four workers; the server counts as two
		h := &Hosts{all: []workerHost{{name: "h1", memory: c.h1}, {name: "h2"}}}
		err := h.checkMemory(s)
		check.That(t, (err == nil) == c.ok, "%d of %d bytes: got error %v", c.h1, whole, err)
	}
}

// TestTurn: if there are many hosts, a cycle measures the floors of only a few of them, and each host has its turn.
func TestTurn(t *testing.T) {
	h := &Hosts{}
	for i := range 10 {
		h.all = append(h.all, workerHost{name: fmt.Sprint("h", i)})
	}
	times := map[string]int{}
	for turn := range 6 {
		n := 0
		for _, s := range h.all {
			if h.Due(s.name, turn) {
				times[s.name]++
				n++
			}
		}
		check.That(t, n != 0 && n <= hostsATurn, "turn %d: floors of %d hosts", turn, n)
	}
	for _, s := range h.all {
		check.Equal(t, times[s.name], 6/3, s.name, "its floors are measured  times")
	}
}
