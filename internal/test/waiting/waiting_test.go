package waiting_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// TestWaiting: what comes is waited for.
func TestWaiting(t *testing.T) {
	n := 0
	waiting.Until(t, "the third look", func() bool { n++; return n == 3 })
	c := make(chan int, 1)
	waiting.Later(t, time.Millisecond, func() { c <- 7 })
	v := waiting.Receive(t, "a number", c)
	check.That(t, n == 3 && v == 7, "got %d looks and %d, want 3 and 7", n, v)
	waiting.Quiet(t, "a second number", c)
	waiting.Do(t, "nothing", func() {})
	ctx := waiting.Ending(t, time.Millisecond)
	<-ctx.Done()
	t.Run("inside", func(t *testing.T) { ctx = waiting.Context(t) })
	check.That(t, ctx.Err() != nil, "a context outlives its test")
	t.Run("cleanup", func(t *testing.T) {
		t.Cleanup(func() {
			check.OK(t, waiting.Context(t).Err(), "a context of a cleanup")
		})
	})
}

// TestPromise: a promise that is broken fails a long run, and no short one.
func TestPromise(t *testing.T) {
	for short, broken := range map[string]bool{"-test.short=true": false, "-test.short=false": true} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], short, "-test.run=^TestBroken$", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		out, err := cmd.CombinedOutput()
		if failed := errors.As(err, new(*exec.ExitError)); failed != broken || broken != strings.Contains(string(out), "B17: took ") {
			t.Errorf("%s: got %v, and want a failure: %v\n%s", short, err, broken, out)
		}
	}
}

// inner marks the processes of TestPromise, in which the test below runs.
const inner = "IPCBENCH_TEST_WAITING"

func TestBroken(t *testing.T) {
	if os.Getenv(inner) != "" {
		waiting.Promise(t, "B17", time.Nanosecond, func() { waiting.Pause(time.Millisecond) })
	}
}
