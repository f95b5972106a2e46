package session

import (
	"context"
	"fmt"
	"math"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// A Chain is the reference of all cells that compute the same: the model's hash after
// every round. Its hashes come from the same arithmetic that server and workers do, by
// direct calls. The time of a round of it is the floor named work.
type Chain struct {
	Spec   Spec        // one of these cells
	Work   [][]float64 // durations of rounds in seconds, by block of the floor work
	plan   result.Plan // of a block
	hashes []uint64
	coding *result.Coding // cached result of observe
}

// NewChain returns the chain of all cells with the key of s, for a run with that plan.
func NewChain(s Spec, p result.Plan) *Chain { return &Chain{Spec: s, plan: s.BlockPlan(p)} }

// workRounds is the number of rounds measured in each block of the floor work.
const workRounds = 5

// extend makes the chain at least rounds long and, if onRound is not nil, calls it after
// every round. It also measures the floor work. Blocks are compared with the chain after
// they have run, so no worker waits for it.
func (c *Chain) extend(ctx context.Context, rounds int, onRound func()) error {
	if len(c.hashes) >= rounds {
		return nil
	}
	rounds += rounds / 8 // the next block may have somewhat more rounds
	return c.run(ctx, func(round, _ int) bool {
		if onRound != nil {
			onRound()
		}
		return round+1 < rounds
	})
}

// Coded reports whether the chain includes a lossy codec, whose time is not part of the
// floor work.
func (c *Chain) Coded() bool { return c.Spec.Variant.Codec().Lossy() }

// reference returns a new reference computation with the first model, before its first
// round.
func (c *Chain) reference() (*trainer.Reference, error) {
	r := trainer.NewReferenceIn(c.Spec.Pages, c.Spec.Model.Layout, c.Spec.Update().Layout, c.plan.Seed)
	r.Fold = c.Spec.fold()
	if c.Coded() {
		r.Through(c.Spec.Variant.Codec(), c.Spec.Respawns())
	}
	return r, c.Spec.init(r.Model, c.plan.Seed)
}

// wrong repeats the rounds up to round, and names the first tensor of its model after
// which the running hash differs from the reference.
func (c *Chain) wrong(ctx context.Context, round int, running []exchange.Hash) (string, error) {
	r, err := c.reference()
	if err != nil {
		return "", err
	}
	clients := trainer.Roster(c.Spec.Clients)
	for range round + 1 {
		if err := r.Round(ctx, clients); err != nil {
			return "", err
		}
	}
	for t, want := range r.Model.Hashes() {
		if uint64(running[t]) != want {
			return fmt.Sprintf(", tensor %d (%s)", t, r.Model.Layout().Spec(t).Name), nil
		}
	}
	return "", nil
}

// Measure adds a block of workRounds rounds to the floor work.
func (c *Chain) Measure(ctx context.Context) error {
	return c.run(ctx, func(_, samples int) bool { return samples < workRounds })
}

// run does rounds from the first one until more returns false, and appends new hashes to
// the chain. After the warm-up, durations of rounds count for the floor work, unless a
// lossy codec is included.
func (c *Chain) run(ctx context.Context, more func(round, samples int) bool) error {
	r, err := c.reference()
	if err != nil {
		return err
	}
	clients := trainer.Roster(c.Spec.Clients)
	var samples []float64
	var spent time.Duration
	for round := 0; ctx.Err() == nil; round++ {
		start := phase.Now()
		if err := r.Round(ctx, clients); err != nil {
			return err
		}
		took := time.Duration(phase.Now() - start)
		if round > 0 && spent >= c.plan.WarmTime && len(samples) < exchange.MostTimed && !c.Coded() {
			samples = append(samples, took.Seconds())
		}
		spent += took
		if round == len(c.hashes) {
			c.hashes = append(c.hashes, r.Model.Hash())
		}
		if !more(round, len(samples)) {
			break
		}
	}
	if len(samples) > 0 {
		c.Work = append(c.Work, samples)
	}
	return ctx.Err()
}

// observedRounds is the number of rounds that observe looks at after the first, whose
// model has no base.
const observedRounds = 3

// namedPlain limits the number of tensors that a result names as sent without the codec.
const namedPlain = 100

// observe measures, in the first rounds of the chain, the density of models and updates
// and, for a lossy codec, its errors. It does so once per chain, and outside all measured
// times.
func (c *Chain) observe(ctx context.Context) (*result.Coding, error) {
	if c.coding != nil {
		return c.coding, nil
	}
	r, err := c.reference()
	if err != nil {
		return nil, err
	}
	var differ, elements [2]float64 // downlink and uplink
	var errors [2]tensor.Deviation
	r.See = func(up bool, base, sent, arrived *tensor.Package) {
		way := 0
		if up {
			way = 1
		}
		if base != nil {
			differ[way] += float64(tensor.Differing(sent, base))
			elements[way] += float64(sent.Elements())
		}
		if sent != arrived {
			errors[way].Add(arrived, sent)
		}
	}
	clients := trainer.Roster(c.Spec.Clients)
	for range 1 + observedRounds {
		if err := r.Round(ctx, clients); err != nil {
			return nil, err
		}
	}
	k := &result.Coding{DensityDown: differ[0] / max(elements[0], 1), DensityUp: differ[1] / max(elements[1], 1)}
	if c.Coded() {
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

// Coding returns the result's data about element changes and the codec of s, one of the chain's
// cells. It is nil without a codec, unless a change or a scenario is set.
func (c *Chain) Coding(ctx context.Context, s Spec) (*result.Coding, error) {
	p := s.Variant.Codec()
	if p == nil && s.Change == (tensor.Change{}) && s.Scenario == "" {
		return nil, nil
	}
	seen, err := c.observe(ctx)
	if err != nil || p == nil {
		return seen, err
	}
	k := *seen
	promises, plain := p.Lossy(), map[string]bool{}
	for _, l := range []*tensor.Layout{s.Model.Layout, s.Update().Layout} {
		for _, t := range l.Specs() {
			if p.Takes(t) != nil && !plain[t.Name] {
				plain[t.Name] = true
				k.Plain = append(k.Plain, t.Name)
			}
			bound, ok := p.Bound(t.DType)
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
