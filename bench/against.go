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

// An interleaved run takes blocks of two builds of ipcbench in turn. Each block
// is a process of a layout of its build, started for it: the other build's and this
// one's alike, so that neither has an older heap. It reads an order from stdin and
// answers on stdout; the end of stdin asks it to end early.

// BlockCommand is the argument that makes a build of ipcbench read an order and
// run one block. Both builds of an interleaved run must know it.
const BlockCommand = "block"

// build returns the program that a build of ipcbench is, by its executable; empty is
// this one.
func build(exe string) exchange.Program {
	path := exe
	if exe == filepath.Base(exe) { // a file of this folder, and not a command
		path = "./" + exe
	}
	return exchange.Program{
		Name: cmp.Or(exe, os.Args[0]) + " " + BlockCommand, Path: path, Args: []string{BlockCommand}, Patience: 10 * time.Minute,
		Doubt: ": is it a build of ipcbench that can run single blocks?", Late: ": continue it if it was stopped (kill -CONT), or raise --round-limit",
	}
}

// patience is how long another build may take to say what it can.
const patience = 10 * time.Second

// addBuilds adds all cells of both builds, but for those that the other one does
// not know.
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
		return &BuildError{fmt.Errorf("%s %s: %w", base.flag, base.name(0), err)}
	}
	if err := base.alike(ctx, *r.result.Against); err != nil {
		return err
	}
	if err := head.alike(ctx, r.result.Environment); err != nil {
		return err
	}
	if err := r.addCells(known, base); err != nil {
		return err
	}
	return r.addCells(specs, head)
}

// askBase asks the other build which cells it can run, and keeps what it says of itself.
func (r *run) askBase(ctx context.Context, base side, specs []Spec) (known []Spec, err error) {
	a, err := exchange.First(ctx, build(base.files[0]), firstOrder(specs), patience)
	if err != nil {
		return nil, err
	}
	r.result.Against = a.Environment
	r.result.Against.Link = r.result.Environment.Link // it runs where this build does
	why, compared := "", false
	for i, s := range specs {
		if a.Refused[i] == "" {
			known = append(known, s)
			compared = compared || !s.inside()
		} else if why == "" {
			why = a.Refused[i]
		}
	}
	if why != "" && !compared { // the control alone says nothing of the others
		return nil, fmt.Errorf("it can run none of these cells: %s", why)
	}
	return known, nil
}

// firstOrder asks which of the cells a program can run.
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

// orderWork returns what is trained in the cell, and by whom.
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

// orderCell returns the cell, whose work has that index.
func (s Spec) orderCell(work int) exchange.Cell {
	return exchange.Cell{Work: work, Variant: s.Variant.String(), Workers: s.Workers, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup}
}

// blockOrder asks for one block of the cell.
func (s Spec) blockOrder(p Plan, slow time.Duration) exchange.Order {
	p = ofBlock(s.planned(p))
	o := exchange.Order{Works: []exchange.Work{s.orderWork()}, Block: &exchange.Block{
		Seed: p.Seed, Rounds: p.Rounds, Least: p.Least, Time: p.Time, Warmup: p.Warmup, WarmTime: p.WarmTime, Verify: p.Verify,
		Spans: p.Samples, RoundLimit: p.RoundLimit, Pin: p.Pin, Slow: slow,
	}}
	o.Add(s.orderCell(0))
	return o
}

// ordered returns a cell of an order, or why this build cannot run it.
func ordered(o *exchange.Order, i int, all []driver.Transport) (s Spec, err error) {
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

// planOf returns a plan of the ordered block alone.
func planOf(b *exchange.Block) (Plan, error) {
	p := Plan{
		Rules: exchange.Rules, Blocks: 1, Precision: 1,
		Seed: b.Seed, Rounds: b.Rounds, Least: b.Least, Time: b.Time, Warmup: b.Warmup, WarmTime: b.WarmTime, Verify: b.Verify,
		Samples: b.Spans, RoundLimit: b.RoundLimit, Pin: b.Pin,
	}
	if p.Rounds > 0 && p.Time == 0 {
		p.Time = 1 // which does not count
	}
	return p, CheckPlan(p)
}

// program returns what runs a block of c in that layout, if it is not this process.
func (r *run) program(c *cell, layout int) (exchange.Program, error) {
	if p := c.peer(); p != nil {
		return p.program(r.Python.Dir)
	}
	return build(c.files[layout]), nil
}

// blockThere runs one block of c in a process of its build, or has its peer run it, and
// compares what that made with the reference chain of this one.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	p, err := r.program(c, b.Layout)
	if err != nil {
		return nil, err
	}
	o := c.blockOrder(r.Plan, r.slow(c))
	r.progress(r.label(c))
	debug.FreeOSMemory() // what the chain has left is not to be collected meanwhile
	guess, _ := c.guess(r.Plan, len(r.here.cpus))
	a, err := exchange.Ask(ctx, quit, p, o, guess)
	if err != nil && p.Alone && quit.Err() != nil { // it did not know how to end early
		return nil, context.Cause(quit)
	}
	if err != nil {
		return nil, err
	}
	q := exchange.Question{Block: o.Block, Clients: c.Clients, Tensors: c.Model.Layout.Len(), Workers: c.Workers, Peer: c.peer() != nil, Ended: quit.Err() != nil}
	if err := a.Check(q); err != nil {
		return nil, fmt.Errorf("%s: its answer: %w", p, err)
	}
	if a.Software != nil { // with what it has loaded since
		c.result.Software = a.Software
	}
	got := *a.Block
	got.Index, got.Layout, got.Position, got.At, got.Proof.Hashed = b.Index, b.Layout, b.Position, b.At, 0
	*b = got
	if len(b.Round) == 0 {
		return nil, nil // it was interrupted
	}
	if a.Unproved != "" { // nothing can be compared
		c.result.Unproved = cmp.Or(c.result.Unproved, a.Unproved)
		return a.Pings, nil
	}
	s := &blockRun{cell: c.Spec, plan: r.Plan, chain: c.chain, block: b, hashes: a.Hashes, running: a.Running}
	return a.Pings, r.compare(ctx, c, s)
}

// ServeBlock carries out one order, which it reads from in, and answers on out.
// It ends early when ctx ends or in does.
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
			if _, err := ordered(o, i, h.Transports); err != nil {
				refused = err.Error()
			}
			a.Refused = append(a.Refused, refused)
		}
		return nil
	}
	if len(o.Cells) != 1 {
		return fmt.Errorf("order: a block of %d cells: must be one", len(o.Cells))
	}
	plan, err := planOf(o.Block)
	if err != nil {
		return err
	}
	spec, err := ordered(o, 0, h.Transports)
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
