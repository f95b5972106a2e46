package ipcbench_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestOutside: the examples build in a module of their own, made as CONTRIBUTING.md says, so they need nothing internal
// of this module. The example of package fedavg becomes a program.
func TestOutside(t *testing.T) {
	skip.Long(t)
	here := check.Value(os.Getwd())(t)
	// The example's module requires the same versions as this one, so go reads only module files that are already
	// downloaded.
	mod := strings.Replace(read(t, "go.mod"), "module ipcbench\n", "module example\n\nrequire ipcbench v0.0.0\n\nreplace ipcbench => "+here+"\n", 1)
	example := strings.NewReplacer("package fedavg_test\n", "package main\n", "func Example() {", "func main() {")
	for name, pattern := range map[string]string{"fedavg": "fedavg/example_test.go", "transport": "examples/transport/*.go"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files, err := filepath.Glob(pattern)
			check.Need(t, err == nil && len(files) != 0, "%v %v", files, err)
			for _, path := range append(files, "go.sum") {
				base := strings.Replace(filepath.Base(path), "example_test", "main", 1)
				write(t, filepath.Join(dir, base), example.Replace(read(t, path)))
			}
			write(t, filepath.Join(dir, "go.mod"), mod)
			for _, args := range [][]string{{"build", "-o", os.DevNull, "."}, {"vet", "."}} {
				cmd := exec.CommandContext(t.Context(), "go", args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOPROXY=off", "GOWORK=off")
				out, err := cmd.CombinedOutput()
				check.That(t, err == nil, "go %s: %v\n%s", args[0], err, out)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
}
