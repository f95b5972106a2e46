package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/bench/machine"
	"ipcbench/bench/stat"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// Options say what to run.
type Options struct {
	Cells    []Spec
	Plan     Plan
	Control  transports.Variant // the transport inside one process, which every cell is compared with
	Host     trainer.Host
	Command  []string       // for the result
	Progress func(Progress) // called between rounds and never during one; may be nil
}

// A Progress says how far a run is.
type Progress struct {
	What       string // the cell or the floor in hand
	Round      int    // timed rounds of the block in hand
	Done, Plan int    // blocks that have ended, and that are planned so far
	Elapsed    time.Duration
}

// grace is how long an interrupted run waits for the round in hand before it
// breaks it off.
const grace = 2 * time.Second

// Run measures all cells, with the control cells and the floors that they are
// judged by. When ctx ends, Run ends after the round in hand and returns what
// it has, marked as partial, without an error. A cell that fails ends the run:
// the result so far is returned with the error.
func Run(ctx context.Context, o Options) (*Result, error) {
	if err := o.Plan.validate(); err != nil {
		return nil, err
	}
	r, err := newRun(o)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return r.all(ctx)
}

// all runs everything.
func (r *run) all(ctx context.Context) (*Result, error) {
	// now ends some time after ctx: until then the round in hand may finish.
	now, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	defer stop()

	err := r.cycles(now, ctx)
	switch {
	case ctx.Err() != nil: // what failed after that was broken off
		r.result.Partial, err = fmt.Sprint(context.Cause(ctx)), nil
	case err != nil:
		r.result.Partial = err.Error()
	}
	return r.finish(), err
}

// run is a run in progress.
type run struct {
	Options
	started    time.Time
	result     *Result
	order      *rand.Rand // of blocks
	processes  trainer.Launcher
	goroutines trainer.Launcher
	cells      []*cell
	chains     map[chainKey]*chain
	floors     []*Floor
	done       int   // blocks
	cpus       []int // that this process may use
}

type chainKey struct {
	model   *models.Model
	clients int
}

// cell is a cell in progress.
type cell struct {
	Spec
	result Cell
	spent  time.Duration // in timed rounds
	rounds int
}

func newRun(o Options) (*run, error) {
	r := &run{
		Options: o, started: time.Now(),
		order:  rand.New(rand.NewPCG(o.Plan.Seed, 0)),
		chains: map[chainKey]*chain{},
		result: &Result{Schema: Schema, Command: o.Command, Plan: o.Plan, Environment: machine.Read()},
	}
	r.result.Started = r.started.UTC()
	var err error
	if r.cpus, err = trainer.Affinity(); err != nil {
		return nil, err
	}
	if r.processes, err = trainer.NewProcesses(); err != nil {
		return nil, err
	}
	r.goroutines = trainer.NewGoroutines(o.Host)
	for _, s := range withControls(o.Cells, o.Control) {
		if err := s.Check(o.Plan); err != nil {
			return nil, errors.Join(err, r.processes.Close())
		}
		c := &cell{Spec: s}
		c.result = s.newCell(r.launcher(s), o.Plan)
		if slices.ContainsFunc(r.cells, func(d *cell) bool { return d.result.ID() == c.result.ID() }) {
			return nil, errors.Join(fmt.Errorf("%s: asked for twice", s), r.processes.Close())
		}
		c.result.FileSystem = fileSystem(s.Variant)
		r.cells = append(r.cells, c)
		key := chainKey{s.Model, s.Clients}
		if r.chains[key] == nil {
			r.chains[key] = &chain{model: s.Model, clients: s.Clients, seed: o.Plan.Seed}
		}
	}
	r.planFloors()
	return r, nil
}

func (r *run) close() { _ = r.processes.Close() } // all its processes were waited for

// withControls adds the control cell of every cell that lacks it, before it.
func withControls(cells []Spec, inproc transports.Variant) []Spec {
	type key struct {
		model            *models.Model
		workers, clients int
	}
	have := map[key]bool{}
	for _, s := range cells {
		if s.Variant.String() == inproc.String() {
			have[key{s.Model, s.Workers, s.Clients}] = true
		}
	}
	var all []Spec
	for _, s := range cells {
		if k := (key{s.Model, s.Workers, s.Clients}); !have[k] {
			have[k] = true
			all = append(all, s.control(inproc))
		}
		all = append(all, s)
	}
	return all
}

func (r *run) launcher(s Spec) trainer.Launcher {
	if s.inside() {
		return r.goroutines
	}
	return r.processes
}

