package bench

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// TestPeerGolden: the two orders that a peer gets are those in testdata, and so are two
// answers, of a peer that computes right. docs/peer.md shows them.
func TestPeerGolden(t *testing.T) {
	var first, o order
	golden(t, "peer-first-order.json", &first)
	golden(t, "peer-order.json", &o)
	l, err := layoutOf("down", o.Works[0].Down)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPeer("mine", "true")
	if err != nil {
		t.Fatal(err)
	}
	v, err := transports.NewVariant(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := Spec{Variant: v, Model: &models.Model{Name: "two", Layout: l}, Workers: 1, Clients: 2, PerProcess: 1, Depth: 2}
	plan, err := DefaultPlan(Quick)
	if err != nil {
		t.Fatal(err)
	}
	plan.Rounds, plan.Blocks, plan.Pin = 2, 1, true
	want := firstOrder([]Spec{s}, plan)
	if !reflect.DeepEqual(first, want) {
		t.Errorf("first order %+v, want %+v", first, want)
	}
	if want.Block = blockOrder(plan, s, 0); !reflect.DeepEqual(o, want) {
		t.Errorf("order %+v, want %+v", o, want)
	}

	var a answer
	if _, err := parseAnswer(golden(t, "peer-first-answer.json", &a)); err != nil || len(a.Refused) != 1 || a.Rules != rules {
		t.Errorf("%+v, %v", a, err)
	}
	a = answer{}
	if _, err := parseAnswer(golden(t, "peer-answer.json", &a)); err != nil {
		t.Fatal(err)
	}
	_, hashes, running, err := a.check(o.Block, s, false)
	if err != nil {
		t.Fatal(err)
	}
	c := &chain{cell: s, seed: plan.Seed}
	if err := c.extend(t.Context(), len(hashes), 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.compare(t.Context(), hashes, running, v); err != nil {
		t.Error(err)
	}
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
		if got, err := splitWords(command); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", command, got, err, want)
		}
	}
}
