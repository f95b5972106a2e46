package ipcbench_test

import (
	"os"
	"testing"

	"ipcbench/internal/test/check"
)

// What results may take, in bytes: they are in every clone for ever.
const (
	largestResult = 500_000 // openfl.json.gz has hundreds of clients a round
	allResults    = 3_000_000
)

// TestResultsSize: no file in results is too large, nor are all of them together.
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
