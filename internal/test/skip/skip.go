// Package skip skips tests for one of four reasons. A long test does not run in a short run, and
// a test of make soak in no other one. If a tool is missing, the test is skipped, but fails if CI
// is set, because tools can be installed. The kernel may refuse an operation. `make check` counts
// the tests skipped for the last two reasons.
package skip

import (
	"fmt"
	"os"
	"testing"
)

// Long skips t in short runs, such as `make check`. `make check-long` runs it.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make check-long runs it")
	}
}

// Soak skips t unless IPCBENCH_TEST_SOAK is set. `make soak` sets it.
func Soak(t testing.TB) {
	t.Helper()
	if os.Getenv("IPCBENCH_TEST_SOAK") == "" {
		t.Skip("IPCBENCH_TEST_SOAK=1 runs it")
	}
}

// Missing skips t, which needs a tool that is not installed. The text names the tool and
// its package. If the environment variable CI is set, t fails.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	text := "not installed: " + fmt.Sprintf(format, args...)
	if os.Getenv("CI") != "" {
		t.Fatal(text + " (CI is set, so nothing may be missing: see .ci/install)")
	}
	t.Skip(text)
}

// Refused skips t, which needs an operation that this kernel or this user's rights do not
// allow: "namespaces: operation not permitted".
func Refused(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Skip("the kernel refuses " + fmt.Sprintf(format, args...))
}
