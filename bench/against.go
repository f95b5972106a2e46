package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// An interleaved run alternates blocks of two builds of ipcbench. Each block runs in a
// fresh process of one of its build's layouts, for this build too, so that neither build
// has an older heap. The process reads an order from stdin and answers on stdout; the end
// of stdin asks it to finish early.

// BlockCommand is the command-line argument that makes ipcbench read an order and run one
// block.
const BlockCommand = "block"

// build returns the program that runs blocks with the executable exe; empty means this
// executable.
func build(exe string) exchange.Program {
	path := exe
	if exe == filepath.Base(exe) { // a file in the current directory, not a command to search for in PATH
		path = "./" + exe
	}
	return exchange.Program{
		Name: cmp.Or(exe, os.Args[0]) + " " + BlockCommand, Path: path, Args: []string{BlockCommand},
		FailureHint: ": is it a build of ipcbench that can run single blocks?",
		Late:        ": if it was stopped, continue it (kill -CONT); else raise --round-limit",
	}
}

// patience is how long another build may take to report which cells it can run.
const patience = 10 * time.Second

// addBuilds adds the cells of both builds, except base cells that the other build cannot
// run.
func (r *run) addBuilds(ctx context.Context, specs []Spec) error {
	base, head := r.sides()
	r.result.Layouts = new(Layouts)
	var err error
	if r.result.Layouts.Base, err = base.layouts(); err != nil {
		return err
	}
	if r.result.Layouts.Head, err = head.layouts(); err != nil {
		return err
	}
	known, err := r.askBase(ctx, base, specs)
	if err != nil {
		return fmt.Errorf("%s %s: %w", base.flag, base.name(0), err)
	}
	if err := base.checkBuilds(ctx, *r.result.Against); err != nil {
		return err
	}
	if err := head.checkBuilds(ctx, r.result.Environment); err != nil {
		return err
	}
	if err := r.addCells(known, base); err != nil {
		return err
	}
	return r.addCells(specs, head)
}

// askBase returns the cells that the other build can run, and stores its environment in
// the result. Being able to run the control only is an error.
func (r *run) askBase(ctx context.Context, base side, specs []Spec) (known []Spec, err error) {
	a, err := exchange.First(ctx, build(base.files[0]), firstOrder(specs), patience)
	if err != nil {
		return nil, err
	}
	r.result.Against = a.Environment
	r.result.Against.Link = r.result.Environment.Link // both builds run on the same links
	why, compared := "", false
	for i, s := range specs {
		if a.Refused[i] == "" {
			known = append(known, s)
			compared = compared || !s.inside()
		} else if why == "" {
			why = a.Refused[i]
		}
	}
	if why != "" && !compared { // the control alone can be compared with no other cell
		return nil, &BuildError{fmt.Errorf("it can run none of these cells: %s", why)}
	}
	return known, nil
}

// firstOrder returns the order that asks a program which of the cells it can run.
func firstOrder(specs []Spec) (o exchange.Order) {
	var works []chainKey
	o.Works = []exchange.Work{}
	for _, s := range specs {
		key := s.chainKey()
		i := slices.Index(works, key)
		if i < 0 {
			i = len(works)
			works = append(works, key)
			o.Works = append(o.Works, s.orderWork())
		}
		o.Add(s.orderCell(i))
	}
	return o
}

func (s Spec) orderWork() exchange.Work {
	w := exchange.Work{Model: s.Model.Name, Down: s.Model.Layout.Specs(), Clients: trainer.Roster(s.Clients)}
	if s.Values == "" {
		w.File = s.Model.File()
	}
	if up := s.up(); up != s.Model {
		w.Up, w.Update = up.Layout.Specs(), up.Name
	}
	return w
}

// orderCell describes the cell for an order, whose work it is at that index.
func (s Spec) orderCell(work int) exchange.Cell {
	return exchange.Cell{Work: work, Variant: s.Variant.String(), Workers: s.Workers, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup}
}

// blockOrder returns the order for one block of the cell. slow is a canary's extra CPU
// time per training.
func (s Spec) blockOrder(p Plan, slow time.Duration) exchange.Order {
	p = ofBlock(s.planned(p))
	o := exchange.Order{Works: []exchange.Work{s.orderWork()}, Block: &exchange.Block{
		Seed: p.Seed, Rounds: p.Rounds, Least: p.Least, Time: p.Time, Warmup: p.Warmup, WarmTime: p.WarmTime, Verify: p.Verify,
		Spans: p.Samples, RoundLimit: p.RoundLimit, Pin: p.Pin, Slow: slow,
	}}
	o.Add(s.orderCell(0))
	return o
}

