package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/identity"
	"ipcbench/internal/agent"
	"ipcbench/internal/doctor"
	"ipcbench/internal/machine"
	"ipcbench/internal/profile/capture"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Options say what to run.
type Options struct {
	Cells    []Spec
	Skipped  []Skipped // cells that were asked for besides, for the result
	Plan     Plan
	Control  transports.Variant // the transport inside one process, which every cell is compared with
	Listen   netip.AddrPort     // where servers listen over TCP, at any port if it is 0; zero is the loopback interface
	Ports    driver.Ports       // at which of its ports, if Listen has none; zero is any
	Python   Python             // for workers in Python, and reference rows
	Fleet    *agent.Fleet       // on whose hosts the workers are; nil has them on this one
	Agents   int                // how many will join, where Fleet is nil since they have not yet: such a run can be described
	Place    Place              // on which of the hosts
	Hurried  bool               // when ctx ends, the round in hand does: who ends it kills soon after
	Insecure bool               // they may listen elsewhere without tls=mutual
	Files    *identity.Files    // certificates for TLS; nil has each session make its own
	Against  []string           // executables of another build, its layouts, whose blocks are run between those of this one; or none
	Layouts  []string           // executables of this build, with Against: its layouts besides this one
	Canary   float64            // by what share a copy of one cell is slowed down; 0 for no canary
	Host     trainer.Host
	Command  []string       // for the result
	Doctor   []doctor.Check // what was found out about the machine, for the result
	Progress func(Progress) // called between rounds and never during one; may be nil

	// Save, unless it is nil, is called between cycles with all that was measured so
	// far, marked as partial, so that a run which is killed leaves that. It takes a
	// small share of the run's time: where it is slow, it is called less often. What
	// it returns ends nothing: the result that Run returns is complete.
	Save func(*Result) error

	Profiling Profiling // what is profiled, in blocks of their own
}

// Run measures all cells, with the control cells and the floors that they are
// judged by. When ctx ends, Run ends after the round in hand and returns what
// it has, marked as partial, without an error. A cell that fails ends the run:
// the result so far is returned with the error. Profiles come last: without them,
// the result is complete.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.all(ctx)
}

// all runs everything.
func (r *run) all(ctx context.Context) (*Result, error) {
	patience := grace
	if r.Hurried {
		patience = 0
	}
	now, cancel := bounded(ctx, patience)
	defer cancel()
	r.planSteps(now, ctx)
	err := r.cycles(now, ctx)
	if err == nil && ctx.Err() == nil {
		err = r.profiles(ctx)
		if err != nil && ctx.Err() == nil {
			return r.sofar(""), err // all that was measured is complete
		}
	}
	partial := ""
	switch {
	case ctx.Err() != nil:
		partial = fmt.Sprint(context.Cause(ctx))
		if errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) {
			err = nil // what was broken off has not failed
		}
	case err != nil:
		partial = err.Error()
	}
	return r.sofar(partial), err
}

// run is a run in progress.
type run struct {
	Options
	here      *host
	started   time.Time
	result    *Result
	order     *rand.Rand // of blocks
	cells     []*cell
	chains    []*chain
	floors    []*Floor
	tried     map[*Floor]map[string][][]float64 // samples by condition and block, of floors that are tried under several
	software  map[*Peer]map[string]string       // of peers, as they say
	done      int                               // blocks
	cycle     int                               // in hand, from 0
	steps     []*step                           // of which cycles are made
	profiling []*step                           // after them
	pace      pace
	nextSave  time.Time // not before
}

// cell is a cell in progress.
type cell struct {
	Spec
	files  []string // of the layouts of its build, whose processes run its blocks in turn; nil if it has no build
	canary canaryKind
	copyOf *cell // of a canary
	chain  *chain
	result Cell
	spent  time.Duration // of its time
}

