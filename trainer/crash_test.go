package trainer_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// stumble is a worker function that panics at the point that its configuration names: when
// it is made, or for client 2.
func stumble(config []byte) (trainer.Train, error) {
	if string(config) == "made" {
		panic("no such dataset")
	}
	return func(c *trainer.Job) error {
		if c.Client == 2 {
			switch string(config) {
			case "called":
				panic("loss of client 2 is a panic")
			case "scribbles":
				c.Model.View(0)[0]++
			}
		}
		return tensor.Train(c.Update, c.Model, tensor.Key{Round: c.Round, Client: c.Client})
	}, nil
}

// nothingLeft checks that no session of this process has left files or mappings in shared
// memory.
func nothingLeft(t *testing.T, context ...any) {
	t.Helper()
	locks := check.Value(filepath.Glob("/dev/shm/ipcbench-*/lock"))(t)
	for _, lock := range locks {
		owner, _ := os.ReadFile(lock) // another process may have removed its lock
		check.That(t, !strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", os.Getpid())), "%v: %s is left", context, lock)
	}
	maps := check.Value(os.ReadFile("/proc/self/maps"))(t)
	check.That(t, !strings.Contains(string(maps), "ipcbench-"), "%v: still mapped:\n%s", context, maps)
}

// TestPanic: A28: a panic in a worker function, or in the server's callback, is returned as
// an error with the client and the stack. The session ends as after any other error and
// leaves nothing behind.
func TestPanic(t *testing.T) {
	goroutines := trainer.NewGoroutines(host())
	for _, c := range []struct {
		name, transport string
		launcher        trainer.Launcher
	}{
		// shm-tensor has one shared-memory file per tensor.
		{"processes", "shm-tensor", trainer.NewProcesses()}, {"goroutines", "shm-tensor", goroutines},
		{"slab", "shm-slab", goroutines}, {"inproc", "inproc", goroutines},
	} {
		for where, want := range map[string][]string{
			"made":   {"panic: no such dataset", "trainer_test.stumble", "crash_test.go:"},
			"called": {"client 2", "panic: loss of client 2 is a panic", "trainer_test.stumble", "crash_test.go:"},
			// The model is mapped read-only, except with inproc.
			"scribbles": {"client 2", "memory fault in ", "it is mapped read-only"},
			"each":      {"round 4, client 1", "panic: runtime error: index out of range", "crash_test.go:"},
		} {
			if where == "scribbles" && c.name == "inproc" {
				continue
			}
			err := panicking(t, c.transport, c.launcher, where)
			for _, w := range want {
				check.Fails(t, err, w, c.name, where)
			}
			nothingLeft(t, c.name, where)
		}
	}
}

// panicking runs one round with a panic in it, and closes the session.
func panicking(t *testing.T, transport string, launcher trainer.Launcher, where string) error {
	t.Helper()
	s, err := open(t, transport, launcher, func(c *trainer.Config) { c.Down, c.Func, c.FuncConfig = layoutOf(t, 1000), "stumble", []byte(where) })
	if err != nil {
		return err
	}
	err = round(t.Context(), s, 4, 4, func(u trainer.Update) error {
		defer u.Release()
		if where == "each" && u.Index == 1 {
			_ = []int{}[u.Index]
		}
		return nil
	})
	closes(t, s)
	return err
}
