package cli

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/all"
)

// TestMain runs the command if the test binary has its name, or a role.
func TestMain(m *testing.M) {
	reexec.Main(newApp(os.Stdout, os.Stderr, all.Transports()).roles())
	maybeNetwork()
	testscript.Main(signalled{m}, map[string]func(){"ipcbench": mainProgram, "stubborn": stubborn})
}

// mainProgram is the program that tests run. It prints progress often, because tests wait for
// it.
func mainProgram() {
	plainEvery = 200 * time.Millisecond
	Main(all.Transports()...)
}

// signalled makes sure that signals can end the commands that tests start, even if the
// parent of the tests ignores these signals. nohup does so, and a script that runs them in
// the background.
type signalled struct{ *testing.M }

func (m signalled) Run() int {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // has the effect of ignoring it, but children do not inherit that
		}
	}
	return m.M.Run()
}

// soon is the time within which an interrupted run must end (B25).
const soon = 10 * time.Second

// TestScripts runs the scripts in testdata/script, which use the command as users do.
func TestScripts(t *testing.T) {
	t.Cleanup(func() { // after all scripts
		left, err := scratch.Leftovers(scratch.SharedMemory)
		check.OK(t, err)
		for _, l := range left {
			check.That(t, l.Parent != os.Getpid(), "segments are left: %s", l.Path)
		}
	})
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for usage, act := range map[string]func(*script, []string){
		"exits CODE REGEXP ARG...":       exits,
		"start NAME REGEXP ARG...":       start,
		"signal SIGNAL NAME|process [N]": sendSignal,
		"ended NAME CODE REGEXP":         ended,
		"clear [processes]":              clearOf,
		"session NAME VARIABLE DIR":      awaitSession,
	} {
		words := strings.Fields(usage)
		commands[words[0]] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < len(words)-1-strings.Count(usage, "[") {
				ts.Fatalf("usage: %s", usage)
			}
			s := ts.Value(scriptKey{}).(*script)
			s.ts = ts
			act(s, args)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			mark, pid := idEnv+"="+e.WorkDir, os.Getpid()
			e.Values[scriptKey{}] = &script{TB: t, mark: mark, started: map[string]*child.Child{}}
			e.Setenv(idEnv, e.WorkDir)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("LOOPBACK", fmt.Sprintf("127.%d.%d.%d:7113", 1+pid>>16, pid>>8&255, pid&255)) // used by no other script
			tmp, err := os.MkdirTemp("", "s")                                                      // a short name, because sockets are in it
			e.Setenv("TMPDIR", tmp)
			e.Defer(func() { _ = os.RemoveAll(tmp) }) // leftovers of a failed script
			return err
		},
		Cmds: commands,
	})
}

// shortDir returns a temporary directory whose path is short enough for sockets, whatever
// the name of the test.
func shortDir(t *testing.T) string {
	t.Helper()
	dir := check.Value(os.MkdirTemp("", "s"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // leftovers of a failed test
	return dir
}

// command returns the program with arguments, in a new working directory.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	path := check.Value(exec.LookPath("ipcbench"))(t)
	cmd := exec.CommandContext(waiting.Context(t), path, args...)
	cmd.Dir, cmd.Env = t.TempDir(), os.Environ()
	return cmd
}

// idEnv marks all processes of one script.
const idEnv = "IPCBENCH_TEST_SCRIPT"

// alive returns the live processes that have mark in their environment. Worker processes
// have their number as the value, for example "process 1".
func alive(mark string) map[int]string {
	found := map[int]string{}
	for _, pid := range proc.All() {
		if env := proc.Read(pid, "environ"); strings.Contains(env, mark) && proc.Alive(pid) {
			found[pid] = "command"
			if _, n, ok := strings.Cut(proc.Read(pid, "cmdline"), "\x00(worker)\x00"); ok {
				found[pid] = "process " + strings.TrimRight(n, "\x00")
			}
		}
	}
	return found
}

// sessions returns the directories in dir of a process's sessions.
func sessions(dir string, pid int) (found []string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "ipcbench-*", "lock")) // the pattern is well-formed
	for _, lock := range locks {
		if owner, err := os.ReadFile(lock); err == nil && strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", pid)) {
			found = append(found, filepath.Dir(lock))
		}
	}
	return found
}

