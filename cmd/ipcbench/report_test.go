package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench"
)

// TestImplausible: a result that says what cannot be is shown and fails, with what
// is wrong with it (guard 21).
func TestImplausible(t *testing.T) {
	r, err := bench.ReadFile("../../report/testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Cells[0].Blocks {
		b.Train[0] = 10 * b.Round[0]
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := r.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	var out, stderr bytes.Buffer
	a := newApp(&out, &stderr)
	err = a.report("text", []string{path})
	if err == nil || !strings.Contains(err.Error(), "trained for") {
		t.Errorf("got error %v, want one of a round that was shorter than the training in it", err)
	}
	if !strings.Contains(out.String(), "Round trips") {
		t.Error("the report was not shown")
	}
}
