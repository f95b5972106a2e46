package trainer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/pickle"
)

// limitedEnv is for a process of these tests that opens a session under a limit of
// open files, and prints the error. It holds the limit.
const limitedEnv = "IPCBENCH_TEST_LIMITED"

func maybeLimited() {
	if text := os.Getenv(limitedEnv); text != "" {
		fmt.Println(limited(text))
		os.Exit(0)
	}
}

func limited(text string) error {
	most, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
		return err
	}
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	if err != nil {
		return err
	}
	v, err := transports.NewVariant(pickle.New(), nil)
	if err != nil {
		return err
	}
	p, err := trainer.Open(context.Background(), trainer.Config{
		Variant: v, Down: layout, Up: layout, Workers: 20, Clients: 20, Func: "linger", FuncConfig: []byte("0s"), Launcher: trainer.NewProcesses(),
	})
	if err != nil {
		return err
	}
	_, err = p.Close()
	return err
}

// TestFileLimit: a limit of open files that keeps workers from starting is an error that
// names the process and the limit, and nothing is left.
func TestFileLimit(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(waiting.Context(t), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, limitedEnv+"=40")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"trainer: start: process ", "too many open files"} {
		check.That(t, err == nil && strings.Contains(string(out), want) && !strings.Contains(string(out), "goroutine "),
			"%v: got %q, want one with %q", err, out, want)
	}
	for _, after := range []string{"shutdown: ", "close: "} {
		check.That(t, !strings.Contains(string(out), after), "got %q, want the cause alone, and not what follows from it", out)
	}
	left, err := os.ReadDir(dir)
	check.That(t, err == nil && len(left) <= 0, "left behind: %v (%v)", left, err)
}

// TestThreadLimit: a kernel that refuses a process is an error that names the limit.
func TestThreadLimit(t *testing.T) {
	err := trainer.StartError(3, fmt.Errorf("fork: %w", syscall.EAGAIN))
	if text := err.Error(); !strings.HasPrefix(text, "process 3: fork: ") || !strings.Contains(text, "(ulimit -u)") {
		t.Errorf("got %q, want one that names process and limit", text)
	}
}
