package cli

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/scratch"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// A fault is a signal, or several, and what a run must do then.
type fault struct {
	name string
	do   func(t *testing.T, r *faultRun)
	code int    // of the run; -1 is by a signal
	says string // pattern of its stderr
	soon time.Duration
	late bool // a worker may have done its work before it was hit: then the run goes on
}

// faults are what is tried. Nothing may take as long as an interrupted run is
// allowed to, and most takes a fraction of a second.
func faults() []fault {
	hit := func(signal syscall.Signal) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) { r.hit(t, signal) }
	}
	server := func(signal syscall.Signal) func(*testing.T, *faultRun) {
		return func(t *testing.T, r *faultRun) { r.signal(t, signal) }
	}
	return []fault{
		{"kill worker", hit(syscall.SIGKILL), 1, `process [01] exited: signal: killed`, 10 * time.Second, true},
		{"terminate worker", hit(syscall.SIGTERM), 1, `process [01] exited: signal: terminated`, 10 * time.Second, true},
		{"stop worker", hit(syscall.SIGSTOP), 1, `process [01] .* is stopped \(T\)`, 10 * time.Second, true},
		{"stop worker, interrupt", func(t *testing.T, r *faultRun) {
			r.hit(t, syscall.SIGSTOP)
			r.signal(t, syscall.SIGINT)
		}, 130, `interrupted by SIGINT`, 10 * time.Second, false},
		{"stop and continue worker, interrupt", func(t *testing.T, r *faultRun) {
			pid := r.hit(t, syscall.SIGSTOP)
			<-time.After(r.pause) // less than the round limit
			_ = syscall.Kill(pid, syscall.SIGCONT)
			<-time.After(r.pause)
			if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", r.cmd.Process.Pid)); err != nil || len(files) > 100 {
				t.Errorf("the server has %d open files (%v)", len(files), err)
			}
			r.signal(t, syscall.SIGINT)
		}, 130, `interrupted by SIGINT`, 10 * time.Second, false},
		{"interrupt server", server(syscall.SIGINT), 130, `interrupted by SIGINT`, 10 * time.Second, false},
		{"terminate server", server(syscall.SIGTERM), 143, `interrupted by SIGTERM`, 10 * time.Second, false},
		{"kill server", server(syscall.SIGKILL), -1, ``, 10 * time.Second, false},
	}
}

// TestFaults: B25, A28: workers and servers that are killed, stopped and
// interrupted at any time, with every transport: the run ends soon, with the
// right code, and names the cause; nothing is left; what was measured can be
// read. IPCBENCH_TEST_SEED repeats a run of this test.
func TestFaults(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("IPCBENCH_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("IPCBENCH_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	tries := 16
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		tries = 200
	}
	var names []string
	for _, transport := range all.Transports() {
		if !drivertest.Inside(t, transport) {
			names = append(names, transport.Name())
		}
	}
	random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for n := range tries {
		f := faults()[n%len(faults())]
		transport := names[n%len(names)]
		if n%len(faults()) == len(faults())-1 { // so that they do not always meet
			random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		}
		wait, pause := time.Duration(random.IntN(500))*time.Millisecond, time.Duration(100+random.IntN(400))*time.Millisecond
		t.Run(fmt.Sprintf("%s/%s/%d", f.name, transport, n), func(t *testing.T) {
			t.Parallel()
			r := startFaultRun(t, transport)
			r.pause = pause
			r.worker(t)
			select { // some are hit as they start, and some in the middle
			case <-time.After(wait):
			case <-r.done:
				t.Fatalf("ended early:\n%s", r.text())
			}
			f.do(t, r)
			r.check(t, f)
		})
	}
}

// faultRun is a run of the command that is to be disturbed.
type faultRun struct {
	background
	processes
	dir   string // its TMPDIR, and nobody else's
	out   string
	pause time.Duration
}

