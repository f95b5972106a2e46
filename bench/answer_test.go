package bench

import (
	"encoding/json"
	"testing"
)

// FuzzAnswer: whatever another build answers is an error or can be a part of a
// result that validates.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"schema":1}`,
		`{"schema":1,"error":"no room"}`,
		`{"schema":0}`,
		`{"schema":1,"environment":{"cpu":"x"},"refused":["","why"]}`,
		`{"schema":1,"pings_ns":[1,-1]}`,
		`{"schema":1,"hashes":[18446744073709551615],"block":{"round_ns":[5],"unattributed_ns":[0],"train_ns":[1],"rtt_ns":[2],"down_ns":[1],"up_ns":[1],"phases_ns":{"train":[1]},"server":{"counts":{"wire.sent":1}},"workers":[{}]}}`,
		`{"schema":1,"block":{"round_ns":[5],"train_ns":[-9223372036854775808]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAnswer(text)
		if err != nil || a.Block == nil || len(a.Block.Round) == 0 || a.Block.validate(1) != nil {
			return
		}
		r := Result{Schema: Schema, Plan: Plan{Blocks: 1}, Cells: []Cell{{
			Transport: "t", Variant: "t", Model: Model{Name: "m"}, Workers: 1, PerProcess: 1, Clients: 1, Depth: 1, Blocks: []Block{*a.Block},
		}}}
		if err := r.Validate(); err != nil {
			t.Fatalf("a valid block makes a result that is not: %v", err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}
