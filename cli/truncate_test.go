package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// TestTruncated: A28: a segment that somebody truncates while a run has it mapped
// ends the run with an error that names the file: no process dies of it, and
// nothing is left.
func TestTruncated(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	path, err := exec.LookPath("ipcbench")
	check.Must(t, err)
	for _, c := range []struct{ variant, files string }{
		{"http-shm", "models"},    // the server writes there, workers read
		{"http-shm", "updates-*"}, // workers write there, the server reads
		{"shm-tensor:reuse=on", "model-*"},
		{"shm-tensor:reuse=on", "update-*"},
	} {
		t.Run(c.variant+"/"+strings.Trim(c.files, "-*"), func(t *testing.T) {
			tmp := shortDir(t)
			cmd := exec.Command(path, "run", "--transport", c.variant, "--model", "cnn", "--workers", "2",
				"--train-ms", "10", "--blocks", "1", "--time", "30s", "--out", filepath.Join(tmp, "out.json"))
			cmd.Dir, cmd.Env = tmp, append(os.Environ(), "TMPDIR="+tmp)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			check.Must(t, cmd.Start())
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
			var cut []string
			waiting.Until(t, "the end of a run with truncated segments", func() bool {
				select {
				case err = <-ended:
					return true
				default:
				}
				if found, _ := truncate(t, memoryOf(cmd.Process.Pid), c.files); found != nil {
					cut = found // again, if a session had just ended
				}
				return false
			})
			text := stderr.String()
			var exit *exec.ExitError
			check.That(t, errors.As(err, &exit) && exit.ExitCode() == exitFailed,
				"the run ended with %v, want code %d", err, exitFailed)
			named := slices.ContainsFunc(cut, func(path string) bool { return strings.Contains(text, "memory fault in "+path+", at byte ") })
			check.That(t, named && strings.Contains(text, "truncated to 0 bytes") && !strings.Contains(text, "goroutine "),
				"%v were truncated, and the error is\n%s", cut, text)
			left := memoryOf(cmd.Process.Pid)
			check.That(t, len(left) <= 0, "%v are left", left)
			if left, _ := filepath.Glob(filepath.Join(tmp, "ipcbench-*")); len(left) > 0 { // the pattern is well-formed
				t.Errorf("%v are left", left)
			}
			if left, _ := mapping(cut); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

// memoryOf returns the directories in shared memory of the process.
func memoryOf(pid int) (dirs []string) {
	locks, _ := filepath.Glob("/dev/shm/ipcbench-*/lock") // the pattern is well-formed
	for _, lock := range locks {
		if owner, err := os.ReadFile(lock); err == nil && strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", pid)) {
			dirs = append(dirs, filepath.Dir(lock))
		}
	}
	return dirs
}

// truncate cuts off the files in directories of sessions that match pattern, once
// another process has mapped each of them, and returns their names and when it began:
// one that is opened later is refused for its size.
func truncate(t *testing.T, dirs []string, pattern string) (found []string, began time.Time) {
	for _, dir := range dirs {
		found, _ = filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
		if _, each := mapping(found); len(found) == 0 || slices.Min(each) < 2 {
			continue
		}
		began = time.Now()
		for _, path := range found {
			err := os.Chmod(path, 0o600) // some may only be read, which does not stop their owner
			if err == nil {
				err = os.Truncate(path, 0)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) { // gone meanwhile
				t.Error(err)
			}
		}
		return found, began
	}
	return nil, began
}

// mapping returns the processes that have one of the files mapped, and how many have each
// of them. To them, a file may lie elsewhere, in the same directory of a session.
func mapping(paths []string) (pids []string, each []int) {
	each = make([]int, len(paths))
	all, _ := filepath.Glob("/proc/[0-9]*/maps") // the pattern is well-formed
	for _, maps := range all {
		text, _ := os.ReadFile(maps) // nothing of a process that has ended
		has := false
		for i, path := range paths {
			if bytes.Contains(text, []byte(filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)))) {
				each[i]++
				has = true
			}
		}
		if has {
			pids = append(pids, maps)
		}
	}
	return pids, each
}
