package trainer_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/trainer"
)

// limitedEnv marks a process of these tests that opens a session under a limit of open
// files.
const limitedEnv = "IPCBENCH_TEST_LIMITED"

// TestFileLimit: if a limit of open files keeps workers from starting, the error names the
// process and the limit, and nothing is left behind.
func TestFileLimit(t *testing.T) {
	if os.Getenv(limitedEnv) != "" {
		check.Must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 40, Max: 40}))
		mustOpen(t, "pickle", trainer.NewProcesses(), func(c *trainer.Config) { c.Workers, c.Clients = 20, 20 })
		return
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(waiting.Context(t), "/proc/self/exe", "-test.run=^TestFileLimit$")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, limitedEnv+"=1")
	out, err := cmd.CombinedOutput()
	check.That(t, err != nil, "it opens")
	contains(t, errors.New(string(out)), "trainer: start: process ", "too many open files")
	for _, more := range []string{"goroutine ", "shutdown: ", "close: "} {
		check.That(t, !strings.Contains(string(out), more), "got %q, want the cause alone, and not what follows from it", out)
	}
	check.Equal(t, check.Value(os.ReadDir(dir))(t), []os.DirEntry{})
}

// TestThreadLimit: if the kernel refuses a new process, the error names the limit.
func TestThreadLimit(t *testing.T) {
	err := trainer.StartError(3, fmt.Errorf("fork: %w", syscall.EAGAIN))
	contains(t, err, "process 3: fork: ", "(ulimit -u)")
}