type scriptKey struct{}

// A script is the testing.TB of the programs that it starts: their failures fail the
// script.
type script struct {
	testing.TB // of TestScripts
	ts         *testscript.TestScript
	mark       string // environment entry of its processes
	started    map[string]*child.Child
}

func (s *script) Fatal(args ...any)                 { s.ts.Fatalf("%s", fmt.Sprint(args...)) }
func (s *script) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s *script) Errorf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s *script) Cleanup(f func())                  { s.ts.Defer(f) }

func (s *script) command(args []string) *exec.Cmd {
	name := "ipcbench"
	if args[0] == "exec" { // with exec, another program runs ipcbench
		name, args = args[1], args[2:]
	}
	path, err := exec.LookPath(name)
	s.ts.Check(err)
	cmd := exec.Command(path, args...)
	cmd.Dir = s.ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "TMPDIR="+s.ts.Getenv("TMPDIR"), s.mark, "GORACE="+s.ts.Getenv("GORACE"))
	return cmd
}

// exits runs ipcbench ARG..., which must exit with CODE and print text that matches REGEXP
// on stderr.
func exits(s *script, args []string) {
	code, err := strconv.Atoi(args[0])
	s.ts.Check(err)
	child.Start(s, s.command(args[2:])).Ends(waiting.Limit, code, args[1])
}

// start starts ipcbench ARG..., or the program ARG... after the word exec, and waits until
// its stderr matches REGEXP.
func start(s *script, args []string) {
	s.started[args[0]] = child.Start(s, s.command(args[2:]))
	s.started[args[0]].Says(args[1])
}

// sendSignal sends a signal to the command, or to a worker process once there is one.
func sendSignal(s *script, args []string) {
	signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT}
	sig := signals[args[0]]
	if c := s.started[args[1]]; c != nil {
		c.Send(sig)
		return
	}
	role := strings.Join(args[1:], " ")
	waiting.Until(s, role, func() bool {
		for pid, r := range alive(s.mark) {
			if r == role {
				return syscall.Kill(pid, sig) == nil
			}
		}
		return false
	})
}

// ended waits for the command to end with CODE (-1 means by a signal). Its stderr must
// match the pattern.
func ended(s *script, args []string) {
	code, err := strconv.Atoi(args[1])
	s.ts.Check(err)
	s.started[args[0]].Ends(soon, code, args[2])
	s.ts.Logf("%s", &s.started[args[0]].Stderr)
}

// clearOf waits for the end of all processes of the script. Without an argument, it also
// fails if directories or segments are left.
func clearOf(s *script, args []string) {
	waiting.Until(s, "the end of all processes", func() bool { return len(alive(s.mark)) == 0 })
	if len(args) > 0 {
		return
	}
	left, err := filepath.Glob(filepath.Join(s.ts.Getenv("TMPDIR"), "ipcbench-*"))
	s.ts.Check(err)
	for _, c := range s.started {
		left = append(left, sessions(scratch.SharedMemory, c.Process.Pid)...)
	}
	check.Need(s, len(left) == 0, "left: %v", left)
}

// awaitSession waits until the command has a session's directory in DIR, and sets VARIABLE to
// its path.
func awaitSession(s *script, args []string) {
	waiting.Until(s, "a directory of "+args[0]+" in "+args[2], func() bool {
		found := sessions(args[2], s.started[args[0]].Process.Pid)
		if found != nil {
			s.ts.Setenv(args[1], found[0])
		}
		return found != nil
	})
}
