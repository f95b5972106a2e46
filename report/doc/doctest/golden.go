package doctest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
)

// Golden compares got with testdata/name, or writes that file if the flag -update of the
// package under test is set.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if flag.Lookup("update").Value.String() == "true" {
		check.Must(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want := check.Value(os.ReadFile(path))(t)
	check.Same(t, cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")), path, "(-update rewrites it)")
}
