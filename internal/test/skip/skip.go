// Package skip is how a test says that it does not run here. There are three reasons.
// The run is short, and the test is long. A tool is missing: it can be installed, so
// that is a failure where CI is set. Or the kernel refuses something. `make check`
// counts the tests that were skipped for the latter two.
package skip

import (
	"fmt"
	"os"
	"testing"
)

// Long ends t where tests are to be short: in `make check`. `make check-long` runs it.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make check-long runs it")
	}
}

// Missing ends t, which needs a tool that is not installed: the text says which,
// and how to get it. Where the environment variable CI is set, t has failed.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	text := "not installed: " + fmt.Sprintf(format, args...)
	if os.Getenv("CI") != "" {
		t.Fatal(text + " (CI is set, so nothing may be missing: see .ci/install)")
	}
	t.Skip(text)
}

// Refused ends t, which needs what this kernel, or this user's rights, do not
// give: "namespaces: operation not permitted".
func Refused(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Skip("the kernel refuses " + fmt.Sprintf(format, args...))
}
