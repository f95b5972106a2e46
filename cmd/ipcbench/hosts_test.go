package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/rig"
)

// programEnv makes the tests' program ipcbench itself.
const programEnv = "IPCBENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// How long a run may take that nothing disturbs, and one that is over.
const (
	patience = 60 * time.Second
	soon     = 10 * time.Second
)

// A program is ipcbench on a host.
type program struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	mu     sync.Mutex
	stderr bytes.Buffer // guarded by mu
}

func (p *program) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.Write(text)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// start starts ipcbench on a host, with a line for its stdin.
func start(t *testing.T, r *rig.Rig, host, stdin string, args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &program{t: t, name: host + ": ipcbench " + args[0], cmd: r.Command(host, self, args...), done: make(chan struct{})}
	p.cmd.Env = append(p.cmd.Env, programEnv+"=1")
	p.cmd.Stdin, p.cmd.Stderr = strings.NewReader(stdin), p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // its exit code is looked at later
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if it has not ended
		<-p.done
	})
	return p
}

// serve starts a run whose workers are on the hosts of so many agents, and returns its
// join line, too.
func serve(t *testing.T, r *rig.Rig, agents int, args ...string) (server *program, line string) {
	t.Helper()
	server = start(t, r, "h0", "", append([]string{"run", "--listen", r.Addr("h0"), "--agents", strconv.Itoa(agents)}, args...)...)
	return server, server.says(regexp.MustCompile(`(?m)^ipcbench://.*\n`))
}

// says waits until the program has said what pattern matches.
func (p *program) says(pattern *regexp.Regexp) (text string) {
	p.t.Helper()
	eventually(p.t, patience, p.name+" to say "+pattern.String(), func() bool {
		text = pattern.FindString(p.said())
		select {
		case <-p.done:
			if text == "" {
				p.t.Fatalf("%s has ended:\n%s", p.name, p.said())
			}
		default:
		}
		return text != ""
	})
	return text
}

// ends waits until the program has ended, and says how it must have: with which code, and
// with which words on stderr.
func (p *program) ends(within time.Duration, code int, pattern string) {
	p.t.Helper()
	began := time.Now()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("%s has not ended after %v:\n%s", p.name, within, p.said())
	}
	p.t.Logf("%s has ended with %d after %v", p.name, p.cmd.ProcessState.ExitCode(), time.Since(began).Round(time.Millisecond))
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("%s: exit code %d, want %d\n%s", p.name, got, code, p.said())
	}
	if !regexp.MustCompile(pattern).MatchString(p.said()) {
		p.t.Errorf("%s: stderr does not match %q:\n%s", p.name, pattern, p.said())
	}
}

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > within {
			t.Fatalf("waited %v for %s", within, what)
		}
	}
}

// clean waits until nothing of ours runs on a host, and nothing is left in its folders.
func clean(t *testing.T, r *rig.Rig, host string) {
	t.Helper()
	eventually(t, soon, "the processes of "+host+" to end", func() bool { return len(r.Processes(host)) == 0 })
	for _, dir := range []string{r.Shm(host), r.Tmp(host)} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left in %s: %v, %v", host, dir, left, err)
		}
	}
}

// measure is a whole run with agents on h1, h2 and so on, and returns its result.
func measure(t *testing.T, r *rig.Rig, agents int, args ...string) *bench.Result {
	t.Helper()
	out := filepath.Join(t.TempDir(), "result.json")
	server, line := serve(t, r, agents, append(args, "--out", out)...)
	var all []*program
	for i := range agents {
		all = append(all, start(t, r, "h"+strconv.Itoa(i+1), line, "agent", "--join", "-"))
	}
	server.ends(patience, 0, `wrote `)
	for _, a := range all {
		a.ends(soon, 0, ``)
	}
	for i := range agents + 1 {
		clean(t, r, "h"+strconv.Itoa(i))
	}
	result, err := bench.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// small is a run of one block of two rounds.
func small(transports string, more ...string) []string {
	return append([]string{"--transport", transports, "--model", "uniform:64KiB/4", "--workers", "2", "--clients", "4", "--rounds", "2", "--blocks", "1"}, more...)
}

// TestTransports: every transport that can leave the host does, with a worker on each of
// two others: each round's model is that of direct calls on one host.
func TestTransports(t *testing.T) {
	r := rig.New(t, "h0", "h1", "h2")
	names := []string{"pickle", "grpc-tensor", "grpc-batch", "grpc-stream", "http", "http-shm"}
	result := measure(t, r, 2, small(strings.Join(names, ","))...)
	for _, c := range result.Cells {
		if c.Transport == "inproc" {
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == c.Transport })
		if !c.Proved() || c.Launcher != "agents" || len(c.Blocks) != 1 || len(c.Blocks[0].Processes) != 2 {
			t.Errorf("%s: proved %v, by %s, %d blocks", c.ID(), c.Proved(), c.Launcher, len(c.Blocks))
		}
	}
	if len(names) > 0 {
		t.Errorf("not measured: %v; skipped: %v", names, result.Skipped)
	}
}