func newRun(ctx context.Context, o Options) (*run, error) {
	if err := cmp.Or(CheckPlan(o.Plan), capture.Check(o.Profiling.Kinds...)); err != nil {
		return nil, err
	}
	// Whoever repeats a run gets another order, so that what a block does to the next
	// one averages out. The number fits into a float: many readers of JSON have no other.
	o.Plan.OrderSeed = cmp.Or(o.Plan.OrderSeed, 1+uint64(rand.Uint32()))
	r := &run{
		Options: o, started: time.Now(),
		order: rand.New(rand.NewPCG(o.Plan.OrderSeed, 0)),
		tried: map[*Floor]map[string][][]float64{}, software: map[*Peer]map[string]string{},
		result: &Result{Schema: result.Schema, Command: o.Command, Plan: o.Plan, Environment: machine.Read(), Skipped: o.Skipped, Doctor: doctor.Only(o.Doctor, doctor.Warn, doctor.Fail)},
	}
	r.result.Plan.Interleaved = len(o.Against) > 0
	r.result.Started = r.started.UTC()
	r.result.Environment.Link = environment(Links(o.Cells))
	r.result.Environment.Listen = o.listen()
	specs := withControls(o.Cells, o.Control)
	hosts, err := o.Hosts()
	if err != nil {
		return nil, err
	}
	r.result.Hosts = hosts.results(r.result.Environment)
	for _, s := range specs {
		if err := hosts.Check(s); err != nil {
			return nil, err
		}
	}
	known, err := r.askPeers(ctx)
	if err != nil {
		return nil, err
	}
	specs = withControls(known, o.Control)
	if r.here, err = newHost(o.Plan, o.Host); err != nil {
		return nil, err
	}
	r.here.network, r.here.hosts, r.here.python = o.network(), hosts, o.Python
	if len(o.Against) == 0 {
		err = r.addCells(specs, side{})
	} else {
		err = r.addBuilds(ctx, specs)
	}
	if err != nil {
		return nil, err
	}
	r.addCanaries()
	r.planFloors()
	return r, r.dry()
}

// dry checks the result as far as it is known before anything is measured: what
// could not be written at the end is not run. What the machine and the command
// line say is made printable.
func (r *run) dry() error {
	result.MakePrintable(r.result)
	err := r.result.ValidateHead()
	for _, c := range r.cells {
		err = errors.Join(err, result.Check(&c.result), c.result.ValidateHead())
	}
	if err != nil {
		return fmt.Errorf("bench: the result could not be written: %w", err)
	}
	return nil
}

// addCells adds the cells of one build.
func (r *run) addCells(specs []Spec, of side) error {
	for _, s := range specs {
		c := &cell{Spec: s, files: of.files, chain: r.chainOf(s), result: s.Cell()}
		c.result.Launcher = r.here.launcher(s).Name()
		c.result.Hosts, c.result.Place = r.here.hosts.at(s)
		c.result.Build = of.build
		c.result.FileSystem = fileSystem(s.Variant)
		if p := s.peer(); p != nil {
			c.result.Launcher, c.result.Peer, c.result.Software = "peer", p.shown, r.software[p]
		}
		if slices.ContainsFunc(r.cells, func(d *cell) bool { return d.result.Build == of.build && d.result.ID() == c.result.ID() }) {
			return fmt.Errorf("%s: asked for twice", s)
		}
		r.cells = append(r.cells, c)
	}
	return nil
}

// chainOf returns the reference chain of s, a new one if no cell before did the same;
// nil if its worker function is a user's.
func (r *run) chainOf(s Spec) *chain {
	if s.Train != "" {
		return nil
	}
	key := s.chainKey()
	i := slices.IndexFunc(r.chains, func(ch *chain) bool { return ch.key == key })
	if i < 0 {
		i = len(r.chains)
		r.chains = append(r.chains, &chain{cell: s, key: key, seed: r.Plan.Seed})
	}
	return r.chains[i]
}

// withControls adds the control cell of every cell that lacks it, before it. A user's
// worker function does not run inside of this process.
func withControls(cells []Spec, inproc transports.Variant) []Spec {
	have := map[string]bool{}
	for _, s := range cells {
		if s.Variant.String() == inproc.String() {
			have[s.control(inproc).String()] = true
		}
	}
	var all []Spec
	for _, s := range cells {
		if k := s.control(inproc); !have[k.String()] && s.Train == "" {
			have[k.String()] = true
			all = append(all, k)
		}
		all = append(all, s)
	}
	return all
}

// fileSystem returns what lies under the directory in which a variant writes
// files, if it has such a setting.
func fileSystem(v transports.Variant) string {
	all := v.Transport.Settings()
	i := slices.IndexFunc(all, func(s driver.Setting) bool { return s.Kind == driver.Path })
	if i < 0 {
		return ""
	}
	name, _ := machine.FileSystem(cmp.Or(v.Settings[all[i].Name], os.TempDir())) // empty if nobody knows
	return name
}

// finished reports whether c needs no more blocks, and notes why. Cells that do
// the same work are compared with each other, and one of them is the control that
// is subtracted from all: they end together. Blocks that one of them had alone
// would hold what the machine did only then.
func (r *run) finished(c *cell) bool {
	if c.result.Stopped != "" {
		return true
	}
	peers := r.peers(c)
	for _, d := range peers {
		if d.result.Stopped == "" && r.enough(d, peers) == "" {
			return false
		}
	}
	c.result.Stopped = r.enough(c, peers)
	return true
}

// peers returns the cells that do the same work as c, c included.
func (r *run) peers(c *cell) []*cell {
	var all []*cell
	for _, d := range r.cells {
		if d.result.Workload() == c.result.Workload() && d.result.Workers == c.result.Workers && d.result.Clients == c.result.Clients {
			all = append(all, d)
		}
	}
	return all
}