// specOf returns cell i of an order, unless this build cannot run it.
func specOf(o *exchange.Order, i int, all []driver.Transport) (s Spec, err error) {
	c, err := o.Cell(i)
	if err != nil {
		return s, err
	}
	w := o.Works[c.Work]
	s = Spec{Workers: c.Workers, Clients: len(w.Clients), PerProcess: c.PerProcess, Depth: c.Depth, Setup: c.Setup}
	if s.Model, s.Up, err = w.Models(); err != nil {
		return s, err
	}
	if s.Variant, err = transports.Parse(c.Variant, all); err != nil {
		return s, err
	}
	return s, cmp.Or(s.validate(), s.checkLink())
}

// planOf returns a plan of exactly the ordered block.
func planOf(b *exchange.Block) (Plan, error) {
	p := Plan{
		Rules: exchange.Rules, Blocks: 1, Precision: 1,
		Seed: b.Seed, Rounds: b.Rounds, Least: b.Least, Time: b.Time, Warmup: b.Warmup, WarmTime: b.WarmTime, Verify: b.Verify,
		Samples: b.Spans, RoundLimit: b.RoundLimit, Pin: b.Pin,
	}
	if p.Rounds > 0 && p.Time == 0 {
		p.Time = 1 // must be positive, but is not used with Rounds
	}
	return p, CheckPlan(p)
}

// program returns the program that runs blocks of c: its peer, or the executable of that
// layout.
func (r *run) program(c *cell, layout int) (exchange.Program, error) {
	if p := c.peer(); p != nil {
		of, err := p.program(r.Python.Dir)
		if c.canary == canarySlow {
			of = r.slowed(of)
		}
		return of, err
	}
	return build(c.files[layout]), nil
}

// blockThere runs one block of c in its peer or in a process of its build. It checks the
// answer, also against the reference chain, and returns the times of empty calls, in ns.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	p, err := r.program(c, b.Layout)
	if err != nil {
		return nil, err
	}
	o := c.blockOrder(r.Plan, r.slow(c))
	r.progress(r.label(c))
	debug.FreeOSMemory() // so that garbage of the reference chain is not collected during the block
	start := time.Now()
	a, err := exchange.Ask(ctx, quit, p, o, c.slowest)
	took := time.Since(start)
	if err != nil && p.Alone && quit.Err() != nil { // the peer may not support ending early
		return nil, context.Cause(quit)
	}
	if err != nil {
		return nil, err
	}
	q := exchange.Question{Block: o.Block, Clients: c.Clients, Tensors: c.Model.Layout.Len(), Workers: c.Workers, Peer: c.peer() != nil, Ended: quit.Err() != nil}
	if err := a.Check(q); err != nil {
		return nil, fmt.Errorf("%s: its answer: %w", p, err)
	}
	if a.Software != nil { // it may have loaded more software since the first order
		c.result.Software = a.Software
	}
	got := *a.Block
	got.Index, got.Layout, got.Position, got.At, got.Proof.Hashed = b.Index, b.Layout, b.Position, b.At, 0
	*b = got
	if len(b.Round) == 0 {
		return nil, nil
	}
	c.slowest = max(c.slowest, took)
	if a.Unproved != "" { // there are no hashes to compare
		c.result.Unproved = cmp.Or(c.result.Unproved, a.Unproved)
		return a.Pings, nil
	}
	s := &blockRun{cell: c.Spec, plan: r.Plan, chain: c.chain, block: b, hashes: a.Hashes, running: a.Running}
	return a.Pings, r.compare(ctx, c, s)
}

// ServeBlock reads one order from in, carries it out and writes the answer to out. It
// ends early if ctx is done or if in ends.
func ServeBlock(ctx context.Context, in io.Reader, out io.Writer, h trainer.Host) error {
	err := exchange.Serve(ctx, in, out, func(quit context.Context, o *exchange.Order, a *exchange.Answer) error {
		return carryOut(quit, o, a, h)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", BlockCommand, err)
	}
	return nil
}

func carryOut(quit context.Context, o *exchange.Order, a *exchange.Answer, h trainer.Host) error {
	if o.Block == nil {
		e := machine.Read()
		a.Environment = &e
		for i := range o.Cells {
			refused := ""
			if _, err := specOf(o, i, h.Transports); err != nil {
				refused = err.Error()
			}
			a.Refused = append(a.Refused, refused)
		}
		return nil
	}
	if len(o.Cells) != 1 {
		return fmt.Errorf("order: a block must have one cell, not %d", len(o.Cells))
	}
	plan, err := planOf(o.Block)
	if err != nil {
		return err
	}
	spec, err := specOf(o, 0, h.Transports)
	if err != nil {
		return err
	}
	here, err := newHost(plan, h)
	if err != nil {
		return err
	}
	now, cancel := bounded(quit, grace)
	defer cancel()
	a.Block = &Block{SpanCost: spanCost()}
	s := &blockRun{cell: spec, plan: plan, slow: o.Block.Slow, roster: o.Works[0].Clients, block: a.Block}
	if err := here.run(now, quit, s); err != nil {
		return err
	}
	a.Pings, a.Hashes = s.pings, s.hashes
	return nil
}