// fileSystem returns what lies under the directory in which a variant writes
// files, if it has such a setting.
func fileSystem(v transports.Variant) string {
	for _, s := range v.Transport.Settings() {
		if s.Kind != transports.Path {
			continue
		}
		dir := v.Settings[s.Name]
		if dir == "" {
			dir = os.TempDir()
		}
		if name, err := machine.FileSystem(dir); err == nil {
			return name
		}
	}
	return ""
}

// cycles runs blocks of all cells that need more, in random order, and one
// measurement of every floor, again and again.
func (r *run) cycles(ctx, quit context.Context) error {
	for {
		var tasks []func() error
		for _, c := range r.cells {
			if !r.finished(c) {
				tasks = append(tasks, func() error { return r.block(ctx, quit, c) })
			}
		}
		if len(tasks) == 0 {
			return nil
		}
		for _, f := range r.floors {
			if f.Name == rpcEmpty {
				continue
			}
			tasks = append(tasks, func() error { return r.floor(ctx, f) })
		}
		for _, ch := range r.chains {
			if len(ch.hashes) > 0 {
				tasks = append(tasks, func() error {
					r.progress("floor work "+ch.model.Name, 0)
					return ch.measure(ctx)
				})
			}
		}
		r.order.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		for _, task := range tasks {
			if quit.Err() != nil {
				return quit.Err()
			}
			if err := task(); err != nil {
				return err
			}
		}
	}
}

// finished reports whether c needs no more blocks, and notes why.
func (r *run) finished(c *cell) bool {
	n := len(c.result.Blocks)
	switch {
	case c.result.Stopped != "":
		return true
	case n < r.Plan.Blocks:
		return false
	case r.Plan.Rounds > 0:
		c.result.Stopped = "rounds"
	case r.precise(c):
		c.result.Stopped = "precision"
	case c.spent >= r.Plan.Time:
		c.result.Stopped = "time"
	case n >= mostBlocks*r.Plan.Blocks: // rounds so short that a block has too few of them to use its time
		c.result.Stopped = "blocks"
	}
	return c.result.Stopped != ""
}

// mostBlocks bounds the blocks of a cell as a multiple of those planned.
const mostBlocks = 4

// precise reports whether the interval of the cell's median round is as narrow
// as the plan asks for.
func (r *run) precise(c *cell) bool {
	var blocks [][]float64
	for _, b := range c.result.Blocks {
		blocks = append(blocks, seconds(b.Round))
	}
	i := stat.Of(blocks)
	return i.Sure() && i.Relative() <= r.Plan.Precision
}

func seconds(ns []int64) []float64 {
	s := make([]float64, len(ns))
	for i, n := range ns {
		s[i] = time.Duration(n).Seconds()
	}
	return s
}

// block runs one block of c.
func (r *run) block(ctx, quit context.Context, c *cell) error {
	ch := r.chains[chainKey{c.Model, c.Clients}]
	if len(ch.hashes) == 0 {
		r.progress("floor work "+c.Model.Name, 0)
		if err := r.extend(ctx, ch); err != nil {
			return err
		}
	}
	b := Block{Index: len(c.result.Blocks), Position: r.done, At: time.Since(r.started), SpanCost: spanCost()}
	r.progress(c.String(), 0)
	s := &session{cell: c.Spec, plan: r.Plan, chain: ch, roster: roster(c.Clients), block: &b}
	s.onRound = func() { r.progress(c.String(), len(s.windows)) }
	if err := r.session(ctx, quit, s); err != nil {
		return fmt.Errorf("%s: block %d: %w", c.Spec, b.Index, err)
	}
	r.done++
	r.keepPings(c.Spec, s.pings)
	if len(b.Round) == 0 {
		return nil // interrupted before there was anything to keep
	}
	for _, ns := range b.Round {
		c.spent += time.Duration(ns)
	}
	c.rounds += len(b.Round)
	c.result.Blocks = append(c.result.Blocks, b)
	return nil
}

// session runs s where the plan wants its processes.
func (r *run) session(ctx, quit context.Context, s *session) error {
	if !r.Plan.Pin || s.cell.inside() { // the control has one process, which needs the processors of all
		return s.run(ctx, quit, r.launcher(s.cell), r.Plan.limits())
	}
	p := place(r.cpus, s.cell.processes())
	return p.pinned(func(l trainer.Launcher) error {
		if err := s.run(ctx, quit, l, r.Plan.limits()); err != nil || len(s.windows) == 0 {
			return err
		}
		return p.verify(s.block)
	})
}

