// Package waiting is what tests know of time. How long something takes depends on the
// machine and on what else it does, so that no test may judge by it: a test waits for
// what has to come. If that does not come within a limit that no machine needs, it
// hangs, and the test ends with its name and all goroutines' stacks.
//
// Time may also be what a test does to the program: a context that ends in the midst
// of a call, a worker that is slow. Nothing may depend on how long it is.
//
// TestTime at the root refuses package time's own ways to wait and to measure in all
// other tests.
package waiting

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"
)

// Limit is after how long what has not come is taken for a hang.
const Limit = 3 * time.Minute

// poll calls ok until it returns true or late does. Looking may take a processor that
// others want, so it looks less often the longer it has waited.
func poll(ok, late func() bool) bool {
	for pause := time.Millisecond; !ok(); pause = min(pause*3/2, 50*time.Millisecond) {
		if late() {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// hangs writes all goroutines' stacks and returns what is to be said.
func hangs(t testing.TB, what string) string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	text := fmt.Sprintf("%s: %s: hangs: not within %v", t.Name(), what, Limit)
	fmt.Fprintf(os.Stderr, "%s\n\n%s\n", text, stacks)
	return text
}

// Do calls f, which has to return: at the limit the process ends.
func Do(t testing.TB, what string, f func()) {
	t.Helper()
	timer := time.AfterFunc(Limit, func() { panic(hangs(t, what)) })
	defer timer.Stop()
	f()
}

// A limited is the context of a test's calls.
type limited struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
}

func limit(t testing.TB, parent context.Context) *limited {
	l := &limited{}
	l.ctx, l.cancel = context.WithCancelCause(parent)
	l.timer = time.AfterFunc(Limit, func() { l.cancel(fmt.Errorf("%s", hangs(t, "a call"))) })
	t.Cleanup(func() {
		l.timer.Stop()
		l.cancel(nil)
	})
	return l
}

// contexts has the one of each test that runs: a test may ask for one at every call,
// and some tests count what is alive.
var contexts sync.Map

// Context returns a context for calls that have to return: it ends with the test, or
// when it is asked for no more and the limit is reached, with a cause that says so. It
// may be made in a cleanup.
func Context(t testing.TB) context.Context {
	t.Helper()
	if t.Context().Err() != nil { // in a cleanup
		return limit(t, context.Background()).ctx
	}
	if known, ok := contexts.Load(t); ok {
		l := known.(*limited)
		if l.ctx.Err() == nil {
			l.timer.Reset(Limit)
		}
		return l.ctx
	}
	l := limit(t, t.Context())
	if _, raced := contexts.LoadOrStore(t, l); !raced {
		t.Cleanup(func() { contexts.Delete(t) })
	}
	return l.ctx
}

// Lasting is Context for what cleanups use that come later: it ends after them.
func Lasting(t testing.TB) context.Context { return limit(t, context.WithoutCancel(t.Context())).ctx }

// Until waits until ok returns true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(Limit)
	if !poll(ok, func() bool { return time.Now().After(deadline) }) {
		t.Fatal(hangs(t, what))
	}
}

// Poll is Until for a process that a test has started, and bounds.
func Poll(ok func() bool) { poll(ok, func() bool { return false }) }

// Receive returns what comes out of c, or a zero once c is closed.
func Receive[T any](t testing.TB, what string, c <-chan T) (v T) {
	t.Helper()
	timer := time.NewTimer(Limit)
	defer timer.Stop()
	select {
	case v = <-c:
	case <-timer.C:
		t.Fatal(hangs(t, what))
	}
	return v
}

// Conn bounds all that is read from c and written to it.
func Conn(t testing.TB, c interface{ SetDeadline(time.Time) error }) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(Limit)); err != nil {
		t.Fatal(err)
	}
}

// Promise calls f, of which row promises that it takes at most d: rows are those of
// docs/reference/mechanisms.md. In a short run, which anything may slow down, f has to return,
// as in Do; in a long one it has to keep the promise, too.
func Promise(t testing.TB, row string, d time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	Do(t, row, f)
	if took := time.Since(began); took > d && !testing.Short() {
		t.Errorf("%s: took %v, and at most %v is promised", row, took, d)
	}
}

// Ending returns a context that ends after d, for a call that has to end with it.
func Ending(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Later calls f after d, at whatever moment of the test that is, unless it has ended.
func Later(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	timer := time.AfterFunc(d, f)
	t.Cleanup(func() { timer.Stop() })
}

// Quiet fails if something comes out of c within a moment. What comes later is missed:
// it never fails for want of time.
func Quiet[T any](t testing.TB, what string, c <-chan T) {
	t.Helper()
	timer := time.NewTimer(30 * time.Millisecond)
	defer timer.Stop()
	select {
	case v := <-c:
		t.Errorf("%s: got %v, and nothing was to come", what, v)
	case <-timer.C:
	}
}

// Pause makes its caller slow, which is what a test does to others: it is no way to
// wait for them.
func Pause(d time.Duration) { time.Sleep(d) }

// Forever does not return. It is for a process that somebody has to kill, and leaves
// signals to it.
func Forever() {
	for {
		time.Sleep(time.Hour)
	}
}
