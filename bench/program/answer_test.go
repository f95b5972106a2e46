package program

import (
	"encoding/json"
	"os"
	"testing"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// FuzzAnswer: any answer of another build is rejected, or can be part of a result that validates.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{
		`{"version":2}`,
		`{"version":2,"error":"no room"}`,
		`{"version":0}`,
		`{"version":2,"environment":{"cpu":"x"},"refused":["","why"]}`,
		`{"version":2,"pings_ns":[1,-1]}`,
		`{"version":2,"hashes":["ffffffffffffffff"],"block":{"round_ns":[5],"unattributed_ns":0,"train_ns":[1],"rtt_ns":[2],"down_ns":[1],"up_ns":[1],"phases_ns":{"train":1},"server":{"counts":{"wire.sent":1}},"processes":[{}]}}`,
		`{"version":2,"block":{"round_ns":[5],"train_ns":[-9223372036854775808]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := exchange.ParseAnswer(text)
		if err != nil {
			return
		}
		o := exchange.Order{Works: []exchange.Work{{Clients: trainer.Roster(1)}}, Block: &exchange.Block{}}
		if a.Check(o, false, false) != nil {
			return
		}
		r := result.Result{Schema: result.Schema, Plan: result.Plan{Blocks: 1}, Cells: []result.Cell{{
			Transport: "t", Variant: "t", Model: result.Model{Name: "m"}, Workers: 1, PerProcess: 1, Clients: 1, Depth: 1, Blocks: []result.Block{*a.Block},
		}}}
		check.Must(t, r.Validate(), "a valid block makes a result that is not")
		check.Must(t, check.Err(json.Marshal(r)))
	})
}

// FuzzOrder: any order of another process is rejected, or gives cells and a plan within the limits.
func FuzzOrder(f *testing.F) {
	text := check.Value(os.ReadFile("../testdata/order.json"))(f)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := exchange.ParseOrder(text)
		if err != nil {
			return
		}
		for i := range o.Cells {
			s, err := specOf(o, i, all.Transports())
			check.Need(t, err != nil || s.Validate() == nil, "cell %v", s)
		}
		if o.Block == nil {
			return
		}
		p, err := planOf(o.Block)
		check.Need(t, err != nil || session.CheckPlan(p) == nil, "plan %+v", p)
	})
}
