// Package waiting lets tests wait. Durations depend on the machine and its other work, so a
// test must not fail because of one: it waits for an event. If the event does not come
// within a limit that every machine can meet, the test hangs, and ends with its name and
// all goroutines' stacks.
//
// A test may also use time to disturb the program: a context that ends in the middle of a
// call, or a worker that is slow. No outcome may depend on the duration.
//
// TestTime at the root forbids package time's own ways to wait and to measure in all other
// tests.
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

// Limit is the time after which a missing event counts as a hang.
const Limit = 3 * time.Minute

// poll calls ok until it or late returns true. It pauses longer after each call, because
// polling uses CPU time that others may need.
func poll(ok, late func() bool) bool {
	for pause := time.Millisecond; !ok(); pause = min(pause*3/2, 50*time.Millisecond) {
		if late() {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// hangs writes all goroutines' stacks to stderr and returns the test's error message.
func hangs(t testing.TB, what string) string {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	text := fmt.Sprintf("%s: %s: hangs: not within %v", t.Name(), what, Limit)
	fmt.Fprintf(os.Stderr, "%s\n\n%s\n", text, stacks)
	return text
}

// Do calls f, which must return: at the limit the process ends.
func Do(t testing.TB, what string, f func()) {
	t.Helper()
	timer := time.AfterFunc(Limit, func() { panic(hangs(t, what)) })
	defer timer.Stop()
	f()
}

// A limited is a context with a limit, for the calls of a test.
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

// contexts has one context per running test, because a test may ask for one at every call,
// and some tests count goroutines.
var contexts sync.Map

// Context returns a context for calls that must return. It ends with the test, or with a
// cause that explains it if the limit has passed since the last call of Context. It can be
// called in a cleanup.
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

// Lasting is like Context, but its context ends after the cleanups that are registered
// after this call.
func Lasting(t testing.TB) context.Context { return limit(t, context.WithoutCancel(t.Context())).ctx }

// Until waits until ok returns true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(Limit)
	if !poll(ok, func() bool { return time.Now().After(deadline) }) {
		t.Fatal(hangs(t, what))
	}
}

// Poll is like Until, for a process that a test has started. The test limits the process's
// time.
func Poll(ok func() bool) { poll(ok, func() bool { return false }) }

// Receive returns a value from c, or a zero value once c is closed.
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

// Conn sets the limit as the deadline of all reads from and writes to c.
func Conn(t testing.TB, c interface{ SetDeadline(time.Time) error }) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(Limit)); err != nil {
		t.Fatal(err)
	}
}

// Promise calls f, which must end within d by the promise of row, the id of a row of
// docs/reference/mechanisms.md. A short run may share the machine with others, so there f
// must only return, as in Do. In a long run it must also keep the promise.
func Promise(t testing.TB, row string, d time.Duration, f func()) {
	t.Helper()
	began := time.Now()
	Do(t, row, f)
	if took := time.Since(began); took > d && !testing.Short() {
		t.Errorf("%s: took %v, and at most %v is promised", row, took, d)
	}
}

// Ending returns a context that ends after d, for a call that must end with it.
func Ending(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Later calls f after d, unless the test has ended.
func Later(t testing.TB, d time.Duration, f func()) {
	t.Helper()
	timer := time.AfterFunc(d, f)
	t.Cleanup(func() { timer.Stop() })
}

// Quiet fails if c delivers a value within 30 ms. It misses later values, but never fails
// because the machine is slow.
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

// Pause makes its caller slow, to disturb others. It must not be used to wait for them.
func Pause(d time.Duration) { time.Sleep(d) }

// Forever does not return. It is for a process that must be killed, and leaves signals
// alone.
func Forever() {
	for {
		time.Sleep(time.Hour)
	}
}
