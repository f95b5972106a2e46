package program

import (
	"encoding/json"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/exchange"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/transports/driver"
)

// TestPeerGolden: the two orders that a peer gets equal the files in testdata, and two answers of a correct peer are
// accepted. docs/reference/peer.md shows them.
func TestPeerGolden(t *testing.T) {
	first, _ := golden(t, "peer-first-order.json", exchange.ParseOrder)
	o, _ := golden(t, "peer-order.json", exchange.ParseOrder)
	l := check.Value(tensor.NewLayout(o.Works[0].Down))(t)
	p := check.Value(NewPeer("mine", "true"))(t)
	s := benchtest.Specs[session.Spec](t, []driver.Subject{p}, "mine cnn clients=2 depth=2")[0]
	s.Model = &models.Model{Name: "two", Layout: l}
	plan := check.Value(session.DefaultPlan(session.Quick))(t)
	plan.Rounds, plan.Blocks, plan.Pin, plan.Verify = 2, 1, true, session.VerifySample
	same := func(got *exchange.Order, want exchange.Order) {
		t.Helper()
		want.Version = exchange.Version
		a := check.Value(json.Marshal(got))(t)
		b := check.Value(json.Marshal(want))(t)
		check.Equal(t, compact(t, a), compact(t, b))
	}
	same(first, firstOrder([]session.Spec{s}))
	same(o, blockOrder(s, plan, 0))

	a, _ := golden(t, "peer-first-answer.json", exchange.ParseAnswer)
	check.That(t, len(a.Refused) == 1 && a.Rules == exchange.Rules, "%+v", a)
	a, _ = golden(t, "peer-answer.json", exchange.ParseAnswer)
	check.Must(t, a.Check(*o, true, false))
	run := &session.Run{Spec: s, Plan: plan, Chain: session.NewChain(s, plan), Block: a.Block, Hashes: a.Hashes, Running: a.Running}
	check.OK(t, run.Compare(t.Context()))
	a.Running[3][0]++
	a.Hashes[3]++
	check.Fails(t, run.Compare(t.Context()), "round 3, tensor 0 (weight): the new model's hash is ")
}
