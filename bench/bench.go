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

// Options select what Run measures, and how.
type Options struct {
	Cells     []Spec
	Skipped   []Skipped // cells the user asked for that cannot run; copied to the result
	Plan      Plan
	Control   transports.Variant // the transport within one process; each cell is compared with a cell of this variant
	Listen    netip.AddrPort     // TCP address of servers; port 0 means any port, the zero value the loopback interface
	Ports     driver.Ports       // range of ports to use if Listen has none; zero means any port
	Python    Python             // interpreter and directory for workers in Python and reference rows
	Fleet     *agent.Fleet       // agents whose hosts run the workers; nil means this host
	Agents    int                // number of agents that will join; without Fleet, a run can only be checked and described
	Place     Place              // distribution of worker processes over the hosts
	EndAtOnce bool               // end the current round as soon as ctx is done: set it if the launcher (mpirun, srun) kills soon after its signal
	Insecure  bool               // allow addresses other than the loopback interface without tls=mutual
	Files     *identity.Files    // certificates for TLS; if nil, each session creates its own
	Against   []string           // executables of another build, one per layout, whose blocks alternate with this build's; may be empty
	Layouts   []string           // executables with other layouts of this build; only with Against
	Canary    float64            // share by which a copy of one cell is slowed down; 0 means no canary
	Host      trainer.Host
	Command   []string          // command line, for the result
	Questions []result.Question // that the cells answer, for the result
	Doctor    []doctor.Check    // checks of the machine; warnings and failures are copied to the result
	Progress  func(Progress)    // called between rounds, never during one; may be nil

	// Save, if not nil, is called between cycles with a partial result, so that a killed
	// run leaves it behind. It uses about 2 % of the run's time: the slower it is, the
	// less often it is called. Its error is ignored; Run returns the complete result.
	Save func(*Result) error

	Profiling Profiling // profiles to take, in blocks of their own
}

// Run measures all cells, their controls and floors. If ctx is done, it finishes the
// current round and returns a result marked partial and a nil error. If a cell fails, it
// returns the result so far and the error. Profiles come last: if they fail, the returned
// result is complete without them.
func Run(ctx context.Context, o Options) (*Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.all(ctx)
}

func (r *run) all(ctx context.Context) (*Result, error) {
	patience := grace
	if r.EndAtOnce {
		patience = 0
	}
	now, cancel := bounded(ctx, patience)
	defer cancel()
	r.planSteps(now, ctx)
	err := r.cycles(now, ctx)
	if err == nil && ctx.Err() == nil {
		err = r.profiles(ctx)
		if err != nil && ctx.Err() == nil {
			return r.sofar(""), err // profiles failed, but all measurements are complete
		}
	}
	partial := ""
	switch {
	case ctx.Err() != nil:
		partial = fmt.Sprintf("%v after %d of %d blocks", context.Cause(ctx), r.done, r.pace.plan)
		if errors.Is(err, context.Cause(ctx)) || errors.Is(err, context.Canceled) {
			err = nil // an interrupted block is not a failure
		}
	case err != nil:
		partial = err.Error()
	}
	return r.sofar(partial), err
}

type run struct {
	Options
	here      *host
	started   time.Time
	result    *Result
	order     *rand.Rand // shuffles the steps of a cycle
	cells     []*cell
	chains    []*chain
	floors    []*Floor
	tried     map[*Floor]map[string][][]float64 // samples by condition and block, for floors measured under several conditions
	software  map[*Peer]map[string]string       // versions by name, as reported by each peer
	burns     bool                              // the baseline, a peer, slows itself down on request
	done      int                               // number of blocks that have run
	cycle     int                               // index of the current cycle, from 0
	steps     []*step                           // blocks and floors that cycles run
	profiling []*step                           // run after all cycles
	pace      pace
	nextSave  time.Time // earliest time of the next save
}

type cell struct {
	Spec
	files  []string // executables of its build, one per layout, whose processes run its blocks in turn; nil unless interleaved
	canary canaryKind
	copyOf *cell // the original, if this is a canary
	chain  *chain
	result Cell
	spent  time.Duration // charged against its plan's time

	slowest time.Duration // duration of the slowest block that another program has run
}

func newRun(ctx context.Context, o Options) (*run, error) {
	if err := cmp.Or(CheckPlan(o.Plan), capture.Check(o.Profiling.Kinds...)); err != nil {
		return nil, err
	}
	// Each run gets a new order, so that effects of one block on the next average out
	// over repeated runs. The seed fits into a float64 exactly, because many JSON readers
	// have only floats.
	o.Plan.OrderSeed = cmp.Or(o.Plan.OrderSeed, 1+uint64(rand.Uint32()))
	r := &run{
		Options: o, started: time.Now(),
		order: rand.New(rand.NewPCG(o.Plan.OrderSeed, 0)),
		tried: map[*Floor]map[string][][]float64{}, software: map[*Peer]map[string]string{},
		result: &Result{Schema: result.Schema, Command: o.Command, Questions: o.Questions, Plan: o.Plan, Environment: machine.Read(), Skipped: o.Skipped, Doctor: doctor.Only(o.Doctor, doctor.Warn, doctor.Fail)},
	}
	r.result.Plan.Interleaved = len(o.Against) > 0
	r.result.Started = r.started.UTC()
	var err error
	if r.result.Environment.Link, err = environment(Links(o.Cells)); err != nil {
		return nil, err
	}
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
	return r, r.checkResult()
}

