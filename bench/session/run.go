package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/crash"
	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// emptyCalls is the number of empty calls measured per block, if the transport makes
// calls.
const emptyCalls = 100

// proofEvery is the interval between proved rounds: every eighth round is proved.
const proofEvery = 8

// A Run measures one block of a cell. Its caller sets the exported fields of the first group, and
// [Run.Do], with this process as the server, fills in the second. A run may be done once.
type Run struct {
	Spec      Spec
	Plan      result.Plan        // of the whole cell; [Run.Do] replaces it by [Spec.BlockPlan]
	Chain     *Chain             // nil if this process compares no hashes: for another build, or a user's worker function
	Slow      time.Duration      // extra CPU time per training, in a canary
	Listening Listening          // where and how the server listens over TCP
	Hosts     []Host             // host of each worker process; nil without agents
	Roster    []trainer.Client   // nil means the standard clients
	Profiling *trainer.Profiling // nil unless the block is profiled
	OnRound   func()             // called after each round, and each that extends the chain; may be nil

	Block    *result.Block     // made by the caller
	Hashes   []exchange.Hash   // hash of the model after each round
	Running  [][]exchange.Hash // by round, hashes after each tensor of the model; only from peers that report them
	Pings    []int64           // duration of each empty call, ns
	Report   trainer.Report    // totals of all rounds, complete at the end
	Software map[string]string // versions by name, reported by Python workers

	config  trainer.Config
	session *trainer.Session // with --respawn, nil between rounds
	fresh   *fresh           // state between rounds with --respawn; else nil
	fold    *trainer.Fold
	model   *tensor.Package // current model
	trained *tensor.Package // model of this round as clients receive it, which a lossy codec changes
	proof   *proof          // for lossy codecs; nil if updates arrive unchanged
	windows []window        // timed rounds
	open    trainer.Window

	stalePeak bool // the kernel could not reset this process's peak memory, so it may include earlier blocks
}

// A Host is the host of a worker process. The zero value is the server's host.
type Host struct {
	Name       string
	OtherClock bool // its clock is not the server's
}

// window is the time of one timed round, by the clock of package phase.
type window struct {
	round      int
	start, end int64
}

func (w window) took() time.Duration { return time.Duration(w.end - w.start) }

type prover func(c trainer.Client, update *tensor.Package) error

// Do runs one session of fresh processes. It ends at once if ctx is done, and after the
// current round if quit is done.
func (s *Run) Do(ctx, quit context.Context, l trainer.Launcher) error {
	if err := s.start(ctx, l); err != nil {
		return err
	}
	// Models and updates may be mapped files, whose loss is a fault.
	return s.finish(crash.Guard(func() error { return s.rounds(ctx, quit) }))
}

// start starts server and workers and writes the first model. With --respawn, workers
// start later.
func (s *Run) start(ctx context.Context, l trainer.Launcher) error {
	s.Plan = s.Spec.BlockPlan(s.Plan)
	s.Block.SpanCost = spanCost()
	fn, config, err := s.function()
	if err != nil {
		return err
	}
	// Memory left by earlier blocks must not count for this one. A sync.Pool needs two
	// collections; FreeOSMemory is the second.
	runtime.GC()
	debug.FreeOSMemory()
	s.stalePeak = usage.ResetPeak() != nil
	s.config = trainer.Config{
		Variant: s.Spec.Variant, Down: s.Spec.Model.Layout, Up: s.Spec.Update().Layout,
		Workers: s.Spec.Workers, PerProcess: s.Spec.PerProcess, Clients: s.Spec.Clients, Depth: s.Spec.Depth,
		Func: fn, FuncConfig: config, UserCode: s.Spec.Train != "", Launcher: l, Samples: s.samples(), Pings: emptyCalls,
		Profiling: s.Profiling, RoundLimit: s.Plan.RoundLimit, Pages: s.Spec.Pages,
		Host: s.Listening.host(), Ports: s.Listening.Ports, Insecure: s.Listening.Insecure, Files: s.Listening.Files,
	}
	if s.Spec.Linked() {
		s.config.Host, s.config.Via = s.Spec.Link.Addresses()
		s.config.Insecure = true // no other host reaches the namespace
		if s.Spec.Link.Impaired() {
			s.config.Pings /= 10 // each takes at least twice the delay
		}
	}
	if s.Roster == nil {
		s.Roster = trainer.Roster(s.Spec.Clients)
	}
	s.fold = s.Spec.fold()
	if s.Spec.Respawns() {
		s.config.Pings = 0 // cells without --respawn measure the same floor
		alloc := func() *tensor.Package { return tensor.AllocIn(s.Spec.Model.Layout, s.Spec.Pages) }
		s.model, s.fresh = alloc(), &fresh{spare: alloc()}
		return s.initModel()
	}
	if s.session, err = trainer.Open(ctx, s.config); err != nil {
		return err
	}
	s.Block.Spawn, s.Block.TLS, s.Pings = s.session.Spawned(), handshakes(s.session), s.session.Pings()
	if s.model, err = s.session.Reserve(0); err == nil {
		err = crash.Guard(s.initModel)
	}
	if err != nil {
		_, closeErr := s.session.Close()
		return errors.Join(err, closeErr)
	}
	return nil
}

