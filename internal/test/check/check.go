// Package check has assertions for tests. Each one reports the line that called it, and the
// actual and the expected value. The optional context is printed before them, its values
// separated by spaces.
//
// Must and Need end the test. The other assertions let it continue.
package check

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
)

// TB has the methods that checks use. Both *testing.T and *rapid.T have them.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func prefix(context []any) string {
	if len(context) == 0 {
		return ""
	}
	return strings.TrimSuffix(fmt.Sprintln(context...), "\n") + ": "
}

// Must ends the test if err is not nil.
func Must(t TB, err error, context ...any) {
	if err != nil {
		t.Helper()
		t.Fatalf("%s%v", prefix(context), err)
	}
}

// OK fails the test if err is not nil.
func OK(t TB, err error, context ...any) {
	if err != nil {
		t.Helper()
		t.Errorf("%s%v", prefix(context), err)
	}
}

// Need ends the test unless ok. The format describes the problem.
func Need(t TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// That fails the test unless ok. The format describes the problem.
func That(t TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Equal fails the test unless got and want are deeply equal.
func Equal[T any](t TB, got, want T, context ...any) {
	if !reflect.DeepEqual(got, want) {
		t.Helper()
		t.Errorf("%sgot %+v, want %+v", prefix(context), got, want)
	}
}

// Same fails the test if diff, the result of cmp.Diff(want, got), is not empty.
func Same(t TB, diff string, context ...any) {
	if diff != "" {
		t.Helper()
		t.Errorf("%s(-want +got):\n%s", prefix(context), diff)
	}
}

// Fails fails the test unless err is an error whose text contains text.
func Fails(t TB, err error, text string, context ...any) {
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Helper()
		t.Errorf("%sgot error %v, want one that contains %q", prefix(context), err, text)
	}
}

// Ends fails the test unless err is an error whose text contains text or, if text is empty,
// err is nil.
func Ends(t TB, err error, text string, context ...any) {
	t.Helper()
	if text == "" {
		OK(t, err, context...)
	} else {
		Fails(t, err, text, context...)
	}
}

// Is fails the test unless err is target, or wraps it.
func Is(t TB, err, target error, context ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Errorf("%sgot error %v, want %v", prefix(context), err, target)
	}
}

// Value ends the test if the call failed, and otherwise returns the call's value:
//
//	text := check.Value(os.ReadFile(path))(t)
func Value[T any](v T, err error) func(t TB) T {
	return func(t TB) T {
		t.Helper()
		Must(t, err)
		return v
	}
}

// Allocated returns how many bytes the process allocates while f runs.
func Allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// Err returns the error of a call and drops its value.
func Err[T any](_ T, err error) error { return err }

// Nearly reports whether two numbers differ by at most by.
func Nearly(a, b, by float64) bool { return math.Abs(a-b) <= by }