// keepPings adds what empty calls took in one block to the floor of the cell's
// variant.
func (r *run) keepPings(s Spec, ns []int64) {
	if len(ns) == 0 {
		return
	}
	variant := s.Variant.String()
	i := slices.IndexFunc(r.floors, func(f *Floor) bool { return f.Transport == variant })
	if i < 0 {
		i = len(r.floors)
		r.floors = append(r.floors, &Floor{
			Name: rpcEmpty, Unit: "s", Transport: variant, Help: "an empty call on a worker's own connection, while nothing else goes on",
		})
	}
	r.floors[i].Blocks = append(r.floors[i].Blocks, seconds(ns))
}

// rpcEmpty is the floor that the cells' own sessions measure.
const rpcEmpty = "rpc-empty"

// extend makes the reference chain long enough for any cell that needs it.
func (r *run) extend(ctx context.Context, ch *chain) error {
	lanes := 1
	for _, c := range r.cells {
		if c.Model == ch.model && c.Clients == ch.clients {
			lanes = max(lanes, c.Workers)
		}
	}
	least, most := r.Plan.chainLength()
	return ch.extend(ctx, r.Plan.limits().time, lanes, least, most)
}

func (r *run) progress(what string, round int) {
	if r.Progress == nil {
		return
	}
	planned := 0
	for _, c := range r.cells {
		planned += max(r.Plan.Blocks, len(c.result.Blocks))
	}
	r.Progress(Progress{What: what, Round: round, Done: r.done, Plan: planned, Elapsed: time.Since(r.started)})
}

// planFloors lists the floors that bound the cells: those of the machine, and
// for each model the wake-up after that model's train time.
func (r *run) planFloors() {
	for _, f := range floors.All() {
		if f.Name != "futex" {
			r.floors = append(r.floors, &Floor{Name: f.Name, Unit: f.Unit, Help: f.Help})
			continue
		}
		seen := map[*models.Model]bool{}
		for _, c := range r.cells {
			if !seen[c.Model] {
				seen[c.Model] = true
				r.floors = append(r.floors, &Floor{Name: f.Name, Unit: f.Unit, Help: f.Help, Model: c.Model.Name})
			}
		}
	}
}

// floor measures f once more.
func (r *run) floor(ctx context.Context, f *Floor) error {
	r.progress("floor "+f.Name, 0)
	var p floors.Params
	if r.Plan.Pin {
		at := place(r.cpus, 1)
		p.CPUs = []int{at.server[0], at.workers[0][0]}
	}
	if f.Model != "" {
		if f.Gap == 0 {
			f.Gap = r.trainTime(f.Model)
		}
		if f.Gap == 0 {
			return nil // no cell of the model has run yet
		}
		p.Gap = time.Duration(f.Gap)
	}
	series, err := floors.Measure(ctx, f.Name, p)
	if err != nil {
		return err
	}
	// Where several conditions are tried, the best one is the limit.
	best := series[0]
	for _, s := range series[1:] {
		if stat.Median(s.Samples) > stat.Median(best.Samples) {
			best = s
		}
	}
	if len(series) > 1 {
		f.Variant = best.Variant
	}
	f.Blocks = append(f.Blocks, best.Samples)
	return nil
}

// trainTime returns the median time of the worker function with the model, ns.
func (r *run) trainTime(model string) int64 {
	for _, c := range r.cells {
		if c.Model.Name == model && len(c.result.Blocks) > 0 {
			return int64(stat.Median(seconds(c.result.Blocks[0].Train)) * 1e9)
		}
	}
	return 0
}

// finish returns the result of what was run.
func (r *run) finish() *Result {
	r.result.Elapsed = time.Since(r.started)
	for _, c := range r.cells {
		if c.result.Stopped == "" {
			c.result.Stopped = "interrupted"
		}
		if len(c.result.Blocks) > 0 {
			r.result.Cells = append(r.result.Cells, c.result)
		}
	}
	for _, f := range r.floors {
		if len(f.Blocks) > 0 {
			r.result.Floors = append(r.result.Floors, *f)
		}
	}
	for _, c := range r.cells { // in the order of cells, not of the map
		ch := r.chains[chainKey{c.Model, c.Clients}]
		if ch == nil || len(ch.work) == 0 {
			continue
		}
		r.result.Floors = append(r.result.Floors, Floor{
			Name: "work", Unit: "s", Model: c.Model.Name, Clients: c.Clients, Blocks: ch.work,
			Help: "the arithmetic of a round, trained and folded by direct calls",
		})
		delete(r.chains, chainKey{c.Model, c.Clients})
	}
	return r.result
}
