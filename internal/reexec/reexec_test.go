package reexec_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
)

// control returns a role's end of its control socket.
func control() *os.File { return os.NewFile(reexec.ControlFD, "control") }

// roles are the children of these tests.
var roles = reexec.Roles{
	"obedient": func([]byte) (any, error) { // ends when its control socket is closed
		socket := control()
		fmt.Fprintln(socket, os.Args[1:])
		return io.Copy(io.Discard, socket)
	},
	"deaf": func([]byte) (any, error) {
		signal.Ignore(unix.SIGTERM)
		fmt.Fprintln(control(), "deaf")
		waiting.Forever()
		return nil, nil
	},
	"writer": func([]byte) (any, error) {
		_, _ = io.Copy(os.NewFile(reexec.ControlFD+1, "file"), os.Stdin)
		fmt.Print("said")
		fmt.Fprintln(os.Stderr, "first\n\n\x1b[2Jlast")
		os.Exit(3)
		return nil, nil
	},
	"processors": func([]byte) (any, error) { return usage.Affinity() },
	"starter": func([]byte) (any, error) { // starts a child, prints the child's id, and waits to be killed
		p, err := reexec.Start(context.Background(), reexec.Command{Role: "deaf", Control: true})
		if err == nil {
			fmt.Println(p.PID())
			waiting.Forever()
		}
		return nil, err
	},
	"host": func([]byte) (any, error) { // has a keeper start a script that leaves processes behind
		c := reexec.Command{Path: "/bin/sh", Args: []string{"-c", leaves + "sleep 1000"}, Keep: true, Stdout: os.Stdout}
		_, err := reexec.Start(context.Background(), c)
		if err == nil {
			waiting.Forever()
		}
		return nil, err
	},
	"adopter": func([]byte) (any, error) { // kills the keeper of a script, and returns what became of its processes
		from, to, err := os.Pipe()
		err = errors.Join(err, reexec.Adopt())
		other := exec.Command("/bin/sh", "-c", "exit 7") // waited for only after the sweep
		err2 := other.Start()
		// The end of the script takes a while, because it has much memory. Until then it is the parent of the other one.
		const script = `a=$(head -c 64000000 /dev/zero | tr "\0" a); setsid sleep 1000 & echo $!; sleep 1000`
		c := reexec.Command{Path: "/bin/sh", Args: []string{"-c", script}, Keep: true, Stdout: to}
		kept, err3 := reexec.Start(context.Background(), c)
		if err = errors.Join(err, err2, err3); err != nil {
			return nil, err
		}
		var pid int
		_, err = fmt.Fscan(from, &pid)
		err = errors.Join(err, kept.Signal(unix.SIGKILL))
		<-kept.Exited()
		return []string{usage.State(pid), kept.Err().Error(), fmt.Sprint(other.Wait())}, err
	},
	"caller": func(question []byte) (any, error) {
		var kind string
		err := json.Unmarshal(question, &kind)
		switch kind {
		case "error":
			return nil, errors.New("no memory")
		case "panic":
			panic("at once")
		case "killed":
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		case "rubbish":
			fmt.Print("rubbish")
		case "endless":
			for {
				fmt.Print("1")
			}
		case "silent":
			waiting.Forever()
		}
		return kind + " " + os.Getenv(marker), err
	},
}

func TestMain(m *testing.M) {
	reexec.Main(roles)
	os.Exit(m.Run())
}

// start starts a child in a role and waits until it has sent its first line.
func start(t *testing.T, ctx context.Context, role string) *reexec.Process {
	t.Helper()
	p := check.Value(reexec.Start(ctx, reexec.Command{Role: role, Args: []string{"(test)"}, Control: true}))(t)
	check.Must(t, check.Err(p.Control.Read(make([]byte, 100))))
	return p
}

// marker is the environment variable of a process that has a role.
const marker = "_IPCBENCH_ROLE"

