package cli

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ipcbench/bench/floors"
	"ipcbench/internal/link"
	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/all"
)

// TestMain: the test binary is the command when it is run under that name, and
// a worker or a floor's peer when it was started as one.
func TestMain(m *testing.M) {
	reexec.MaybeKeeper()
	link.MaybeInside()
	maybeNetwork()
	floors.MaybePeer()
	newApp(os.Stdout, os.Stderr, all.Transports()).host.MaybeWorker()
	testscript.Main(signalled{m}, map[string]func(){"ipcbench": program, "stubborn": stubborn})
}

// program is the command that tests run. It soon shows how far it is: they wait for that.
func program() {
	plainEvery = 200 * time.Millisecond
	Main(all.Transports()...)
}

// signalled runs the tests so that the commands they start may be ended by
// signals, also if whoever started the tests has some ignored: nohup, or a script
// that runs them in the background.
type signalled struct{ *testing.M }

func (m signalled) Run() int {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // as good as ignored, and not inherited
		}
	}
	return m.M.Run()
}

// soon is how long a run may take to end that was asked to (B25).
const soon = 10 * time.Second

// TestScripts runs the scripts in testdata/script: the command as a user sees it.
func TestScripts(t *testing.T) {
	t.Cleanup(func() { // after all of them
		left, err := scratch.Leftovers(scratch.SharedMemory)
		check.OK(t, err)
		for _, l := range left {
			check.That(t, l.Parent != os.Getpid(), "segments are left: %s", l.Path)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			procs := &processes{t: t, id: fmt.Sprintf("%s=%s", idEnv, e.WorkDir), started: map[string]*background{}}
			e.Values[processesKey{}] = procs
			e.Setenv(idEnv, e.WorkDir)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Defer(procs.end)
			at, err := freePort()
			if err != nil {
				return err
			}
			e.Setenv("LOOPBACK", at)
			tmp, err := os.MkdirTemp("", "s") // a short name: sockets live there
			e.Setenv("TMPDIR", tmp)
			e.Defer(func() { _ = os.RemoveAll(tmp) }) // what a failed script has left
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":   exits,
			"start":   start,
			"signal":  sendSignal,
			"ended":   ended,
			"clear":   clearOf,
			"session": session,
		},
	})
}

// freePort returns an address of this machine with a port at which nobody listens. It
// is one of IPv6, unless the machine has none.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// shortDir returns a temporary directory whose path leaves room for sockets,
// whatever the test is called.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // what a failed test has left
	return dir
}

// idEnv marks all processes of one script.
const idEnv = "IPCBENCH_TEST_SCRIPT"

type processesKey struct{}

// processes are those that a script has started.
type processes struct {
	t       *testing.T // of all scripts
	id      string
	started map[string]*background
}

func processesOf(ts *testscript.TestScript) *processes {
	return ts.Value(processesKey{}).(*processes)
}

// end kills what a failed script has left.
func (p *processes) end() {
	for _, b := range p.started {
		_ = b.cmd.Process.Kill() // most have ended
		<-b.done
	}
}

// alive returns the processes of the script that live, with the roles of
// worker processes: "process 1".
func (p *processes) alive() map[int]string {
	found := map[int]string{}
	all, _ := os.ReadDir("/proc") // which is there
	for _, entry := range all {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || !bytes.Contains(env, []byte(p.id)) {
			continue
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(stat, []byte(") Z ")) {
			continue
		}
		role := "command"
		for v := range strings.SplitSeq(string(env), "\x00") {
			if n, ok := strings.CutPrefix(v, "_IPCBENCH_WORKER="); ok {
				role = "process " + n
			}
		}
		found[pid] = role
	}
	return found
}

// background is a command that a script has started.
type background struct {
	cmd    *exec.Cmd
	done   chan struct{} // closed when it has ended
	mu     sync.Mutex
	stderr bytes.Buffer // guarded by mu
	stdout bytes.Buffer // read after done
}

func (b *background) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stderr.Write(text)
}

func (b *background) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stderr.String()
}

func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	name := "ipcbench"
	if args[0] == "exec" { // a program that runs it
		name, args = args[1], args[2:]
	}
	path, err := exec.LookPath(name)
	ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"), idEnv+"="+ts.Getenv(idEnv), "GORACE="+ts.Getenv("GORACE"))
	return cmd
}

// exits CODE REGEXP ARG... runs ipcbench ARG..., which must exit with CODE and
// say on stderr what REGEXP matches.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: exits CODE REGEXP ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	cmd := command(ts, args[2:])
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ts.Fatalf("%v", err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("exit code %d, want %d\n%s", got, want, stderr.String())
	}
	if !regexp.MustCompile(args[1]).Match(stderr.Bytes()) {
		ts.Fatalf("stderr does not match %q:\n%s", args[1], stderr.String())
	}
	if strings.Contains(stderr.String(), "goroutine ") {
		ts.Fatalf("stderr shows a stack trace:\n%s", stderr.String())
	}
}

