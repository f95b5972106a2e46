package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// A fault is what happens to a run with agents on h1 and h2.
type fault struct {
	name   string
	do     func(r *rig.Rig, server, agent *child.Child)
	code   int // of the server; -1 is by a signal
	says   string
	others string // what the other agent says
}

const runFailed = `its server says why`

var faults = []fault{
	{"network goes", func(r *rig.Rig, _, _ *child.Child) { r.Down("h1") }, 1, `agent h1 is gone`, runFailed},
	{"agent stops", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGSTOP) }, 1, `agent h1 is gone`, runFailed},
	{"agent is killed", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGKILL) }, 1, `agent h1 is gone`, runFailed},
	{"agent is interrupted", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGINT) }, 1, `agent h1 has left: .*SIGINT`, runFailed},
	{"server is killed", func(_ *rig.Rig, server, _ *child.Child) { server.Send(syscall.SIGKILL) }, -1, ``, `the server of the run is gone`},
	{"server is interrupted", func(_ *rig.Rig, server, _ *child.Child) { server.Send(syscall.SIGINT) }, 130, `SIGINT`, `the run was interrupted at its server`},
}

// long is a run that ends by a fault only. The order of its blocks is one that begins
// with a lane whose workers are on the hosts: the control would keep them waiting.
func long(more ...string) []string {
	return append([]string{"--transport", "grpc-stream,http-shm", "--model", "uniform:64KiB/4", "--workers", "2", "--clients", "2",
		"--rounds", "100000", "--blocks", "1", "--train-ms", "20", "--order-seed", "1"}, more...)
}

// TestFaults: what happens in a round to an agent or to its host ends the run soon, by
// name, and what happens to the server ends the agents. Nothing is left on their hosts.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			if f.name != "agent is killed" {
				skip.Long(t)
			}
			t.Parallel()
			r := rig.New(t, "h0", "h1", "h2")
			server, line := serve(t, r, 2, long()...)
			h1 := start(t, r, "h1", line, "agent", "--join", "-")
			h2 := start(t, r, "h2", line, "agent", "--join", "-")
			working(t, r, "h1")
			f.do(r, server, h1)
			server.Ends(soon, f.code, f.says)
			h2.Ends(soon, max(f.code, 1), f.others)
			f.clean(t, r, h1)
		})
	}
}

// clean looks at what is left once the server and the other agent have ended.
func (f fault) clean(t *testing.T, r *rig.Rig, agent *child.Child) {
	t.Helper()
	clean(t, r, "h2")
	if f.code >= 0 { // what a killed server leaves is for ipcbench clean
		clean(t, r, "h0")
	}
	_ = agent.Process.Signal(syscall.SIGCONT) // it may have ended
	agent.Wait()
	clean(t, r, "h1")
}

// TestFaultsAnyTime: the same at random times, also while agents join and while worker
// processes start. IPCBENCH_TEST_SEED repeats a run of this test.
func TestFaultsAnyTime(t *testing.T) {
	onlySoak(t)
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("IPCBENCH_TEST_SEED"); text != "" {
		seed = check.Value(strconv.ParseUint(text, 10, 64))(t)
	}
	t.Logf("IPCBENCH_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range 10 * len(faults) {
		f, at := faults[n%len(faults)], time.Duration(random.Int64N(int64(3*time.Second)))
		t.Run(fmt.Sprintf("%s after %v", f.name, at.Round(time.Millisecond)), func(t *testing.T) {
			t.Parallel()
			r := rig.New(t, "h0", "h1", "h2")
			server, line := serve(t, r, 2, long("--join-timeout", "5s")...)
			h1 := start(t, r, "h1", line, "agent", "--join", "-", "--join-timeout", "5s")
			h2 := start(t, r, "h2", line, "agent", "--join", "-", "--join-timeout", "5s")
			waiting.Pause(at)
			f.do(r, server, h1)
			server.Ends(5*time.Second+soon, f.code, f.says+`|1 of 2 agents`)
			waiting.Promise(t, "B25: the end of h2", 5*time.Second+soon, h2.Wait) // it may have come too late to join
			check.That(t, h2.ProcessState.ExitCode() != 0, "h2 has no fault to report: %s", &h2.Stderr)
			f.clean(t, r, h1)
		})
	}
}

// working waits until a worker process on a host has trained.
func working(t *testing.T, r *rig.Rig, host string) {
	t.Helper()
	waiting.Until(t, "a round on "+host, func() bool {
		for _, pid := range r.Processes(host) {
			stat := proc.Read(pid, "stat")
			fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
			if strings.Contains(proc.Read(pid, "environ"), "_IPCBENCH_WORKER=") && len(fields) > 11 {
				ticks, _ := strconv.Atoi(fields[11]) // in user space
				return ticks > 5
			}
		}
		return false
	})
}

// TestGathering: whoever says nothing, or nonsense, at the port where agents join does not
// keep them from it, and who has not come in time is missed by count, those who have by
// name.
func TestGathering(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	r := rig.New(t, "h0", "h1", "h2")
	port := func(line string) string { return regexp.MustCompile(`:([0-9]+)/#`).FindStringSubmatch(line)[1] }
	strangers := func(line string) {
		for _, says := range []string{"head -c 1000000 /dev/urandom", "printf 'GET / HTTP/1.1\r\n\r\n'", "printf '\\x16\\x03\\x01\\xff\\xff'; sleep 100", "sleep 100"} {
			child.Start(t, r.Command("h2", "bash", "-c", "("+says+") > /dev/tcp/"+r.Addr("h0")+"/"+port(line)))
		}
	}
	server, line := serve(t, r, 2, small("http", "--join-timeout", "2s")...)
	strangers(line)
	h1 := start(t, r, "h1", line, "agent", "--join", "-")
	server.Ends(soon, 1, `1 of 2 agents have joined at 10\.77\.0\.1:[0-9]+ within 2s: h1 `)
	h1.Ends(soon, 1, `its server says why`)

	server, line = serve(t, r, 1, small("http")...)
	strangers(line)
	h1 = start(t, r, "h1", line, "agent", "--join", "-")
	server.Ends(patience, 0, ``)
	h1.Ends(soon, 0, ``)
	clean(t, r, "h0")
	clean(t, r, "h1")
}
