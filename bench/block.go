package bench

import (
	"cmp"
	"context"
	"fmt"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"runtime/debug"
	"time"
)

// block runs one block of c, and keeps it if a round was timed.
func (r *run) block(ctx, quit context.Context, c *cell) error {
	run := r.blockHere
	if c.program != nil {
		run = r.blockThere
	}
	var pings []int64
	b, err := r.next(ctx, c, func(ctx context.Context, b *result.Block) (err error) {
		if c.program != nil {
			b.Layout = b.Index % c.program.Layouts()
		}
		pings, err = run(ctx, quit, c, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if c.result.Program != result.Base { // rpc-empty describes this build only
		r.keepPings(c.Spec, pings)
	}
	if len(b.Round) == 0 {
		return nil
	}
	c.spent += charge(&b)
	thin(&b, c.Clients, c.Workers)
	c.result.Blocks = append(c.result.Blocks, b)
	return nil
}

// blockHere runs one block of c with this process as its server. It returns the times of
// empty calls, in ns.
func (r *run) blockHere(ctx, quit context.Context, c *cell, b *result.Block) (pings []int64, err error) {
	s := &session.Run{Slow: r.slow(c), Block: b}
	err = r.serve(ctx, quit, c, s, r.label(c))
	if s.Software != nil { // a block that failed early has no report of its software
		c.result.Software = s.Software
	}
	return s.Pings, err
}

// blockThere runs one block of c in a process of its program. It compares the answer with the
// reference chain, and returns the times of empty calls, in ns.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *result.Block) (pings []int64, err error) {
	order := program.Block{Spec: c.Spec, Plan: r.Plan, Layout: b.Layout, Dir: r.Python.Dir, Slow: r.slow(c), Slowest: c.slowest}
	if c.canary == canarySlow && c.result.IsPeer() {
		order.Burn = r.Canary
	}
	r.progress(r.label(c))
	debug.FreeOSMemory() // so that garbage of the reference chain is not collected during the block
	start := time.Now()
	a, err := c.program.Block(ctx, quit, order)
	c.slowest = max(c.slowest, time.Since(start))
	if err != nil {
		return nil, err
	}
	if a.Software != nil { // it may have loaded more software since the first order
		r.result.ProgramOf(&c.result).Software = a.Software
	}
	got := *a.Block
	got.Index, got.Layout, got.Position, got.At, got.Proof.Hashed = b.Index, b.Layout, b.Position, b.At, 0
	*b = got
	if len(b.Round) == 0 {
		return nil, nil
	}
	if a.Unproved != "" { // there are no hashes to compare
		c.result.Unproved = cmp.Or(c.result.Unproved, a.Unproved)
		return a.Pings, nil
	}
	s := &session.Run{Spec: c.Spec, Plan: r.Plan, Chain: c.chain, Block: b, Hashes: a.Hashes, Running: a.Running}
	return a.Pings, r.compare(ctx, c, s)
}

// serve runs s as a block of c with this process as its server. what names the block in
// progress reports.
func (r *run) serve(ctx, quit context.Context, c *cell, s *session.Run, what string) error {
	s.Spec, s.Plan, s.Chain = c.Spec, c.Spec.Planned(r.Plan), c.chain
	s.Block.SpanCost = session.SpanCost()
	s.OnRound = func() { r.progress(what) }
	r.progress(what)
	if err := r.here.Run(ctx, quit, s); err != nil {
		return err
	}
	return r.compare(ctx, c, s)
}

// next has run measure the next block of c, on the link of c.
func (r *run) next(ctx context.Context, c *cell, run func(ctx context.Context, b *result.Block) error) (b result.Block, err error) {
	b = result.Block{Index: len(c.result.Blocks), Position: r.done, At: time.Since(r.started)}
	if b.Link, err = onLink(ctx, c.Spec, func(ctx context.Context) error { return run(ctx, &b) }); err != nil {
		return b, fmt.Errorf("block %d: %w", b.Index, err)
	}
	r.done++
	return b, nil
}

// leastCharge is the least time that a block is charged for. Starting and ending a
// session takes longer than the timed rounds of a fast cell, which would otherwise spend
// minutes on seconds of rounds.
const leastCharge = 100 * time.Millisecond

func charge(b *result.Block) time.Duration {
	return max(b.RoundTime(), leastCharge)
}

// compare compares the models of a block of c with the reference chain. Time to extend
// the chain does not count as time of the block.
func (r *run) compare(ctx context.Context, c *cell, s *session.Run) error {
	what := fmt.Sprintf("reference chain of %s, clients=%d", c.result.Model.Label(), c.Clients)
	s.OnChain = func(int) { r.progress(what) }
	start := time.Now()
	err := s.Compare(ctx)
	if err == nil && c.result.Coding == nil && c.chain != nil {
		c.result.Coding, err = c.chain.Coding(ctx, c.Spec)
	}
	r.pace.apart += time.Since(start)
	return err
}
