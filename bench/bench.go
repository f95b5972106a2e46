package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"ipcbench/bench/place"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/internal/doctor"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/profile/capture"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// Options select what Run measures, and how.
type Options struct {
	Cells   []session.Spec
	Skipped []result.Skipped // cells the user asked for that cannot run; copied to the result
	Plan    result.Plan
	Control transports.Variant // the transport within one process; each cell is compared with a cell of this variant
	Python  place.Python       // interpreter and directory for workers in Python and reference rows
	Fleet   *agent.Fleet       // agents whose hosts run the workers; nil means this host
	Agents  int                // number of agents that will join; without Fleet, a run can only be checked and described
	Place   place.Rule         // distribution of worker processes over the hosts

	// EndAtOnce ends the current round as soon as ctx is done. It must be set if the launcher
	// (mpirun, srun) kills soon after its signal.
	EndAtOnce bool

	// Builds are two builds whose blocks alternate, see [program.Builds]. If there are none, this
	// process runs the blocks.
	Builds []*program.Program

	Canary    float64 // share by which a copy of one cell is slowed down; 0 means no canary
	Host      trainer.Host
	Command   []string          // command line, for the result
	Questions []result.Question // that the cells answer, for the result
	Doctor    []doctor.Check    // checks of the machine; warnings and failures are copied to the result
	Progress  func(Progress)    // called between rounds, never during one; may be nil

	session.Listening // where and how servers listen over TCP

	// Save, if not nil, is called between cycles with a partial result, so that a killed
	// run leaves it behind. Its error is ignored; Run returns the complete result.
	Save func(*result.Result) error

	Resume *result.Result // an interrupted run of the same cells and plan, to go on with; may be nil

	Profiling Profiling // profiles to take, in blocks of their own
}

// Hosts returns the hosts available to workers, or nil without agents.
func (o Options) Hosts() (*place.Hosts, error) { return place.NewHosts(o.Place, o.Fleet, o.Agents) }

// InterleavedBlocks is the minimum number of blocks of each of two builds, in any mode,
// unless the user sets another number.
const InterleavedBlocks = 10

// Run measures all cells, their controls and floors. If ctx is done, it finishes the
// current round and returns a result marked partial and a nil error. If a cell fails, it
// returns the result so far and the error. Profiles come last: if they fail, the returned
// result is complete without them.
func Run(ctx context.Context, o Options) (*result.Result, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	return r.all(ctx)
}

func (r *run) all(ctx context.Context) (*result.Result, error) {
	patience := session.Grace
	if r.EndAtOnce {
		patience = 0
	}
	now, cancel := session.Bounded(ctx, patience)
	defer cancel()
	measured := false
	err := link.Watch(now, func(now context.Context) error {
		r.planSteps(now, ctx)
		if err := r.cycles(now, ctx); err != nil || ctx.Err() != nil {
			return err
		}
		measured = true
		return r.profiles(ctx)
	})
	if measured && err != nil && ctx.Err() == nil {
		return r.sofar(""), err // profiles failed, but all measurements are complete
	}
	partial := ""
	switch {
	case ctx.Err() != nil:
		partial = fmt.Sprintf("%v after %d of %d blocks", context.Cause(ctx), r.done, r.pace.Plan)
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
	here       *place.Here
	started    time.Time
	began      clocks        // when it started
	paused     time.Duration // in pauses between cycles
	cycleBegan time.Duration // by the boot clock: start of the last cycle
	result     *result.Result
	cells      []*cell
	chains     []*session.Chain
	floors     []*result.Floor
	tried      map[condition][][]float64 // samples by block
	burns      bool                      // the baseline, a peer, slows itself down on request
	done       int                       // number of blocks that have run
	cycle      int                       // index of the current cycle, from 0
	steps      []*step                   // blocks and floors that cycles run
	profiling  []*step                   // run after all cycles
	pace       pace
}

func newRun(ctx context.Context, o Options) (*run, error) {
	if err := cmp.Or(session.CheckPlan(o.Plan), capture.Check(o.Profiling.Kinds...)); err != nil {
		return nil, err
	}
	if len(o.Builds) > 0 {
		o.Plan.Baseline = result.Base
	}
	// Each run gets a new order, so that effects of one block on the next average out
	// over repeated runs. The seed fits into a float64 exactly, because many JSON readers
	// have only floats.
	o.Plan.OrderSeed = cmp.Or(o.Plan.OrderSeed, 1+uint64(rand.Uint32()))
	r := &run{
		Options: o, started: time.Now(), began: now(),
		tried: map[condition][][]float64{},
		result: &result.Result{
			Schema: result.Schema, Command: o.Command, Questions: o.Questions, Plan: o.Plan, Environment: machine.Read(),
			Skipped: o.Skipped, Doctor: doctor.Only(o.Doctor, doctor.Warn, doctor.Fail),
		},
	}
	r.result.Started = r.started.UTC()
	if err := r.describeLinks(); err != nil {
		return nil, err
	}
	r.result.Environment.Listen = o.Described()
	hosts, err := o.Hosts()
	if err != nil {
		return nil, err
	}
	r.result.Hosts = hosts.Results(r.result.Environment)
	for _, s := range withControls(o.Cells, o.Control) {
		if err := hosts.Check(s); err != nil {
			return nil, err
		}
	}
	if r.here, err = place.New(o.Plan, o.Host); err != nil {
		return nil, err
	}
	r.here.Listening, r.here.Hosts, r.here.Python = o.Listening, hosts, o.Python
	if err := r.enlist(ctx); err != nil {
		return nil, err
	}
	r.addCanaries()
	r.planFloors()
	if err := r.resume(o.Resume); err != nil {
		return nil, err
	}
	return r, r.checkResult()
}

// checkResult checks the parts of the result that are known before measuring, so that no
// run ends with a result that cannot be written. Text from the machine and the command
// line is made printable.
func (r *run) checkResult() error {
	result.MakePrintable(r.result)
	err := r.result.ValidateHead()
	for _, c := range r.cells {
		err = errors.Join(err, result.Check(&c.result))
	}
	if err != nil {
		return fmt.Errorf("bench: the result could not be written: %w", err)
	}
	return nil
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
