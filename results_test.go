package ipcbench_test

import (
	"os"
	"testing"
)

// What results may take, in bytes: they are in every clone for ever.
const (
	largestResult = 500_000 // openfl.json.gz has hundreds of clients a round
	allResults    = 3_000_000
)

// TestResultsSize: no file in results is too large, nor are all of them together.
func TestResultsSize(t *testing.T) {
	entries, err := os.ReadDir("results")
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	var sum int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if sum += info.Size(); info.Size() > largestResult {
			t.Errorf("results/%s has %d bytes, want at most %d: --out NAME.json.gz compresses", e.Name(), info.Size(), largestResult)
		}
	}
	if sum > allResults {
		t.Errorf("results has %d bytes, want at most %d", sum, allResults)
	}
}