// TestCall: a role's answer or error returns, and no child can make its parent wait, or take
// much memory.
func TestCall(t *testing.T) {
	for kind, want := range map[string]string{
		"question": "", "error": "no memory", "panic": "exit status 2: panic: at once", "killed": "signal: killed",
		"rubbish": "invalid character 'r'", "endless": "the answer has more than 1048576 bytes", "silent": "late",
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		child := check.Value(reexec.Call(ctx, reexec.Command{Role: "caller", Question: kind}))(t)
		if kind == "silent" {
			cancel(errors.New("late"))
		}
		var answer string
		err := child.Answer(&answer)
		cancel(nil)
		if want == "" {
			check.OK(t, err)
			check.Equal(t, answer, "question ")
		} else {
			check.Fails(t, err, want, kind)
		}
	}
}

// TestNoRole: a role that the table does not have, and a marker that was set by hand or
// inherited, end the process with one line. A process that ignores its role starts no other.
func TestNoRole(t *testing.T) {
	stderr := &reexec.Excerpt{Most: 1000}
	p := check.Value(reexec.Start(t.Context(), reexec.Command{Role: "nobody", Stderr: stderr}))(t)
	<-p.Exited()
	check.Equal(t, fmt.Sprint(p.Err()), "exit status 2")
	check.That(t, strings.Contains(stderr.String(), `_IPCBENCH_ROLE="nobody"`), "stderr: %s", stderr)
	for _, mark := range []string{"1", "caller", "caller 1 null", "keeper", "keeper 1 0", "nobody \x1b[2J"} {
		t.Setenv(marker, mark)
		out, err := exec.Command("/proc/self/exe", "/bin/true").CombinedOutput()
		refused := fmt.Sprint(err) == "exit status 2" && strings.Count(string(out), "\n") == 1
		check.That(t, refused, "%s: %v: %s", mark, err, out)
		check.Fails(t, check.Err(reexec.Start(t.Context(), reexec.Command{Role: "deaf"})), "does not begin with reexec.Main")
	}
}

// TestStop: an obedient child ends when its control socket closes. Another one is killed,
// at once if it is stopped.
func TestStop(t *testing.T) {
	p := start(t, t.Context(), "obedient")
	check.OK(t, errors.Join(p.Stop(), p.Err(), p.Stop())) // Stop may be called again

	p = start(t, t.Context(), "deaf")
	check.Must(t, syscall.Kill(p.PID(), unix.SIGSTOP))
	waiting.Until(t, "a child that is stopped", func() bool { return usage.Stopped(p.PID()) })
	check.OK(t, p.Stop())
	check.Fails(t, p.Err(), "signal: killed")
	check.Equal(t, p.Killed(), "", "no context has ended, and it was")
}

// TestContext: the end of the context kills the child, and its error is available.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	p := start(t, ctx, "deaf")
	cancel()
	<-p.Exited()
	check.That(t, p.Err() != nil && p.Killed() != "", "got %v, it was %q", p.Err(), p.Killed())
	check.Is(t, check.Err(reexec.Start(ctx, reexec.Command{Control: true})), context.Canceled)
}

// TestFiles: descriptors and streams reach the child, and its exit status is returned.
func TestFiles(t *testing.T) {
	in := check.Value(os.CreateTemp(t.TempDir(), ""))(t)
	out := check.Value(os.CreateTemp(t.TempDir(), ""))(t)
	check.Must(t, check.Err(in.WriteAt([]byte("through a file"), 0)))
	var stdout strings.Builder
	stderr := &reexec.Excerpt{Most: 100}
	c := reexec.Command{Role: "writer", Control: true, Files: []*os.File{out}, Stdin: in, Stdout: &stdout, Stderr: stderr}
	p := check.Value(reexec.Start(t.Context(), c))(t)
	<-p.Exited()
	p.Control.Close()
	check.Equal(t, string(check.Value(os.ReadFile(out.Name()))(t)), "through a file")
	check.Equal(t, stdout.String(), "said")
	check.Fails(t, p.Err(), "exit status 3")
	check.Equal(t, stderr.String(), "first\n"+`\x1b[2Jlast`, "stderr")
}

// TestNothing: Start fails if the program or its processors do not exist.
func TestNothing(t *testing.T) {
	for _, c := range []reexec.Command{{Path: "/nowhere", Control: true}, {CPUs: []int{1 << 19}}} {
		check.Fails(t, check.Err(reexec.Start(t.Context(), c)), "")
	}
}

