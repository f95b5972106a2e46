package ipcbench_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"ipcbench/internal/test/skip"
)

// TestOutside: the examples and their tests are programs that may stand in another
// module, made as CONTRIBUTING.md says: they need nothing that is internal to this one.
func TestOutside(t *testing.T) {
	skip.Long(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	goLine := regexp.MustCompile(`(?m)^go .*$`).FindString(read(t, "go.mod"))
	for _, example := range []string{"fedavg", "transport"} {
		t.Run(example, func(t *testing.T) {
			dir := t.TempDir()
			files, err := filepath.Glob("examples/" + example + "/*.go")
			if err != nil || len(files) < 2 {
				t.Fatal(files, err)
			}
			for _, path := range append(files, "go.sum") {
				write(t, filepath.Join(dir, filepath.Base(path)), read(t, path))
			}
			write(t, filepath.Join(dir, "go.mod"), "module example\n\n"+goLine+"\n\nrequire ipcbench v0.0.0\n\nreplace ipcbench => "+here+"\n")
			for _, args := range [][]string{{"build", "-o", os.DevNull, "."}, {"vet", "."}} {
				cmd := exec.CommandContext(t.Context(), "go", args...)
				// -mod=mod adds what the module lacks, as go mod tidy does, and all of it is here.
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("go %s: %v\n%s", args[0], err, out)
				}
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
