package usage

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// TestState: State tells a running, a sleeping, a stopped and a gone process apart.
func TestState(t *testing.T) {
	own := State(os.Getpid()) // the main thread's state
	check.That(t, own == "running (R)" || own == "sleeping (S)", "this process is %s", own)
	child := exec.Command("cat")
	in := check.Value(child.StdinPipe())(t)
	check.Must(t, child.Start())
	pid := child.Process.Pid
	until := func(want string) {
		t.Helper()
		waiting.Until(t, "a child that is "+want, func() bool { return State(pid) == want })
	}
	until("sleeping (S)")
	check.Must(t, child.Process.Signal(unix.SIGSTOP))
	until("stopped (T)")
	check.That(t, Stopped(pid), "a stopped process is not")
	check.Must(t, child.Process.Signal(unix.SIGCONT))
	until("sleeping (S)")
	in.Close()
	check.Must(t, child.Wait())
	until("gone")
}