func (s *Run) function() (name string, config []byte, err error) {
	if s.Spec.Train != "" {
		return trainFunc, []byte(s.Spec.Train), nil
	}
	stock := stockConfig{Seed: s.Plan.Seed, TrainMS: s.Spec.TrainMS, Burn: s.Slow, Change: s.Spec.Change}
	if s.Spec.Nested {
		config, err = newNestedConfig(stock, s.Spec.Update().Layout)
		return nestedFunc, config, err
	}
	config, err = json.Marshal(stock)
	return stockFunc, config, err
}

// finish closes the session and, if err is nil, fills the block. It returns err, joined
// with the error of closing.
func (s *Run) finish(err error) error {
	if s.fresh == nil {
		var closeErr error
		s.Report, closeErr = s.session.Close()
		err = errors.Join(err, closeErr)
	}
	switch {
	case err != nil:
		return err
	case s.fresh != nil && len(s.windows) == 0:
		return nil
	case s.fresh != nil:
		s.Block.Spawn = time.Duration(stat.Median(Seconds(s.fresh.spawns)) * float64(time.Second))
	}
	return s.account(s.Report)
}

func (s *Run) rounds(ctx, quit context.Context) error {
	system, systemErr := usage.ReadSystem()
	first, err := s.runIn(ctx, trainer.Cold, 0, nil) // its usage is reported separately
	if err != nil {
		return err
	}
	s.Block.Cold.Round = first.end - first.start
	round := 1
	second, err := s.second(ctx)
	if err != nil {
		return err
	}
	// A session settles (its heaps, and the placement of its processes) after some time
	// rather than some rounds. Rounds of cnn get faster for about 40 ms; rounds of a 66
	// MB model do not after the first two.
	warm := first.took() + second.took()
	for n := 0; quit.Err() == nil && (n < s.Plan.Warmup || warm < s.Plan.WarmTime && n < exchange.MostWarm); n++ {
		round++
		w, err := s.runIn(ctx, trainer.Outside, round, nil)
		if err != nil {
			return err
		}
		warm += w.took()
	}
	var spent time.Duration
	for quit.Err() == nil && !s.enough(spent) {
		round++
		if s.proves(round) {
			if _, err := s.proved(ctx, round); err != nil {
				return err
			}
			continue
		}
		w, err := s.runIn(ctx, trainer.Timed, round, nil)
		if err != nil {
			return err
		}
		s.windows = append(s.windows, w)
		spent += w.took()
	}
	if err := s.enter(ctx, trainer.Outside, round+1); err != nil {
		return err
	}
	if now, err := usage.ReadSystem(); err == nil && systemErr == nil {
		spent := now.Since(system)
		s.Block.System = &spent
	}
	if len(s.windows) == 0 {
		return nil // interrupted before the first timed round
	}
	_, err = s.proved(ctx, round+1)
	return err
}

// proves reports whether the round is proved instead of timed. Profiled blocks skip
// proofs, because each proof would add 0.2 s to the profile.
func (s *Run) proves(round int) bool {
	if s.Profiling != nil {
		return false
	}
	return s.Plan.Verify != VerifyLast && round%proofEvery == 0 || s.Plan.Verify == VerifyAll && round%2 == 0
}

// second runs round 1, which only a plan of a first answer does not prove: its last round sees memory that was
// used before, and the hashes of all models are compared.
func (s *Run) second(ctx context.Context) (window, error) {
	if s.Plan.Verify == VerifyLast {
		return s.runIn(ctx, trainer.Outside, 1, nil)
	}
	return s.proved(ctx, 1)
}

// enough reports whether the block has all timed rounds that it needs, or as many as its
// recorders can hold.
func (s *Run) enough(spent time.Duration) bool {
	n, plan := len(s.windows), s.Plan
	switch {
	case n > 0 && s.session != nil && s.session.Full(): // the recorders may be too full for another round
		return true
	case plan.Rounds > 0:
		return n >= plan.Rounds
	}
	return n >= leastRounds(plan.Least, n, spent) && spent >= plan.Time || n >= exchange.MostTimed && s.Profiling == nil
}

// leastRounds returns the least number of timed rounds of a block, after n of them: one if they are long.
func leastRounds(least, n int, spent time.Duration) int {
	if n > 0 && spent > time.Duration(n)*longRound {
		return 1
	}
	return least
}

const longRound = 5 * time.Second

// samples returns the number of spans that a process's recorder must hold: the plan's
// number, or enough for the minimum of timed rounds if that is more.
func (s *Run) samples() int {
	perClient := samplesPerJob + s.Spec.tensors() // a transport may time each tensor, on the downlink and the uplink
	return max(s.Plan.Samples, 2*(leastOf(s.Plan)+1)*s.Spec.Clients*perClient)
}

