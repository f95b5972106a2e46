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

	"golang.org/x/sys/unix"

	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/pickle"
)

// limitedEnv is for a process of these tests that opens a session under a limit,
// and says how that went. It holds the limit's number and its value.
const limitedEnv = "IPCBENCH_TEST_LIMITED"

// noUser begins what it says where it cannot be a user whom limits bind: in a namespace
// whose only user is root.
const noUser = "another user: "

func maybeLimited() {
	text := os.Getenv(limitedEnv)
	if text == "" {
		return
	}
	fmt.Println(limited(text))
	os.Exit(0)
}

func limited(text string) error {
	var resource int
	var most uint64
	if _, err := fmt.Sscan(text, &resource, &most); err != nil {
		return err
	}
	if resource == unix.RLIMIT_NPROC {
		if os.Geteuid() == 0 { // whom it does not bind
			if err := syscall.Setuid(65534); err != nil {
				return fmt.Errorf("%s%w", noUser, err)
			}
		}
		most += uint64(trainer.UserThreads(os.Geteuid()))
	}
	if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most}); err != nil {
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

// TestLimits: a user's limit that keeps workers from starting is an error that
// names the process and what it lacks, and nothing is left.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		resource, most int
		want           []string
	}{
		"files":   {unix.RLIMIT_NOFILE, 40, []string{"trainer: start: process ", "too many open files"}},
		"threads": {unix.RLIMIT_NPROC, 20, []string{"trainer: start: process ", "another process and the server need up to ", "the limit is ", "(ulimit -u)"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("/tmp", "limits-") // that another user finds too
			check(t, err)
			defer os.RemoveAll(dir)
			check(t, os.Chmod(dir, 0o777))
			cmd := exec.CommandContext(waiting.Context(t), "/proc/self/exe")
			cmd.Env = append(os.Environ(), "TMPDIR="+dir, limitedEnv+"="+strconv.Itoa(c.resource)+" "+strconv.Itoa(c.most))
			out, err := cmd.CombinedOutput()
			if why, ok := strings.CutPrefix(string(out), noUser); ok && err == nil {
				skip.Refused(t, "%s%s", noUser, why)
			}
			for _, want := range c.want {
				if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "goroutine ") {
					t.Errorf("%v: got %q, want one with %q", err, out, want)
				}
			}
			for _, after := range []string{"shutdown: ", "close: "} {
				if strings.Contains(string(out), after) {
					t.Errorf("got %q, want the cause alone, and not what follows from it", out)
				}
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}
