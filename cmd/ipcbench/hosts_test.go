package main

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/waiting"
)

// programEnv makes the test binary run as ipcbench.
const programEnv = "IPCBENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	_ = flag.Set("test.parallel", "4") // tests mostly wait; the flag exists
	os.Exit(m.Run())
}

// Limits for an undisturbed run, and for processes that end after it.
const (
	patience = waiting.Limit
	soon     = 10 * time.Second
)

// start starts ipcbench on a host, with stdin as its standard input.
func start(t *testing.T, r *rig.Rig, host, stdin string, args ...string) *child.Child {
	t.Helper()
	self := check.Value(os.Executable())(t)
	cmd := r.Command(host, self, args...)
	cmd.Env, cmd.Stdin = append(cmd.Env, programEnv+"=1"), strings.NewReader(stdin)
	return child.Start(t, cmd)
}

// joinLine matches the line with which a server invites agents.
const joinLine = `(?m)^ipcbench://.*\n`

// serve starts a run whose workers are on the hosts of that many agents. It returns the server and its join line.
func serve(t *testing.T, r *rig.Rig, agents int, args ...string) (server *child.Child, line string) {
	t.Helper()
	server = start(t, r, "h0", "", append([]string{"run", "--listen", r.Addr("h0"), "--agents", strconv.Itoa(agents)}, args...)...)
	return server, server.Says(joinLine)
}

// clean waits until no process is left on a host, and checks that its folders are empty.
func clean(t *testing.T, r *rig.Rig, host string) { t.Helper(); cleanOf(t, r, host, "*") }

// cleanOf is clean for only the files that match a pattern.
func cleanOf(t *testing.T, r *rig.Rig, host, pattern string) {
	t.Helper()
	waiting.Until(t, "the processes of "+host+" to end", func() bool { return len(r.Processes(host)) == 0 })
	for _, dir := range []string{r.Shm(host), r.Tmp(host)} {
		left, err := filepath.Glob(filepath.Join(dir, pattern))
		check.That(t, err == nil && len(left) == 0, "%s: left: %v, %v", host, left, err)
	}
}

// measure carries out a whole run with agents on h1, h2 and so on, started with the arguments with. It returns the
// result, and checks that nothing is left on any host.
func measure(t *testing.T, r *rig.Rig, agents int, with []string, args ...string) *result.Result {
	t.Helper()
	out := filepath.Join(t.TempDir(), "result.json")
	server, line := serve(t, r, agents, append(args, "--out", out)...)
	var all []*child.Child
	for i := range agents {
		all = append(all, start(t, r, "h"+strconv.Itoa(i+1), line, append([]string{"agent", "--join", "-"}, with...)...))
	}
	server.Ends(patience, 0, `wrote `)
	for _, a := range all {
		a.Ends(soon, 0, ``)
	}
	for i := range agents + 1 {
		clean(t, r, "h"+strconv.Itoa(i))
	}
	return check.Value(result.ReadFile(out))(t)
}

// small returns the arguments of a run of one block of two rounds, with one client per lane.
func small(transports string, more ...string) []string {
	return append([]string{"--transport", transports, "--model", "uniform:64KiB/4", "--workers", "2", "--clients", "2", "--rounds", "2", "--blocks", "1"}, more...)
}

// cell returns the only cell of a transport, which must have one block, proved.
func cell(t *testing.T, r *result.Result, transport string) result.Cell {
	t.Helper()
	i := slices.IndexFunc(r.Cells, func(c result.Cell) bool { return c.Transport == transport })
	check.Need(t, i >= 0 && r.Cells[i].Proved() && len(r.Cells[i].Blocks) == 1,
		"%s: want one block that is proved; skipped: %+v", transport, r.Skipped)
	return r.Cells[i]
}

// TestTransports: every transport that can leave the host works with one worker on each of two other hosts, and each
// round's model equals the reference chain on one host. One host's clock is 100,000 s ahead, so times across two clocks
// are not measured.
func TestTransports(t *testing.T) {
	r := rig.New(t, "h0", "h1", "h2")
	r.Ahead("h1", 100_000*time.Second)
	shared := t.TempDir()
	names := []string{"pickle", "storage", "grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm"}
	args := small("pickle,storage:dir=" + shared + ",grpc-tensor,grpc-batch,grpc-stream,http,http-shm")
	result := measure(t, r, 2, []string{"--allow-dir", shared}, args...)
	for _, name := range names {
		c := cell(t, result, name)
		got := c.Hosts
		check.That(t, got == "h1:1,h2:1" && c.Launcher == "agents", "%s: processes are on %q, started by %s", name, got, c.Launcher)
		b := c.Blocks[0]
		if p := b.Processes; !p[0].OtherClock || p[1].OtherClock || b.Down != nil || b.Up != nil {
			t.Errorf("%s: clocks of %+v, down %v, up %v: want another clock on h1 alone", name, p, b.Down, b.Up)
		}
		for i, rtt := range b.RTT {
			train := b.Train[i]
			check.That(t, train > 0 && train <= rtt, "%s: client %d: a training of %v in %v", name, i, time.Duration(train), time.Duration(rtt))
		}
	}
	left, err := os.ReadDir(shared)
	check.That(t, err == nil && len(left) <= 0, "left in the folder: %v, %v", left, err)
}