// enter moves all processes to window w, unless it is open. round is the number of the
// next round.
func (s *Run) enter(ctx context.Context, w trainer.Window, round int) error {
	if s.open == w {
		return nil
	}
	s.open = w
	if s.session == nil {
		return nil // with --respawn, the next round's session starts in this window
	}
	return s.session.Enter(ctx, w, round)
}

// runIn runs round n in window w and appends the new model's hash. Hashes are compared after
// the block, once the reference chain is long enough: see [Run.Compare].
func (s *Run) runIn(ctx context.Context, w trainer.Window, n int, prove prover) (window, error) {
	if err := s.enter(ctx, w, n); err != nil {
		return window{}, err
	}
	if w == trainer.Timed && s.session != nil {
		if err := s.session.Resume(); err != nil {
			return window{}, err
		}
	}
	took, err := s.round(ctx, n, w == trainer.Timed, prove)
	if err == nil {
		err = s.leave(ctx, n+1)
	}
	if err != nil {
		return took, err
	}
	s.check()
	if s.OnRound != nil {
		s.OnRound()
	}
	return took, nil
}

// check appends the hash of the current model. Profiles recognize this function by its
// name, as work between rounds.
func (s *Run) check() { s.Hashes = append(s.Hashes, exchange.Hash(s.model.Hash())) }

// leave ends the measurement after a round, so that the server's work between rounds
// counts for neither round. Workers are idle then, except spinning ones, whose CPU time
// must not count: for them the window is closed.
func (s *Run) leave(ctx context.Context, next int) error {
	switch {
	case s.open == trainer.Cold || s.Spec.Variant.Traits().Spins && s.Profiling == nil:
		return s.enter(ctx, trainer.Outside, next)
	case s.open == trainer.Timed && s.session != nil:
		return s.session.Pause()
	}
	return nil
}

// proved runs a round in which every element of every update is checked.
func (s *Run) proved(ctx context.Context, n int) (window, error) {
	w, err := s.runIn(ctx, trainer.Outside, n, func(c trainer.Client, update *tensor.Package) error {
		s.Block.Proof.Updates++
		if s.Spec.Train != "" { // round has added proveSent instead
			return nil
		}
		return s.prove(update, tensor.Key{Seed: s.Plan.Seed, Round: n, Client: c.ID, Change: s.Spec.Change})
	})
	if err == nil {
		s.Block.Proof.Rounds++
	}
	return w, err
}

// Compare compares the models of all rounds with the reference chain, if there is one, extending
// it if needed. It returns an error for the first wrong model, and names the first wrong tensor if
// Running has hashes. It skips a block that was interrupted before its first timed round.
func (s *Run) Compare(ctx context.Context) error {
	if len(s.Block.Round) == 0 || s.Chain == nil {
		return nil
	}
	if err := s.Chain.extend(ctx, len(s.Hashes), s.OnRound); err != nil {
		return fmt.Errorf("compare with the reference chain: %w", err)
	}
	for n, got := range s.Hashes {
		want := s.Chain.hashes[n]
		if uint64(got) == want {
			continue
		}
		where := fmt.Sprintf("round %d", n)
		if s.Running != nil {
			tensor, err := s.Chain.wrong(ctx, n, s.Running[n])
			if err != nil {
				return err
			}
			where += tensor
		}
		return fmt.Errorf("%s: the new model's hash is %016x, the reference chain has %016x: %s delivered wrong data",
			where, got, want, s.Spec.Variant)
	}
	s.Block.Proof.Hashed = len(s.Hashes)
	return nil
}

// round runs one round and makes its result the current model.
func (s *Run) round(ctx context.Context, n int, timed bool, prove prover) (window, error) {
	if s.Spec.Train != "" && s.open == trainer.Outside {
		prove = s.proveSent(ctx, n, prove)
	}
	if s.fresh != nil {
		return s.respawned(ctx, n, timed, prove)
	}
	w := window{round: n, start: phase.Now()}
	if err := s.publish(ctx, n, s.model, prove != nil); err != nil {
		return w, err
	}
	next, err := s.session.Reserve(n)
	if err != nil {
		return w, err
	}
	err = s.exchange(ctx, n, timed, next, prove)
	w.end = phase.Now()
	s.model = next
	return w, err
}

// exchange has all clients train the published model, and folds their updates into next.
func (s *Run) exchange(ctx context.Context, n int, timed bool, next *tensor.Package, prove prover) error {
	if s.Spec.Nested {
		prove = s.reconstructed(n, prove)
	}
	r := trainer.Round{Number: n, Clients: s.Roster, Timed: timed}
	return s.session.Fold(ctx, r, s.fold, next, s.trained, prove)
}

// Grace is how long an interrupted run waits for the current round before it aborts the
// round.
const Grace = 2 * time.Second

// Bounded returns a context that ends grace after quit does, so that the current round
// may finish.
func Bounded(quit context.Context, grace time.Duration) (now context.Context, cancel func()) {
	now, end := context.WithCancelCause(context.WithoutCancel(quit))
	stop := context.AfterFunc(quit, func() {
		time.AfterFunc(grace, func() { end(context.Cause(quit)) })
	})
	return now, func() {
		stop()
		end(nil)
	}
}
