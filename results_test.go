package ipcbench_test

import (
	"os"
	"path/filepath"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// Limits for committed results, in bytes, because they stay in every clone for ever.
const (
	largestResult = 3_500_000 // all.json.gz has 100 cells of eleven blocks, some with 200 clients per round
	allResults    = 8_000_000
)

// TestResultsSize: each file in results and all of them together are within the limits.
func TestResultsSize(t *testing.T) {
	entries, err := os.ReadDir("results")
	check.Need(t, err == nil && len(entries) != 0, "%d files, %v", len(entries), err)
	var sum int64
	for _, e := range entries {
		info := check.Value(e.Info())(t)
		if sum += info.Size(); info.Size() > largestResult {
			t.Errorf("results/%s has %d bytes, want at most %d: --out NAME.json.gz compresses", e.Name(), info.Size(), largestResult)
		}
	}
	check.That(t, sum <= allResults, "results has %d bytes, want at most %d", sum, allResults)
}

// TestResultsBlocks: no sentence is about fewer than ten blocks, nor about fewer than four rounds of a block whose
// median is below 5 s.
func TestResultsBlocks(t *testing.T) {
	const blocks, rounds, long = 10, 4, 5.0
	files := check.Value(filepath.Glob("results/*.json.gz"))(t)
	check.Need(t, len(files) != 0, "no file")
	for _, file := range files {
		for _, c := range metrics.New(check.Value(result.ReadFile(file))(t)).Cells {
			check.That(t, len(c.Timed()) >= blocks, "%s: %s has %d blocks, want at least %d", file, c.Name(), len(c.Timed()), blocks)
			for _, block := range c.Samples("round") {
				check.That(t, len(block) >= rounds || stat.Median(block) >= long,
					"%s: %s has a block of %d rounds of %.2g s, want at least %d", file, c.Name(), len(block), stat.Median(block), rounds)
			}
		}
	}
}
