package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"ipcbench/bench"
	"ipcbench/link"
	"ipcbench/machine"
	"ipcbench/report/analysis"
	"ipcbench/report/doc"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// measuring is what `ipcbench advise` measures.
type measuring struct {
	*app
	*adviseFlags
	control transports.Variant
	out     *resultFile   // nil if nothing is kept
	result  *bench.Result // of all so far
}

// run measures cells, and keeps that.
func (m *measuring) run(ctx context.Context, o bench.Options) (*bench.Result, error) {
	if err := cmp.Or(privateFolder(), o.CheckSize()); err != nil {
		return nil, usageError{err}
	}
	o.Doctor = m.examine(bench.Needs(o.Cells))
	p := newProgress(m.err, m.quiet)
	if p != nil {
		o.Progress = p.show
	}
	r, err := bench.Run(ctx, o)
	p.clear()
	if r == nil || len(r.Cells) == 0 {
		return nil, cmp.Or(misfit(err), context.Cause(ctx))
	}
	if r.Partial != "" && err == nil {
		err = context.Cause(ctx)
	}
	later := m.result != nil
	if later {
		m.result.Add(r)
	} else {
		m.result = r
	}
	if m.out != nil {
		kept := m.out.keep(m.result)
		if err = errors.Join(err, kept); kept == nil && !m.quiet && !later {
			fmt.Fprintf(m.err, "ipcbench: wrote %s\n", m.out.path)
		}
	}
	return r, err
}

// options are those of a run of the cells.
func (m *measuring) options(plan bench.Plan, cells []bench.Spec) bench.Options {
	return bench.Options{Cells: cells, Plan: plan, Control: m.control, Host: m.host, Command: m.adviseFlags.settings.command(os.Args[1:]), Calibrating: true}
}

// verified measures what was predicted.
func (m *measuring) verified(ctx context.Context, cells []bench.Spec) (*analysis.Result, error) {
	plan, err := bench.DefaultPlan(bench.Quick)
	if err != nil {
		return nil, err
	}
	o := m.options(plan, cells)
	if outline, err := bench.Describe(ctx, o); err == nil && outline.Time > time.Minute {
		fmt.Fprintf(m.err, "ipcbench: --verify=%d: measuring that takes about %v\n", len(cells), rough(outline.Time))
	}
	r, err := m.run(ctx, o)
	if r == nil {
		return nil, err
	}
	return analysis.New(r), err
}

// A design is what a calibration measures.
type design struct {
	cells  []bench.Spec
	shapes int
	guess  time.Duration
}

// A scale is how many bytes and tensors a shape has, as shares of the model's.
type scale struct{ bytes, tensors float64 }

// around are the shapes of a design, the most telling ones first: they lie round the
// model in bytes and in tensors, which do not go together.
var around = []scale{{2, 1}, {1, .5}, {1, 2}, {.5, 1}, {.5, .5}, {.25, 2}, {2, 2}, {.25, 1}, {1, 1.5}, {.5, 3}}

// An attempt is what a design may be.
type attempt struct {
	bytes   float64 // by which shapes are larger than those of around
	clients int
	shapes  int // at most
	above   int // so many of the first ones do not fit into the last-level cache
}

// calibratingTime is the time of the timed rounds of a block.
const calibratingTime = 40 * time.Millisecond

// calibration measures models like that of the cells, and says what it has measured. The
// budget is that of --calibrate.
func (m *measuring) calibration(ctx context.Context, cells []bench.Spec) ([]string, error) {
	for _, c := range cells {
		if c.Model.File() != "" && c.Values == "" && c.Variant.Codec() != nil {
			return nil, hinted{usagef("--calibrate: models of other sizes cannot hold what %s does, on which a codec depends", c.Model.Name), "say what words hold with --values, or predict --from results"}
		}
	}
	plan, err := bench.DefaultPlan(bench.Quick)
	if err != nil {
		return nil, err
	}
	plan.Blocks, plan.Time = 3, 3*calibratingTime
	d, err := m.design(ctx, plan, cells)
	if err != nil {
		return nil, err
	}
	if d.guess > m.calibrate {
		plan.Blocks, plan.Time, d.guess = 2, 2*calibratingTime, d.guess*2/3 // one alone says nothing of how far off it is
	}
	if d.guess > max(2*m.calibrate, m.calibrate+time.Minute/2) { // nobody waits for that unasked
		return nil, hinted{usagef("--calibrate %v: the fewest measurements that tell enough take about %v", m.calibrate, rough(d.guess)),
			fmt.Sprintf("--calibrate %v, or fewer of --transport, --codec and --clients", (d.guess + 10*time.Second).Truncate(10*time.Second))}
	}
	if d.guess > m.calibrate {
		fmt.Fprintf(m.err, "ipcbench: --calibrate %v: the fewest measurements that tell enough take about %v\n", m.calibrate, rough(d.guess))
	}
	plan.Budget = m.calibrate
	r, err := m.run(ctx, m.options(plan, d.cells))
	if r == nil {
		return nil, err
	}
	blocks := math.MaxInt
	for _, c := range r.Cells {
		blocks = min(blocks, len(c.Blocks))
	}
	return []string{fmt.Sprintf("%d models like %s, measured in %v with at least %s of each cell",
		d.shapes, cells[0].Model.Name, r.Elapsed.Round(time.Second), doc.Plural(blocks, "block"))}, err
}

