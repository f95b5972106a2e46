package program

import (
	"slices"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// firstOrder returns the order that asks a program which of the cells it can run.
func firstOrder(specs []session.Spec) (o exchange.Order) {
	var works []session.Key
	o.Works = []exchange.Work{}
	for _, s := range specs {
		key := s.Key()
		i := slices.Index(works, key)
		if i < 0 {
			i = len(works)
			works = append(works, key)
			o.Works = append(o.Works, orderWork(s))
		}
		o.Add(orderCell(s, i))
	}
	return o
}

func orderWork(s session.Spec) exchange.Work {
	w := exchange.Work{Model: s.Model.Name, Down: s.Model.Layout.Specs(), Clients: trainer.Roster(s.Clients)}
	if s.Values == "" {
		w.File = s.Model.File()
	}
	if up := s.Update(); up != s.Model {
		w.Up, w.Update = up.Layout.Specs(), up.Name
	}
	return w
}

// orderCell describes the cell for an order, whose work it is at that index.
func orderCell(s session.Spec, work int) exchange.Cell {
	return exchange.Cell{
		Work: work, Variant: s.Variant.String(), Workers: s.Workers, PerProcess: s.PerProcess, Depth: s.Depth, Setup: s.Setup,
	}
}

// blockOrder returns the order for one block of the cell. slow is a canary's extra CPU
// time per training.
func blockOrder(s session.Spec, p result.Plan, slow time.Duration) exchange.Order {
	p = s.BlockPlan(p)
	o := exchange.Order{Works: []exchange.Work{orderWork(s)}, Block: &exchange.Block{
		Seed: p.Seed, Rounds: p.Rounds, Least: p.Least, Time: p.Time, Warmup: p.Warmup, WarmTime: p.WarmTime,
		Verify: p.Verify, Spans: p.Samples, RoundLimit: p.RoundLimit, Pin: p.Pin, Slow: slow,
	}}
	o.Add(orderCell(s, 0))
	return o
}

// specOf returns cell i of an order, unless this build cannot run it.
func specOf(o *exchange.Order, i int, all []driver.Transport) (s session.Spec, err error) {
	c, err := o.Cell(i)
	if err != nil {
		return s, err
	}
	w := o.Works[c.Work]
	s = session.Spec{Workers: c.Workers, Clients: len(w.Clients), PerProcess: c.PerProcess, Depth: c.Depth, Setup: c.Setup}
	if s.Model, s.Up, err = w.Models(); err != nil {
		return s, err
	}
	if s.Variant, err = transports.Parse(c.Variant, all); err != nil {
		return s, err
	}
	return s, s.Validate()
}

// planOf returns a plan of exactly the ordered block.
func planOf(b *exchange.Block) (result.Plan, error) {
	p := result.Plan{
		Rules: exchange.Rules, Blocks: 1, Precision: 1,
		Seed: b.Seed, Rounds: b.Rounds, Least: b.Least, Time: b.Time, Warmup: b.Warmup, WarmTime: b.WarmTime,
		Verify: b.Verify, Samples: b.Spans, RoundLimit: b.RoundLimit, Pin: b.Pin,
	}
	if p.Rounds > 0 && p.Time == 0 {
		p.Time = 1 // must be positive, but is not used with Rounds
	}
	return p, session.CheckPlan(p)
}
