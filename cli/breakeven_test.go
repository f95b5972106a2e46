package cli

import (
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
)

// TestCheckBreakEven: a break-even in the range is measured at half and at twice its
// rate, one beyond it is not and says so, and what was measured stands in the result.
// What the answers are is up to the machine: the exit status says whether one was
// wrong.
func TestCheckBreakEven(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	exe, out := onLink(t), filepath.Join(t.TempDir(), "out.json")
	cmd := exec.CommandContext(waiting.Context(t), exe, "run", "--quick", "--rounds", "4", "--blocks", "2", "--quiet", "--transport", "http", "--codec", "none,xor+shuffle+zstd",
		"--model", "uniform:1MiB/4", "--clients", "1", "--workers", "1", "--check-break-even", "--out", out)
	text, err := cmd.CombinedOutput()
	wrong := strings.Contains(string(text), ": wrong at ") || strings.Contains(string(text), "; wrong at ")
	if failed := (*exec.ExitError)(nil); err != nil && !(wrong && errors.As(err, &failed) && failed.ExitCode() == 1) || wrong && err == nil {
		t.Fatalf("%v: %s", err, text)
	}
	r, err := bench.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	rates := map[string]int{}
	for _, c := range r.Cells {
		if c.Link != "" && c.Link != "unshaped" {
			rates[c.Link]++
		}
	}
	const answer = `(right|wrong|too close to call) at [0-9.]+ [MG]bit/s, [+−]`
	checked := regexp.MustCompile(`http with xor\+shuffle\+zstd pays (at least )?below [^:]+: ` + answer + `[^;]*; ` + answer).Match(text)
	left := regexp.MustCompile(`http with xor\+shuffle\+zstd (never pays|pays on any link|pays [^:]*: not checked, which is done from 50 Mbit/s to 1 Gbit/s)\n`).Match(text)
	if checked == left || checked && len(rates) != 2 || left && len(rates) > 0 {
		t.Errorf("cells at %v: %s", rates, text)
	}
	t.Logf("%s", text)
}
