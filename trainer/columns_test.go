package trainer

import (
	"encoding/json"
	"reflect"
	"testing"

	"ipcbench/phase"
)

// TestColumns: every field of a sample comes through the columns of a report.
func TestColumns(t *testing.T) {
	sent := phase.Timed(phase.Send, phase.ID{Lane: 2, Round: 3, Client: 4}, 5, 6)
	sent.Summed = true
	for i := range reflect.TypeOf(sent).NumField() {
		if reflect.ValueOf(sent).Field(i).IsZero() {
			t.Errorf("%s is not tried", reflect.TypeOf(sent).Field(i).Name)
		}
	}
	text, err := json.Marshal(newColumns([]phase.Sample{sent}))
	if err != nil {
		t.Fatal(err)
	}
	var c columns
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	got, err := c.samples(1, func(int) bool { return true })
	if err != nil || len(got) != 1 || got[0] != sent {
		t.Errorf("got %+v, %v, want %+v", got, err, sent)
	}
}
