package trainer_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestStop: B17: running worker functions see the flag, and those of the next
// Process do not.
func TestStop(t *testing.T) {
	dir := t.TempDir()
	ct := newTrainer(t, "pickle", "endless", 2, false)
	name := func(client int) string { return filepath.Join(dir, strconv.Itoa(client)) }
	ct.Task = task{config: name}
	for range 2 {
		ended := make(chan error, 1)
		go func() { ended <- ct.Process(t.Context(), newPayload(t, 0), []int{0, 1}) }()
		for _, client := range []int{0, 1} {
			awaitFile(t, name(client))
			check(t, os.Remove(name(client)))
		}
		check(t, ct.Stop())
		select {
		case err := <-ended:
			check(t, err)
		case <-time.After(20 * time.Second):
			t.Fatal("worker functions did not see the stop flag")
		}
		for _, u := range take(t, ct) {
			if !u.Stopped {
				t.Errorf("client %d ended without the flag", u.Client)
			}
		}
	}
}

// TestStopEarly: a Stop while Process still prepares holds, in a session that is
// being opened as in one that exists.
func TestStopEarly(t *testing.T) {
	dir := t.TempDir()
	ct := newTrainer(t, "pickle", "endless", 1, false)
	ct.Task = task{config: func(client int) string {
		check(t, ct.Stop())
		return filepath.Join(dir, strconv.Itoa(client))
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 2 {
		check(t, ct.Process(ctx, newPayload(t, 0), []int{0}))
		if u := take(t, ct)[0]; !u.Stopped {
			t.Error("the worker function ended without the flag")
		}
	}
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s did not appear", path)
		}
		<-time.After(time.Millisecond)
	}
}