// design chooses shapes round the model as large, and clients as many, as the budget
// allows. What fits into the last-level cache tells little of what does not, and the other
// way round: if the model does not fit, as many shapes as the budget allows do not.
func (m *measuring) design(ctx context.Context, plan bench.Plan, cells []bench.Spec) (design, error) {
	guess := func(cells []bench.Spec) (time.Duration, error) {
		o, err := bench.Describe(ctx, m.options(plan, cells))
		if err != nil {
			return 0, misfit(err)
		}
		return o.Time * 6 / 5, nil // sessions of a machine that does other things, too
	}
	of, budget := cells[0], m.calibrate
	var own []bench.Spec // of the very model, whose transports are not measured
	if control := m.controlOf(of); control.Check(plan) == nil {
		take, err := guess([]bench.Spec{control})
		if err != nil {
			return design{}, err
		}
		if take <= budget/5 {
			own, budget = []bench.Spec{control}, budget-take
		}
	}
	tries, some := []attempt{{1, of.Clients, 8, 0}, {1, of.Clients, 6, 0}}, 0
	cell := of.Cell()
	if cache := analysis.CacheThatCounts(machine.Read().LLC, cell.Link); cache > 0 && cell.Resident() > cache {
		some = 2
		tries = []attempt{{1, of.Clients, 8, 8}, {1, of.Clients, 6, 6}, {.5, of.Clients, 6, 6}, {1, of.Clients, 6, some}}
	}
	for _, t := range []attempt{{.5, 1, 6, some}, {.25, 1, 6, some}, {.125, 1, 6, some}, {.125, 2, 6, some}, {.125, 4, 6, some}, {.0625, 4, 6, some}, {1. / 32, 4, 6, some}, {1. / 64, 4, 6, some}, {1. / 128, 4, 6, some}} {
		t.clients = max(of.Clients/t.clients, min(of.Workers, of.Clients))
		tries = append(tries, t)
	}
	var all []design
	least := time.Duration(math.MaxInt64)
	for _, t := range tries {
		d, err := m.shapes(cells, t)
		if err == nil {
			d.guess, err = guess(d.cells)
		}
		if err != nil {
			return d, err
		}
		d.cells = append(d.cells, own...)
		if d.guess <= budget {
			return d, nil
		}
		all, least = append(all, d), min(least, d.guess)
	}
	// Where sessions take what bytes do not, smaller shapes are no cheaper.
	return all[slices.IndexFunc(all, func(d design) bool { return d.guess <= least*11/10 })], nil
}

// controlOf returns the control of s.
func (m *measuring) controlOf(s bench.Spec) bench.Spec {
	s.Variant, s.PerProcess, s.Link = m.control, s.Workers, link.Rate{}
	return s
}

// shapes returns the cells of a design: each transport with each shape. Where there are
// fewer clients than asked for, the two smallest shapes have another number of them, too:
// that tells what a client costs from what a round does.
func (m *measuring) shapes(cells []bench.Spec, t attempt) (d design, err error) {
	of, above := cells[0], 1.15*float64(machine.Read().LLC)/float64(cells[0].Cell().Resident()+1)
	type size struct{ bytes, tensors int }
	scaled := func(model *models.Model, by scale) size {
		tensors := max(1, int(math.Round(float64(model.Layout.Len())*by.tensors)))
		some := max(256, float64(model.Layout.Payload())) // bytes: of none, there are no different ones
		return size{max(8*tensors, int(some*by.bytes)&^7), tensors}
	}
	type shape struct {
		down, up *models.Model
		size
	}
	var all []shape
	for i, by := range around {
		if by.bytes *= t.bytes; i < t.above { // by different shares: what overflows has its own cost
			by.bytes = max(by.bytes, above*(1+around[i].bytes/4))
		}
		if by == (scale{1, 1}) { // the very model
			by.tensors = 1.5
		}
		s := shape{size: scaled(of.Model, by)}
		if s.size == scaled(of.Model, scale{1, 1}) || len(all) == t.shapes || slices.ContainsFunc(all, func(o shape) bool { return o.size == s.size }) {
			continue
		}
		if s.down, err = models.Like(of.Model, s.bytes, s.tensors); err != nil {
			return d, usagef("--calibrate: %w", err)
		}
		if s.up = s.down; of.Up != nil && of.Up != of.Model {
			up := scaled(of.Up, by)
			if s.up, err = models.Like(of.Up, up.bytes, up.tensors); err != nil {
				return d, usagef("--calibrate: %w", err)
			}
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b shape) int { return cmp.Compare(a.bytes, b.bytes) })
	for i, s := range all {
		counts := []int{t.clients}
		if other := t.clients / 2; i < 2 && t.clients < of.Clients {
			if other < of.Workers {
				other = of.Clients
			}
			counts = append(counts, other)
		}
		had := len(d.cells)
		for _, n := range counts {
			for _, c := range cells {
				c.Model, c.Up, c.Clients = s.down, s.up, n
				if c.Check(bench.Plan{}) == nil && m.controlOf(c).Check(bench.Plan{}) == nil { // a shape may be larger than the model
					d.cells = append(d.cells, c)
				}
			}
		}
		if len(d.cells) > had {
			d.shapes++
		}
	}
	if len(d.cells) == 0 {
		return d, usagef("--calibrate: no model of another size than %s fits this machine, too", of.Model.Name)
	}
	return d, nil
}
