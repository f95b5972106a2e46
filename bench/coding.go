package bench

import (
	"context"
	"fmt"
	"math"

	"ipcbench/bench/result"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// observedRounds is the number of rounds that observe looks at after the first, whose
// model has no base.
const observedRounds = 3

// namedPlain limits the number of tensors that a result names as sent without the codec.
const namedPlain = 100

// observe measures, in the first rounds of the chain, the density of models and updates
// and, for a lossy codec, its errors. It does so once per chain, and outside all measured
// times.
func (c *chain) observe(ctx context.Context) (*Coding, error) {
	if c.coding != nil {
		return c.coding, nil
	}
	r, err := c.reference()
	if err != nil {
		return nil, err
	}
	var differ, of [2]float64 // downlink and uplink
	var errors [2]tensor.Deviation
	r.See = func(up bool, base, sent, arrived *tensor.Package) {
		way := 0
		if up {
			way = 1
		}
		if base != nil {
			differ[way] += float64(tensor.Differing(sent, base))
			of[way] += float64(sent.Elements())
		}
		if sent != arrived {
			errors[way].Add(arrived, sent)
		}
	}
	clients := trainer.Roster(c.cell.Clients)
	for range 1 + observedRounds {
		if err := r.Round(ctx, clients); err != nil {
			return nil, err
		}
	}
	k := &Coding{DensityDown: differ[0] / max(of[0], 1), DensityUp: differ[1] / max(of[1], 1)}
	if c.coded() {
		k.ErrorDown, k.ErrorUp = codingError(errors[0]), codingError(errors[1])
	}
	c.coding = k
	return k, nil
}

// codingError returns the errors of d that a result can contain.
func codingError(d tensor.Deviation) *result.CodingError {
	known := func(x float64) *float64 {
		if !(x <= math.MaxFloat32) {
			return nil
		}
		return new(x)
	}
	return &result.CodingError{Max: known(d.Max), RMS: known(d.RMS())}
}

// coding returns the result's data about element changes and the codec. It is nil without
// a codec, unless a change or a scenario is set.
func (c *cell) coding(ctx context.Context) (*Coding, error) {
	p := c.Variant.Codec()
	if p == nil && c.Change == (tensor.Change{}) && c.Scenario == "" {
		return nil, nil
	}
	seen, err := c.chain.observe(ctx)
	if err != nil || p == nil {
		return seen, err
	}
	k := *seen
	promises, plain := p.Lossy(), map[string]bool{}
	for _, l := range []*tensor.Layout{c.Model.Layout, c.up().Layout} {
		for _, s := range l.Specs() {
			if p.Takes(s) != nil && !plain[s.Name] {
				plain[s.Name] = true
				k.Plain = append(k.Plain, s.Name)
			}
			bound, ok := p.Bound(s.DType)
			k.Bound, promises = max(k.Bound, bound.Relative), promises && ok
		}
	}
	if !promises {
		k.Bound = 0
	}
	if n := len(k.Plain) - namedPlain; n > 0 {
		k.Plain = append(k.Plain[:namedPlain], fmt.Sprintf("and %d more", n))
	}
	return &k, nil
}
