package usage

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/waiting"
)

// TestState: a process that runs, one that is stopped and one that is gone have different states.
func TestState(t *testing.T) {
	if got := State(os.Getpid()); got != "running (R)" && got != "sleeping (S)" { // the main thread's
		t.Errorf("this process is %s", got)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	pid := child.Process.Pid
	until := func(want string) {
		t.Helper()
		waiting.Until(t, "a child that is "+want, func() bool { return State(pid) == want })
	}
	until("sleeping (S)")
	if err := child.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	until("stopped (T)")
	if !Stopped(pid) {
		t.Error("a stopped process is not")
	}
	if err := child.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	until("sleeping (S)")
	in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	until("gone")
}
