package bench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kballard/go-shellquote"

	"ipcbench/bench/exchange"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"

	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// TestPeerGolden: the two orders that a peer gets are those in testdata, and so are two
// answers, of a peer that computes right. docs/peer.md shows them.
func TestPeerGolden(t *testing.T) {
	first, _ := golden(t, "peer-first-order.json", exchange.ParseOrder)
	o, _ := golden(t, "peer-order.json", exchange.ParseOrder)
	l, err := tensor.NewLayout(o.Works[0].Down)
	check.Must(t, err)
	p, err := NewPeer("mine", "true")
	check.Must(t, err)
	v, err := transports.NewVariant(p, nil)
	check.Must(t, err)
	s := Spec{Variant: v, Model: &models.Model{Name: "two", Layout: l}, Workers: 1, Clients: 2, PerProcess: 1, Depth: 2}
	plan, err := DefaultPlan(Quick)
	check.Must(t, err)
	plan.Rounds, plan.Blocks, plan.Pin = 2, 1, true
	same := func(got *exchange.Order, want exchange.Order) {
		t.Helper()
		want.Version = exchange.Version
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(want)
		check.That(t, errA == nil && errB == nil && compact(t, a) == compact(t, b), "order %s, want %s", a, b)
	}
	same(first, firstOrder([]Spec{s}))
	same(o, s.blockOrder(plan, 0))

	if a, _ := golden(t, "peer-first-answer.json", exchange.ParseAnswer); len(a.Refused) != 1 || a.Rules != exchange.Rules {
		t.Errorf("%+v", a)
	}
	a, _ := golden(t, "peer-answer.json", exchange.ParseAnswer)
	check.Must(t, a.Check(exchange.Question{Block: o.Block, Clients: s.Clients, Tensors: l.Len(), Workers: 1, Peer: true}))
	hashes, running := a.Hashes, a.Running
	c := &chain{cell: s, seed: plan.Seed}
	check.Must(t, c.extend(t.Context(), len(hashes), 0, nil))
	check.OK(t, c.compare(t.Context(), hashes, running, v))
	running[3][0]++
	hashes[3]++
	if err := c.compare(t.Context(), hashes, running, v); err == nil || !strings.HasPrefix(err.Error(), "round 3, tensor 0 (weight): the new model's hash is ") {
		t.Error(err)
	}
}

// TestSplitWords: quotes and backslashes keep together what a shell keeps together.
func TestSplitWords(t *testing.T) {
	for command, want := range map[string][]string{
		"":                       nil,
		" a  b\tc ":              {"a", "b", "c"},
		`a 'b  "c' "d 'e"`:       {"a", `b  "c`, "d 'e"},
		`a\ b "c\"d\\" '\' e\'f`: {"a b", `c"d\`, `\`, "e'f"},
		`a'b'"c"d "" ''`:         {"abcd", "", ""},
		`"\n" \n`:                {`\n`, "n"},
		`$HOME *`:                {"$HOME", "*"},
	} {
		got, err := shellquote.Split(command)
		check.That(t, err == nil && slices.Equal(got, want), "%s: %q, %v, want %q", command, got, err, want)
	}
}