// checkResult checks the parts of the result that are known before measuring, so that no
// run ends with a result that cannot be written. Text from the machine and the command
// line is made printable.
func (r *run) checkResult() error {
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

// addCells adds the cells of one build. Duplicates are an error.
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
			return fmt.Errorf("duplicate cell %s", s)
		}
		r.cells = append(r.cells, c)
	}
	return nil
}

// chainOf returns the reference chain of s, shared with earlier cells that compute the
// same. It is nil for a user's worker function.
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

// withControls returns the cells, each preceded by its control unless that is present. A
// user's worker function has no control, because it does not run in this process.
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

// fileSystem returns the type of the file system of the variant's directory setting;
// empty if it has none, or if the type is unknown.
func fileSystem(v transports.Variant) string {
	all := v.Transport.Settings()
	i := slices.IndexFunc(all, func(s driver.Setting) bool { return s.Kind == driver.Path })
	if i < 0 {
		return ""
	}
	name, _ := machine.FileSystem(cmp.Or(v.Settings[all[i].Name], os.TempDir()))
	return name
}

// finished reports whether c needs no more blocks, and records the reason. Cells that do
// the same work end together: they are compared, and one of them is the control that is
// subtracted from the others. Blocks that only one of them had would include machine
// conditions that the others never met.
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

// peers returns the cells with the same workload, workers and clients as c, including c.
func (r *run) peers(c *cell) []*cell {
	var all []*cell
	for _, d := range r.cells {
		if d.result.Workload() == c.result.Workload() && d.result.Workers == c.result.Workers && d.result.Clients == c.result.Clients {
			all = append(all, d)
		}
	}
	return all
}

// enough returns the reason why c may stop, or "" if it needs more blocks. Its peers
// share one time budget, of which cells with slow rounds use more.
func (r *run) enough(c *cell, peers []*cell) string {
	n := len(c.result.Blocks)
	switch {
	case n < r.Plan.Blocks:
		return ""
	case r.Plan.Rounds > 0:
		if c.result.Rounds() < r.Plan.Rounds {
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

// unspent returns the remaining part of the time that the cells share.
func (r *run) unspent(peers []*cell) time.Duration {
	left := time.Duration(len(peers)) * r.Plan.Time
	for _, d := range peers {
		left -= d.spent
	}
	return left
}

// precise reports whether the relative confidence interval of the cell's median round is
// at most the plan's Precision.
func (r *run) precise(c *cell) bool {
	i := stat.Of(c.rounds())
	return i.Sure() && i.Relative() <= r.Plan.Precision
}

// rounds returns the durations of timed rounds in seconds, by block.
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

// block runs one block of c, and keeps it if a round was timed.
func (r *run) block(ctx, quit context.Context, c *cell) error {
	run := r.blockHere
	if c.files != nil || c.peer() != nil {
		run = r.blockThere
	}
	var pings []int64
	b, err := r.next(ctx, c, func(ctx context.Context, b *Block) (err error) {
		b.Layout = b.Index % max(1, len(c.files))
		pings, err = run(ctx, quit, c, b)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	if c.result.Build != "base" { // rpc-empty describes this build only
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

// next has run measure the next block of c, on the link of c.
func (r *run) next(ctx context.Context, c *cell, run func(ctx context.Context, b *Block) error) (b Block, err error) {
	b = Block{Index: len(c.result.Blocks), Position: r.done, At: time.Since(r.started)}
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

func charge(b *Block) time.Duration {
	return max(b.RoundTime(), leastCharge)
}

func (c *cell) String() string {
	text := c.Spec.String()
	for _, of := range []string{c.result.Build, string(c.canary)} {
		if of != "" {
			text += ", " + of
		}
	}
	return text
}

// blockHere runs one block of c with this process as its server. It returns the times of
// empty calls, in ns.
func (r *run) blockHere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	s := &blockRun{slow: r.slow(c), block: b}
	err = r.serve(ctx, quit, c, s, r.label(c))
	if s.software != nil { // a block that failed early has no report of its software
		c.result.Software = s.software
	}
	return s.pings, err
}

// serve runs s as a block of c with this process as its server. what names the block in
// progress reports.
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

// compare compares the models of a block of c with the reference chain. Time to extend
// the chain does not count as time of the block.
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

// oneLine joins the lines of a text, such as an error with its stderr, with semicolons.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.ReplaceAll(strings.TrimSpace(line), "\t", " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
