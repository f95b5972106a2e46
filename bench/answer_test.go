package bench

import (
	"encoding/json"
	"os"
	"testing"

	"ipcbench/bench/result"

	"ipcbench/transports/all"
)

// FuzzAnswer: whatever another build answers is an error or can be a part of a
// result that validates.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"version":1}`,
		`{"version":1,"error":"no room"}`,
		`{"version":0}`,
		`{"version":1,"environment":{"cpu":"x"},"refused":["","why"]}`,
		`{"version":1,"pings_ns":[1,-1]}`,
		`{"version":1,"hashes":["ffffffffffffffff"],"block":{"round_ns":[5],"unattributed_ns":[0],"train_ns":[1],"rtt_ns":[2],"down_ns":[1],"up_ns":[1],"phases_ns":{"train":[1]},"server":{"counts":{"wire.sent":1}},"workers":[{}]}}`,
		`{"version":1,"block":{"round_ns":[5],"train_ns":[-9223372036854775808]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := parseAnswer(text)
		if err != nil {
			return
		}
		b, _, err := a.fits(&orderBlock{}, 1)
		if err != nil || len(b.Round) == 0 {
			return
		}
		r := Result{Schema: result.Schema, Plan: Plan{Blocks: 1}, Cells: []Cell{{
			Transport: "t", Variant: "t", Model: Model{Name: "m"}, Workers: 1, PerProcess: 1, Clients: 1, Depth: 1, Blocks: []Block{b},
		}}}
		if err := r.Validate(); err != nil {
			t.Fatalf("a valid block makes a result that is not: %v", err)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzOrder: whatever another process orders is refused, or is a cell and a plan
// within the limits.
func FuzzOrder(f *testing.F) {
	text, err := os.ReadFile("testdata/order.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		var o order
		if parse(text, &o) != nil {
			return
		}
		specs, whos, errs := o.specs(all.Transports())
		for i, s := range specs {
			if errs[i] == nil && (s.validate() != nil || len(whos[i]) != s.Clients) {
				t.Fatalf("cell %v of %d clients", s, len(whos[i]))
			}
		}
		if o.Block == nil {
			return
		}
		if p, err := o.Block.plan(); err == nil && CheckPlan(p) != nil {
			t.Fatalf("plan %+v", p)
		}
	})
}