// start NAME REGEXP ARG... starts ipcbench ARG..., or with exec before it the
// program ARG..., and waits until its stderr matches REGEXP.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: start NAME REGEXP ARG...")
	}
	b := &background{cmd: command(ts, args[2:]), done: make(chan struct{})}
	b.cmd.Stderr, b.cmd.Stdout = b, &b.stdout
	ts.Check(b.cmd.Start())
	go func() {
		_ = b.cmd.Wait() // its exit code is looked at later
		close(b.done)
	}()
	processesOf(ts).started[args[0]] = b
	pattern := regexp.MustCompile(args[1])
	await(ts, "stderr to match "+args[1], func() bool {
		select {
		case <-b.done:
			ts.Fatalf("ended early:\n%s", b.text())
		default:
		}
		return pattern.MatchString(b.text())
	})
}

func await(ts *testscript.TestScript, what string, ok func() bool) {
	waiting.Do(processesOf(ts).t, ts.Name()+": "+what, func() { waiting.Poll(ok) })
}

// signal SIGNAL NAME sends a signal to the command, and signal SIGNAL process N
// to a worker process, once there is one.
func sendSignal(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: signal SIGNAL NAME|process N")
	}
	sig, p := signals[args[0]], processesOf(ts)
	if b := p.started[args[1]]; b != nil {
		ts.Check(b.cmd.Process.Signal(sig))
		return
	}
	role := strings.Join(args[1:], " ")
	await(ts, role, func() bool {
		for pid, r := range p.alive() {
			if r == role {
				return syscall.Kill(pid, sig) == nil
			}
		}
		return false
	})
}

// ended NAME CODE REGEXP waits for the command to end with CODE (-1 is by a
// signal) and says what its stderr must match.
func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: ended NAME CODE REGEXP")
	}
	b := processesOf(ts).started[args[0]]
	waiting.Promise(processesOf(ts).t, "B25: "+ts.Name()+": the end of "+args[0], soon, func() { <-b.done })
	if got := strconv.Itoa(b.cmd.ProcessState.ExitCode()); got != args[1] {
		ts.Fatalf("exit code %s, want %s\n%s", got, args[1], b.text())
	}
	if !regexp.MustCompile(args[2]).MatchString(b.text()) {
		ts.Fatalf("stderr does not match %q:\n%s", args[2], b.text())
	}
	if strings.Contains(b.text(), "goroutine ") && !strings.Contains(args[2], "goroutine ") {
		ts.Fatalf("stderr shows a stack trace:\n%s", b.text())
	}
	ts.Logf("%s", b.text())
}

// clear [processes] fails while processes of the script, or, without the word,
// directories and segments are left. It waits for processes.
func clearOf(ts *testscript.TestScript, neg bool, args []string) {
	p := processesOf(ts)
	await(ts, "the end of all processes", func() bool { return len(p.alive()) == 0 })
	if len(args) > 0 {
		return
	}
	left, err := filepath.Glob(filepath.Join(ts.Getenv("TMPDIR"), "ipcbench-*"))
	ts.Check(err)
	if len(left) > 0 {
		ts.Fatalf("directories are left: %v", left)
	}
	all, err := scratch.Leftovers(scratch.SharedMemory)
	ts.Check(err)
	for _, l := range all {
		if p.startedBy(l.PID) {
			ts.Fatalf("segments are left: %s", l.Path)
		}
	}
}

// startedBy reports whether the script has started process pid. Other scripts, and
// others on this machine, may be running ipcbench, too.
func (p *processes) startedBy(pid int) bool {
	for _, b := range p.started {
		if b.cmd.Process.Pid == pid {
			return true
		}
	}
	return false
}

// session NAME VARIABLE DIR waits until the command has a session's directory in
// DIR, and sets a variable to it.
func session(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: session NAME VARIABLE DIR")
	}
	owner := fmt.Sprintf("pid %d,", processesOf(ts).started[args[0]].cmd.Process.Pid)
	await(ts, "a directory of "+args[0]+" in "+args[2], func() bool {
		locks, err := filepath.Glob(filepath.Join(args[2], "ipcbench-*", "lock"))
		ts.Check(err)
		for _, lock := range locks {
			if text, err := os.ReadFile(lock); err == nil && strings.HasPrefix(string(text), owner) {
				ts.Setenv(args[1], filepath.Dir(lock))
				return true
			}
		}
		return false
	})
}
