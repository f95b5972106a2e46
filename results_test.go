package ipcbench_test

import (
	"os"
	"testing"

	"ipcbench/internal/test/check"
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
