package report

import (
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/internal/test/check"
)

// TestCommunication: where a user's function trains, the first screen says which share of a
// client's round trip it does not take, and what was proved. So does the view
// phases where ours trains for a given time. Elsewhere there is no such column.
func TestCommunication(t *testing.T) {
	r := benchtest.Pair(1, 1)
	text := shown(t, r) + shown(t, r, "phases")
	check.That(t, !strings.Contains(text, "communication"), "there is a share of communication without --train:\n%s", text)
	r.Cells[1].TrainMS = 10
	wantLines(t, shown(t, r, "phases"), "transport transfer, ms down, ms train, ms uplink, ms communication, %", "pickle 9.00 ± 0.18 6.00 ± 0.12 10.0 ± 0.2 3.00 ± 0.06 47 ± 0")
	r.Cells = r.Cells[1:]
	r.Cells[0].TrainMS = 0
	r.Cells[0].Language, r.Cells[0].Train = "python", "mymodule:train"
	for i := range r.Cells[0].Blocks {
		r.Cells[0].Blocks[i].Proof.Hashed = 0 // there is no reference chain
	}
	wantLines(t, shown(t, r), "transport transfer, ms × best communication, %",
		"pickle (python) 9.00 ± 0.18 1 ████████████████████████████████████████ 47 ± 0", // 9 ms of 19
		"communication: share of a client's round trip that is not training by mymodule:train. What that computes is not known; what was sent is proved, by hashes.")
	if text := shown(t, r); strings.Contains(text, "the data was not proved") {
		t.Error(text)
	}
	wantLines(t, shown(t, r, "phases"), "transport transfer, ms down, ms train, ms uplink, ms communication, %")
}