func startFaultRun(t *testing.T, transport string) *faultRun {
	t.Helper()
	path, err := exec.LookPath("ipcbench")
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	dir, err := os.MkdirTemp("", "f") // sockets lie in it: t's own would be too long a name
	if err != nil {
		t.Fatal(err)
	}
	r := &faultRun{dir: dir, out: filepath.Join(home, "result.json")}
	r.id, r.done = idEnv+"="+dir, make(chan struct{})
	r.cmd = exec.Command(path, "run", "-q", "--transport", transport, "--model", "cnn", "--workers", "2", "--clients", "4", "--train-ms", "5",
		"--time", "60s", "--blocks", "400", "--precision", "0.000001", "--round-limit", "3s", "--out", r.out)
	r.cmd.Dir, r.cmd.Env = home, append(os.Environ(), "TMPDIR="+dir, r.id)
	r.cmd.Stderr, r.cmd.Stdout = r, &r.stdout
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() // its exit code is looked at later
		close(r.done)
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // most have ended
		<-r.done
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		for _, segment := range r.segments(t) {
			if err := os.RemoveAll(segment); err != nil {
				t.Error(err)
			}
		}
	})
	return r
}

// worker waits for a worker process, and returns its id.
func (r *faultRun) worker(t *testing.T) int {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		for pid, role := range r.alive() {
			if strings.HasPrefix(role, "process ") {
				return pid
			}
		}
		select {
		case <-r.done:
			t.Fatalf("ended early:\n%s", r.text())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("no worker after %v:\n%s", patience, r.text())
		}
	}
}

// hit sends a signal to some worker.
func (r *faultRun) hit(t *testing.T, signal syscall.Signal) int {
	t.Helper()
	for {
		pid := r.worker(t)
		if err := syscall.Kill(pid, signal); err == nil {
			return pid
		} else if !errors.Is(err, syscall.ESRCH) { // it has just ended
			t.Fatal(err)
		}
	}
}

func (r *faultRun) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := r.cmd.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// segments returns the directories in shared memory whose owner is this run.
func (r *faultRun) segments(t *testing.T) []string {
	t.Helper()
	locks, err := filepath.Glob(filepath.Join(scratch.SharedMemory, "ipcbench-*", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	var mine []string
	for _, path := range locks {
		text, err := os.ReadFile(path)
		if err == nil && strings.HasPrefix(string(text), fmt.Sprintf("pid %d,", r.cmd.Process.Pid)) {
			mine = append(mine, filepath.Dir(path))
		}
	}
	return mine
}

// check looks at what the fault did, and at what is left.
func (r *faultRun) check(t *testing.T, f fault) {
	t.Helper()
	began := time.Now()
	select {
	case <-r.done:
	case <-time.After(f.soon):
		if !f.late {
			t.Fatalf("has not ended after %v:\n%s", f.soon, r.text())
		}
		r.signal(t, syscall.SIGINT)
		f = fault{name: f.name, code: 130, says: "interrupted by SIGINT", soon: f.soon}
		t.Logf("came too late for the worker: the run goes on")
		r.check(t, f)
		return
	}
	t.Logf("ended after %v: %s", time.Since(began).Round(time.Millisecond), strings.TrimSpace(r.text()))
	for deadline := time.Now().Add(soon); len(r.alive()) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("processes live %v after the end: %v", soon, r.alive())
		}
	}
	if got := r.cmd.ProcessState.ExitCode(); got != f.code {
		t.Errorf("exit code %d, want %d", got, f.code)
	}
	if !regexp.MustCompile(f.says).MatchString(r.text()) || strings.Contains(r.text(), "goroutine ") {
		t.Errorf("stderr does not match %q, or shows a stack trace:\n%s", f.says, r.text())
	}
	if f.code >= 0 { // a server that was killed could not tidy up
		left, err := filepath.Glob(filepath.Join(r.dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		sockets, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		if left = append(left, r.segments(t)...); len(left) > 0 || bytes.Contains(sockets, []byte(r.dir)) {
			t.Errorf("left behind: %v; a socket's path is bound: %v", left, bytes.Contains(sockets, []byte(r.dir)))
		}
	}
	if info, err := os.Stat(r.out); err == nil && info.Size() > 0 {
		report := exec.Command(r.cmd.Path, "report", "--format", "json", r.out)
		report.Dir = r.cmd.Dir
		if out, err := report.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"partial"`)) {
			t.Errorf("the result cannot be read, or is not marked as partial: %v\n%.500s", err, out)
		}
	}
}