// enough returns why c may stop, or nothing if it needs more blocks. All its peers
// share one budget of time, and one with slow rounds takes more of it.
func (r *run) enough(c *cell, peers []*cell) string {
	n := len(c.result.Blocks)
	switch {
	case n < r.Plan.Blocks:
		return ""
	case r.Plan.Rounds > 0:
		if c.result.Rounds() < r.Plan.Rounds { // a block has no more than recorders have room for
			return ""
		}
		return "rounds"
	case r.Plan.Precision == 0:
		return "blocks"
	case r.precise(c):
		return "precision"
	case r.unspent(peers) <= 0:
		return "time"
	}
	return ""
}

// unspent returns what is left of the time of cells that share it.
func (r *run) unspent(peers []*cell) time.Duration {
	left := time.Duration(len(peers)) * r.Plan.Time
	for _, d := range peers {
		left -= d.spent
	}
	return left
}

// precise reports whether the interval of the cell's median round is as narrow
// as the plan asks for.
func (r *run) precise(c *cell) bool {
	i := stat.Of(c.rounds())
	return i.Sure() && i.Relative() <= r.Plan.Precision
}

// rounds returns the times of the timed rounds by block, in seconds.
func (c *cell) rounds() (blocks [][]float64) {
	for _, b := range c.result.Blocks {
		blocks = append(blocks, seconds(b.Round))
	}
	return blocks
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
	run := r.blockHere
	if c.files != nil || c.peer() != nil {
		run = r.blockThere
	}
	var pings []int64
	b, err := r.next(c, func(b *Block) (err error) {
		b.Layout = b.Index % max(1, len(c.files))
		pings, err = run(ctx, quit, c, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if c.result.Build != "base" { // a floor is that of this build
		r.keepPings(c.Spec, pings)
	}
	if len(b.Round) == 0 {
		return nil // interrupted before there was anything to keep
	}
	c.spent += charge(&b)
	thin(&b, c.Clients, c.Workers)
	c.result.Blocks = append(c.result.Blocks, b)
	return nil
}

// next has run measure the next block of c, on the link of c.
func (r *run) next(c *cell, run func(b *Block) error) (b Block, err error) {
	b = Block{Index: len(c.result.Blocks), Position: r.done, At: time.Since(r.started)}
	if b.Link, err = onLink(c.Spec, func() error { return run(&b) }); err != nil {
		return b, fmt.Errorf("block %d: %w", b.Index, err)
	}
	r.done++
	return b, nil
}

// leastCharge is what a block counts for at least, of the time of its cell. To
// start and end a session takes longer than that: a cell of short rounds would
// spend minutes on seconds.
const leastCharge = 100 * time.Millisecond

// charge returns how much of its cell's time the block has used.
func charge(b *Block) time.Duration {
	return max(b.RoundTime(), leastCharge)
}

// String says which cell it is, for progress and errors.
func (c *cell) String() string {
	text := c.Spec.String()
	for _, of := range []string{c.result.Build, string(c.canary)} {
		if of != "" {
			text += ", " + of
		}
	}
	return text
}

// blockHere runs one block of c with this process as its server.
func (r *run) blockHere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	s := &blockRun{slow: r.slow(c), block: b}
	err = r.serve(ctx, quit, c, s, r.label(c))
	if s.software != nil { // a block that failed before its end says nothing of it
		c.result.Software = s.software
	}
	return s.pings, err
}

// serve runs s, a block of c, with this process as its server. Progress names it what.
func (r *run) serve(ctx, quit context.Context, c *cell, s *blockRun, what string) error {
	s.cell, s.plan, s.chain = c.Spec, c.Spec.planned(r.Plan), c.chain
	s.block.SpanCost = spanCost()
	s.onRound = func() { r.progress(what) }
	r.progress(what)
	if err := r.here.run(ctx, quit, s); err != nil {
		return err
	}
	return r.compare(ctx, c, s)
}

// compare compares the rounds of a block of c with the reference chain. What it
// takes to make that longer is no part of what a block takes.
func (r *run) compare(ctx context.Context, c *cell, s *blockRun) error {
	what := fmt.Sprintf("reference chain of %s, clients=%d", c.result.Model.Label(), c.Clients)
	s.onChain = func(int) { r.progress(what) }
	start := time.Now()
	err := s.compare(ctx)
	if err == nil && c.result.Coding == nil {
		c.result.Coding, err = c.coding(ctx)
	}
	r.pace.apart += time.Since(start)
	return err
}

// oneLine joins the lines of a text, such as the error of a process with what it
// wrote to stderr.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), "\t", " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
