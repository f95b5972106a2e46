package skip

import (
	"ipcbench/internal/test/check"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestCI: where CI is set a missing tool is a failure, and what the kernel refuses
// is not.
func TestCI(t *testing.T) {
	for _, c := range []struct {
		name, ci, test string
		fails          bool
		text           string
	}{
		{"a tool, at home", "", "TestWithoutTool", false, "not installed: a tool"},
		{"a tool, in CI", "true", "TestWithoutTool", true, "not installed: a tool"},
		{"a right, at home", "", "TestWithoutRight", false, "the kernel refuses a right"},
		{"a right, in CI", "true", "TestWithoutRight", false, "the kernel refuses a right"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+c.test+"$", "-test.v", "-test.timeout=30s")
		cmd.Env = append(os.Environ(), "CI="+c.ci, inner+"=1")
		out, err := cmd.CombinedOutput()
		verdict := "--- SKIP: " + c.test
		if c.fails {
			verdict = "--- FAIL: " + c.test
		}
		check.That(t, (err != nil) == c.fails && strings.Contains(string(out), verdict) && strings.Contains(string(out), c.text),
			"%s: got %v, want %q and %q in\n%s", c.name, err, verdict, c.text, out)
	}
}

// inner marks the processes of TestCI, in which the two tests below run.
const inner = "IPCBENCH_TEST_SKIP"

func TestWithoutTool(t *testing.T) {
	if os.Getenv(inner) != "" {
		Missing(t, "a tool")
	}
}

func TestWithoutRight(t *testing.T) {
	if os.Getenv(inner) != "" {
		Refused(t, "a right")
	}
}