// TestProcessors: a child is pinned, and its parent is not.
func TestProcessors(t *testing.T) {
	before := check.Value(usage.Affinity())(t)
	one := before[len(before)-1:]
	var used []int
	check.Must(t, check.Value(reexec.Call(t.Context(), reexec.Command{Role: "processors", CPUs: one}))(t).Answer(&used))
	check.Equal(t, fmt.Sprint(used), fmt.Sprint(one), "it could use")
	threads := check.Value(os.ReadDir("/proc/self/task"))(t)
	for _, thread := range threads {
		id, _ := strconv.Atoi(thread.Name())
		cpus, err := usage.Processors(id)
		check.That(t, err != nil || len(cpus) == len(before), "thread %d is pinned to %v", id, cpus)
	}
}

// TestDeath: a child does not outlive its parent, even if it ignores signals.
func TestDeath(t *testing.T) {
	from, to, err := os.Pipe()
	check.Must(t, err)
	defer from.Close()
	starter := check.Value(reexec.Start(t.Context(), reexec.Command{Role: "starter", Stdout: to}))(t)
	to.Close()
	var pid int
	check.Must(t, check.Err(fmt.Fscan(from, &pid)))
	check.Must(t, starter.Signal(unix.SIGKILL))
	<-starter.Exited()
	waiting.Until(t, "the end of its child", func() bool {
		state := usage.State(pid)
		// a zombie counts, because it may have no parent that waits for it
		return state == "gone" || strings.HasPrefix(state, "dead")
	})
}

// leaves is a script that starts processes which leave their parent, one of them in a new
// group and session. It prints their ids.
const leaves = `trap "" TERM; (setsid sh -c 'echo $$; sleep 1000 & exec sleep 1000' &); sleep 1000 & echo $!; `

// kept reads the ids that the script prints.
func kept(t *testing.T, from io.Reader) (pids []int) {
	t.Helper()
	for range 2 {
		var pid int
		check.Must(t, check.Err(fmt.Fscan(from, &pid)))
		pids = append(pids, pid)
	}
	return pids
}

// TestKeep: processes that a program leaves behind end with it: if it ends by itself, if
// the context ends, and if its parent is killed.
func TestKeep(t *testing.T) {
	for _, how := range []string{"itself", "context", "hangup", "stopped", "starter"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			from, to, err := os.Pipe()
			check.Must(t, err)
			defer from.Close()
			var pids []int
			if how == "starter" {
				starter := check.Value(reexec.Start(ctx, reexec.Command{Role: "host", Stdout: to}))(t)
				to.Close()
				pids = kept(t, from)
				check.Must(t, starter.Signal(unix.SIGKILL))
				<-starter.Exited()
				_, _ = io.Copy(io.Discard, from) // until all writers have ended
			} else {
				stdin, ends, err := os.Pipe()
				check.Must(t, err)
				defer stdin.Close()
				defer ends.Close()
				p, err := reexec.Start(ctx, reexec.Command{Path: "/bin/sh", Args: []string{"-c", leaves + "read line; exit 3"},
					Dir: "/", Keep: true, Stdin: stdin, Stdout: to})
				to.Close()
				check.Must(t, err)
				pids = kept(t, from)
				if how == "stopped" {
					check.Must(t, unix.Kill(p.PID(), unix.SIGSTOP))
				}
				switch how {
				case "itself":
					ends.Close()
				case "hangup":
					check.Must(t, unix.Kill(p.PID(), unix.SIGHUP))
				default:
					cancel()
				}
				<-p.Exited()
				check.That(t, how != "itself" || fmt.Sprint(p.Err()) == "exit status 3", "it has ended with %v", p.Err())
			}
			for _, pid := range pids {
				check.Equal(t, usage.State(pid), "gone", "process", pid)
			}
		})
	}
}

// TestKeeperKilled: processes of a killed keeper end with it, and the exit code of another child is not lost.
func TestKeeperKilled(t *testing.T) {
	var states []string
	check.Must(t, check.Value(reexec.Call(t.Context(), reexec.Command{Role: "adopter"}))(t).Answer(&states))
	check.Equal(t, states, []string{"gone", "signal: killed", "exit status 7"})
}

