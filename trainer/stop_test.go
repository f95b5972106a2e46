package trainer_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestStop: B17: running worker functions see the flag when they look the next
// time, and those of the next Process do not.
func TestStop(t *testing.T) {
	for _, transport := range []string{"pickle", "shm-slab", "grpc-stream", "http"} {
		t.Run(transport, func(t *testing.T) { testStop(t, transport) })
	}
}

func testStop(t *testing.T, transport string) {
	dir := t.TempDir()
	ct := newTrainer(t, transport, "endless", 2, false)
	name := func(client int) string { return filepath.Join(dir, strconv.Itoa(client)) }
	ct.Config = func(client int) ([]byte, error) { return []byte(name(client)), nil }
	epochs := func(client int) int64 {
		info, err := os.Stat(name(client) + ".epochs")
		check(t, err)
		return info.Size()
	}
	for range 2 {
		ended := make(chan error, 1)
		go func() { ended <- ct.Process(t.Context(), newPayload(t, 0), []int{0, 1}) }()
		for _, client := range []int{0, 1} {
			awaitFile(t, name(client))
			awaitFile(t, name(client)+".epochs")
			check(t, os.Remove(name(client)))
		}
		check(t, ct.Stop())
		before := []int64{epochs(0), epochs(1)}
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
			// The epoch that was running, and one more if the flag came just after a look.
			if n := epochs(u.Client) - before[u.Client]; n > 2 {
				t.Errorf("client %d went on for %d epochs", u.Client, n)
			}
			check(t, os.Remove(name(u.Client)+".epochs"))
		}
	}
}

// TestStopEarly: a Stop while Process still prepares holds, in a session that is
// being opened as in one that exists.
func TestStopEarly(t *testing.T) {
	dir := t.TempDir()
	ct := newTrainer(t, "pickle", "endless", 1, false)
	ct.Config = func(client int) ([]byte, error) {
		return []byte(filepath.Join(dir, strconv.Itoa(client))), ct.Stop()
	}
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
