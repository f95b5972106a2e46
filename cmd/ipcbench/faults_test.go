package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// A fault is an event that disturbs a run with agents on h1 and h2.
type fault struct {
	name   string
	do     func(r *rig.Rig, server, agent *child.Child)
	code   int // exit code of the server; -1 is a signal
	says   string
	others string // expected output of the other agent
}

const runFailed = `see the output of its server`

var faults = []fault{
	{"network goes", func(r *rig.Rig, _, _ *child.Child) { r.Down("h1") }, 1, `agent h1 is gone`, runFailed},
	{"agent stops", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGSTOP) }, 1, `agent h1 is gone`, runFailed},
	{"agent is killed", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGKILL) }, 1, `agent h1 is gone`, runFailed},
	{"agent is interrupted", func(_ *rig.Rig, _, agent *child.Child) { agent.Send(syscall.SIGINT) }, 1, `agent h1 has left: .*SIGINT`, runFailed},
	{"server is killed", func(_ *rig.Rig, server, _ *child.Child) { server.Send(syscall.SIGKILL) }, -1, ``, `the server of the run is gone`},
	{"server is interrupted", func(_ *rig.Rig, server, _ *child.Child) { server.Send(syscall.SIGINT) }, 130, `SIGINT`, `the run was interrupted at its server`},
}

// long returns the arguments of a run that only a fault ends. Its order seed puts a lane with workers on the hosts
// first; the control would keep them waiting.
func long(more ...string) []string {
	return append([]string{"--transport", "grpc-stream,http-shm", "--model", "uniform:64KiB/4", "--workers", "2", "--clients", "2",
		"--rounds", "100000", "--blocks", "1", "--train-ms", "20", "--order-seed", "3"}, more...)
}

// TestFaults: a fault of an agent or its host in a round ends the run soon, and the error names the agent. A fault of
// the server ends the agents. Nothing is left on their hosts.
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

// TestSpreadAgents: agents and their connections last while a run waits for its next cycle. If one is lost meanwhile, the
// run ends at once with an error that names it, and keeps what was measured.
func TestSpreadAgents(t *testing.T) {
	spread := func(d string) []string { return small("grpc-stream", "--rounds", "8", "--blocks", "2", "--spread", d) }
	r := measure(t, rig.New(t, "h0", "h1", "h2"), 2, nil, spread("8s")...)
	for _, c := range r.Cells {
		check.That(t, len(c.Blocks) == 2 && c.Proved() && len(r.Pauses) == 1, "%s: %d blocks, %d pauses", c.ID(), len(c.Blocks), len(r.Pauses))
	}

	hosts, out := rig.New(t, "h0", "h1", "h2"), filepath.Join(t.TempDir(), "r.json")
	server, line := serve(t, hosts, 2, append(spread("2h"), "--out", out)...)
	h1 := start(t, hosts, "h1", line, "agent", "--join", "-")
	h2 := start(t, hosts, "h2", line, "agent", "--join", "-")
	server.Says("the next cycle, 2 of 2, begins at")
	h1.Send(syscall.SIGKILL)
	server.Ends(soon, 1, `agent h1 is gone`)
	h2.Ends(soon, 1, runFailed)
	r = check.Value(result.ReadFile(out))(t)
	check.That(t, strings.Contains(r.Partial, "agent h1 is gone"), "ended early by %q", r.Partial)
	for _, c := range r.Cells {
		check.That(t, len(c.Blocks) == 1 && c.Proved(), "%s: %d blocks", c.ID(), len(c.Blocks))
	}
}

// clean checks what is left on the hosts after the server and the other agent have ended.
func (f fault) clean(t *testing.T, r *rig.Rig, agent *child.Child) {
	t.Helper()
	clean(t, r, "h2")
	if f.code >= 0 { // ipcbench clean removes what a killed server leaves
		clean(t, r, "h0")
	}
	_ = agent.Process.Signal(syscall.SIGCONT) // the agent may have ended already
	agent.Wait()
	clean(t, r, "h1")
}

// TestFaultsAnyTime: faults at random times have the effects that TestFaults checks, even while agents join and worker
// processes start. IPCBENCH_TEST_SEED repeats a run of this test.
func TestFaultsAnyTime(t *testing.T) {
	skip.Soak(t)
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
			waiting.Promise(t, "B25: the end of h2", 5*time.Second+soon, h2.Wait) // h2 may have come too late to join
			check.That(t, h2.ProcessState.ExitCode() != 0, "h2 has no fault to report: %s", &h2.Stderr)
			f.clean(t, r, h1)
		})
	}
}

// working waits until a worker process on a host has used CPU time.
func working(t *testing.T, r *rig.Rig, host string) {
	t.Helper()
	waiting.Until(t, "a round on "+host, func() bool {
		for _, pid := range r.Processes(host) {
			stat := proc.Read(pid, "stat")
			fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
			if strings.Contains(proc.Read(pid, "cmdline"), "\x00(worker)\x00") && len(fields) > 11 {
				ticks, _ := strconv.Atoi(fields[11]) // CPU time in user space
				return ticks > 5
			}
		}
		return false
	})
}

// TestGathering: connections to the join port that send nothing, or nonsense, do not keep agents from joining. If
// agents are missing in the end, the error gives their number and names the others.
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
	h1.Ends(soon, 1, `see the output of its server`)

	server, line = serve(t, r, 1, small("http")...)
	strangers(line)
	h1 = start(t, r, "h1", line, "agent", "--join", "-")
	server.Ends(patience, 0, ``)
	h1.Ends(soon, 0, ``)
	clean(t, r, "h0")
	clean(t, r, "h1")
}