// TestKeepControl: a kept program has the control socket, whose end shows that it has ended,
// although processes that it has left still run then.
func TestKeepControl(t *testing.T) {
	c := reexec.Command{Path: "/bin/sh", Args: []string{"-c", "setsid sleep 1000 3>&- & echo here >&3"}, Keep: true,
		Control: true}
	p := check.Value(reexec.Start(t.Context(), c))(t)
	text := check.Value(io.ReadAll(p.Control))(t)
	check.Equal(t, string(text), "here\n")
	<-p.Exited()
	check.OK(t, p.Err())
}

// TestKeepNothing: if a kept program cannot be started, or a signal ends it, stderr has the
// reason or the signal.
func TestKeepNothing(t *testing.T) {
	for path, want := range map[string][2]string{"/nowhere": {"exit status 127", "no such file"},
		"/bin/sh": {"exit status 139", "segmentation fault"}} {
		stderr := &reexec.Excerpt{Most: 200}
		c := reexec.Command{Path: path, Args: []string{"-c", "kill -SEGV $$"}, Keep: true, Stderr: stderr}
		p := check.Value(reexec.Start(t.Context(), c))(t)
		<-p.Exited()
		got := stderr.String()
		check.That(t, fmt.Sprint(p.Err()) == want[0] && strings.Contains(got, want[1]), "%s: %v: %s, want %s", path,
			p.Err(), got, want)
	}
}

// TestThreads: a child survives the end of the thread that started it.
func TestThreads(t *testing.T) {
	started := make(chan *reexec.Process)
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		started <- start(t, t.Context(), "obedient")
	}()
	p := <-started
	waiting.Quiet(t, "the end of a child", p.Exited())
	check.OK(t, errors.Join(p.Stop(), p.Err()))
}

// TestExcerpt: an excerpt keeps the first or last bytes up to its limit, and escapes
// control characters.
func TestExcerpt(t *testing.T) {
	for _, tt := range []struct {
		head   bool
		writes []string
		want   string
	}{
		{false, nil, ""},
		{false, []string{"a\n", "b"}, "a\nb"},
		{false, []string{"12345678", "90"}, "34567890"},
		{true, []string{"12345678", "90"}, "12345678"},
		{false, []string{"\n \n\tx \n"}, "    x"},
		{false, []string{"a\xff\x00\u202e"}, `a\xff\x00\u202e`},
	} {
		e := reexec.Excerpt{Most: 8, Head: tt.head}
		for _, text := range tt.writes {
			n, err := e.Write([]byte(text))
			check.That(t, n == len(text) && err == nil, "%q: %d, %v", text, n, err)
		}
		check.Equal(t, e.String(), tt.want, tt.head, tt.writes)
	}
}

// TestRanOut: of what the Go runtime prints when threads or memory have run out, an excerpt keeps
// the reason, and of a panic everything.
func TestRanOut(t *testing.T) {
	e := reexec.Excerpt{Most: 200}
	for _, text := range []string{"runtime: may need to increase ulimit -u\nfatal error: ",
		"newosproc\n\nruntime stack:\n", strings.Repeat("goroutine 1\n", 100)} {
		check.Must(t, check.Err(e.Write([]byte(text))))
	}
	check.Equal(t, e.String(), "runtime: may need to increase ulimit -u\nfatal error: newosproc")
	e = reexec.Excerpt{Most: 200}
	check.Must(t, check.Err(e.Write([]byte("panic: x\n\ngoroutine 1\n"))))
	check.Equal(t, e.String(), "panic: x\ngoroutine 1")
}

// TestOver: Over is called once if there was more text than the limit.
func TestOver(t *testing.T) {
	over := 0
	e := reexec.Excerpt{Most: 3, Head: true, Over: func() { over++ }}
	for _, text := range []string{"ab", "c", "d"} {
		n, err := e.Write([]byte(text))
		check.That(t, n == len(text) && err == nil, "%q: %d, %v", text, n, err)
	}
	check.That(t, over == 1 && string(e.Bytes()) == "abc", "kept %q, over %d times", e.Bytes(), over)
}
