package trainer

import (
	"encoding/json"
	"reflect"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/phase"
)

// TestColumns: every field of a sample comes through the columns of a report.
func TestColumns(t *testing.T) {
	sent := phase.Timed(phase.Send, phase.ID{Lane: 2, Round: 3, Client: 4}, 5, 6)
	sent.Summed = true
	for i := range reflect.TypeOf(sent).NumField() {
		check.That(t, !reflect.ValueOf(sent).Field(i).IsZero(), "%s is not tried", reflect.TypeOf(sent).Field(i).Name)
	}
	text, err := json.Marshal(newColumns([]phase.Sample{sent}))
	check.Must(t, err)
	var c columns
	check.Must(t, json.Unmarshal(text, &c))
	got, err := c.samples(1, func(int) bool { return true })
	check.That(t, err == nil && len(got) == 1 && got[0] == sent, "got %+v, %v, want %+v", got, err, sent)
}
