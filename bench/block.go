package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"ipcbench/bench/exchange"
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

type blockRun struct {
	cell    Spec
	plan    Plan
	chain   *chain           // nil if another build, which ordered the block, compares its hashes, or for a user's worker function: see proveSent
	slow    time.Duration    // extra CPU time per training, in a canary
	config  trainer.Config   // before start, only where and how the server listens over TCP
	hosts   []workerHost     // host of each worker process; nil without agents
	session *trainer.Session // with --respawn, nil between rounds
	fresh   *fresh           // state between rounds with --respawn; else nil
	roster  []trainer.Client // nil means the standard clients
	fold    *trainer.Fold
	model   *tensor.Package // current model
	trained *tensor.Package // model of this round as clients receive it, which a lossy codec changes
	proof   *proof          // for lossy codecs; nil if updates arrive unchanged
	block   *Block
	hashes  []exchange.Hash   // hash of the model after each round
	running [][]exchange.Hash // by round, hashes after each tensor of the model; only from peers that report them
	windows []window          // timed rounds
	open    trainer.Window
	pings   []int64 // duration of each empty call, ns

	onRound func()
	onChain func(round int) // called after each round of extending the reference chain

	profiling *trainer.Profiling // nil unless the block is profiled
	report    trainer.Report     // totals of all rounds, complete at the end
	software  map[string]string  // versions by name, reported by Python workers
	stalePeak bool               // the kernel could not reset this process's peak memory, so it may include earlier blocks
}

// window is the time of one timed round, by the clock of package phase.
type window struct {
	round      int
	start, end int64
}

func (w window) took() time.Duration { return time.Duration(w.end - w.start) }

type prover func(c trainer.Client, update *tensor.Package) error

// run runs one session of fresh processes. It ends at once if ctx is done, and after the
// current round if quit is done.
func (s *blockRun) run(ctx, quit context.Context, l trainer.Launcher) error {
	if err := s.start(ctx, l); err != nil {
		return err
	}
	return s.finish(crash.Guard(func() error { return s.rounds(ctx, quit) })) // models and updates may be mapped files, whose loss is a fault
}

// start starts server and workers and writes the first model. With --respawn, workers
// start later.
func (s *blockRun) start(ctx context.Context, l trainer.Launcher) error {
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
		Variant: s.cell.Variant, Down: s.cell.Model.Layout, Up: s.cell.up().Layout,
		Workers: s.cell.Workers, PerProcess: s.cell.PerProcess, Clients: s.cell.Clients, Depth: s.cell.Depth,
		Func: fn, FuncConfig: config, UserCode: s.cell.Train != "", Launcher: l, Samples: s.samples(), Pings: emptyCalls,
		Profiling: s.profiling, RoundLimit: s.plan.RoundLimit,
		Host: s.config.Host, Ports: s.config.Ports, Insecure: s.config.Insecure, Files: s.config.Files,
	}
	if s.cell.linked() {
		s.config.Host, s.config.Via = s.cell.Link.Addresses()
		s.config.Insecure = true // no other host reaches the namespace
		if s.cell.Link.Impaired() {
			s.config.Pings /= 10 // each takes at least twice the delay
		}
	}
	if s.roster == nil {
		s.roster = trainer.Roster(s.cell.Clients)
	}
	s.fold = s.cell.fold()
	if s.cell.respawns() {
		s.config.Pings = 0 // cells without --respawn measure the same floor
		s.model, s.fresh = tensor.Alloc(s.cell.Model.Layout), &fresh{spare: tensor.Alloc(s.cell.Model.Layout)}
		return s.initModel()
	}
	if s.session, err = trainer.Open(ctx, s.config); err != nil {
		return err
	}
	s.block.Spawn, s.block.TLS, s.pings = s.session.Spawned(), handshakes(s.session), s.session.Pings()
	if s.model, err = s.session.Reserve(0); err == nil {
		err = crash.Guard(s.initModel)
	}
	if err != nil {
		_, closeErr := s.session.Close()
		return errors.Join(err, closeErr)
	}
	return nil
}

func (s *blockRun) function() (name string, config []byte, err error) {
	if s.cell.Train != "" {
		return trainFunc, []byte(s.cell.Train), nil
	}
	stock := stockConfig{Seed: s.plan.Seed, TrainMS: s.cell.TrainMS, Burn: s.slow, Change: s.cell.Change}
	if s.cell.Nested {
		config, err = newNestedConfig(stock, s.cell.up().Layout)
		return nestedFunc, config, err
	}
	config, err = json.Marshal(stock)
	return stockFunc, config, err
}

// finish closes the session and, if err is nil, fills the block. It returns err, joined
// with the error of closing.
func (s *blockRun) finish(err error) error {
	if s.fresh == nil {
		var closeErr error
		s.report, closeErr = s.session.Close()
		err = errors.Join(err, closeErr)
	}
	switch {
	case err != nil:
		return err
	case s.fresh != nil && len(s.windows) == 0:
		return nil
	case s.fresh != nil:
		s.block.Spawn = time.Duration(stat.Median(seconds(s.fresh.spawns)) * float64(time.Second))
	}
	return s.account(s.report)
}

func (s *blockRun) rounds(ctx, quit context.Context) error {
	system, systemErr := usage.ReadSystem()
	plan := ofBlock(s.plan)
	first, err := s.runIn(ctx, trainer.Cold, 0, nil) // its usage is reported separately
	if err != nil {
		return err
	}
	s.block.Cold.Round = first.end - first.start
	round := 1
	second, err := s.proved(ctx, round)
	if err != nil {
		return err
	}
	// A session settles (its heaps, and the placement of its processes) after some time
	// rather than some rounds. Rounds of cnn get faster for about 40 ms; rounds of a 66
	// MB model do not after the first two.
	warm := first.took() + second.took()
	for n := 0; quit.Err() == nil && (n < plan.Warmup || warm < plan.WarmTime && n < exchange.MostWarm); n++ {
		round++
		w, err := s.runIn(ctx, trainer.Outside, round, nil)
		if err != nil {
			return err
		}
		warm += w.took()
	}
	var spent time.Duration
	for quit.Err() == nil && !s.enough(plan, spent) {
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
		s.block.System = &spent
	}
	if len(s.windows) == 0 {
		return nil // interrupted before the first timed round
	}
	_, err = s.proved(ctx, round+1)
	return err
}

// proves reports whether the round is proved instead of timed. Profiled blocks skip
// proofs, because each proof would add 0.2 s to the profile.
func (s *blockRun) proves(round int) bool {
	if s.profiling != nil {
		return false
	}
	return round%proofEvery == 0 || s.plan.Verify == VerifyAll && round%2 == 0
}

// enough reports whether the block has all timed rounds that it needs, or as many as its
// recorders can hold.
func (s *blockRun) enough(plan Plan, spent time.Duration) bool {
	n := len(s.windows)
	switch {
	case n > 0 && s.session != nil && s.session.Full(): // the recorders may be too full for another round
		return true
	case plan.Rounds > 0:
		return n >= plan.Rounds
	}
	return n >= plan.Least && spent >= plan.Time || n >= exchange.MostTimed && s.profiling == nil
}

// samples returns the number of spans that a process's recorder must hold: the plan's
// number, or enough for the minimum of timed rounds if that is more.
func (s *blockRun) samples() int {
	perClient := samplesPerJob + s.cell.tensors() // a transport may time each tensor, on the downlink and the uplink
	return max(s.plan.Samples, 2*(leastOf(s.plan)+1)*s.cell.Clients*perClient)
}

// enter moves all processes to window w, unless it is open. round is the number of the
// next round.
func (s *blockRun) enter(ctx context.Context, w trainer.Window, round int) error {
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
// the block, once the reference chain is long enough: see [blockRun.compare].
func (s *blockRun) runIn(ctx context.Context, w trainer.Window, n int, prove prover) (window, error) {
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
	if s.onRound != nil {
		s.onRound()
	}
	return took, nil
}

// check appends the hash of the current model. Profiles recognize this function by its
// name, as work between rounds.
func (s *blockRun) check() { s.hashes = append(s.hashes, exchange.Hash(s.model.Hash())) }

// leave ends the measurement after a round, so that the server's work between rounds
// counts for neither round. Workers are idle then, except spinning ones, whose CPU time
// must not count: for them the window is closed.
func (s *blockRun) leave(ctx context.Context, next int) error {
	switch {
	case s.open == trainer.Cold || s.cell.Variant.Traits().Spins && s.profiling == nil:
		return s.enter(ctx, trainer.Outside, next)
	case s.open == trainer.Timed && s.session != nil:
		return s.session.Pause()
	}
	return nil
}

// proved runs a round in which every element of every update is checked.
func (s *blockRun) proved(ctx context.Context, n int) (window, error) {
	w, err := s.runIn(ctx, trainer.Outside, n, func(c trainer.Client, update *tensor.Package) error {
		s.block.Proof.Updates++
		if s.cell.Train != "" { // round has added proveSent instead
			return nil
		}
		return s.prove(update, tensor.Key{Seed: s.plan.Seed, Round: n, Client: c.ID, Change: s.cell.Change})
	})
	if err == nil {
		s.block.Proof.Rounds++
	}
	return w, err
}

// compare compares the models of all rounds with the reference chain, extending it if
// needed. It skips a block that was interrupted before its first timed round, and a
// user's worker function.
func (s *blockRun) compare(ctx context.Context) error {
	if len(s.block.Round) == 0 || s.cell.Train != "" {
		return nil
	}
	if err := s.chain.extend(ctx, len(s.hashes), ofBlock(s.plan).WarmTime, s.onChain); err != nil {
		return fmt.Errorf("compare with the reference chain: %w", err)
	}
	if err := s.chain.compare(ctx, s.hashes, s.running, s.cell.Variant); err != nil {
		return err
	}
	s.block.Proof.Hashed = len(s.hashes)
	return nil
}

// round runs one round and makes its result the current model.
func (s *blockRun) round(ctx context.Context, n int, timed bool, prove prover) (window, error) {
	if s.cell.Train != "" && s.open == trainer.Outside {
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
func (s *blockRun) exchange(ctx context.Context, n int, timed bool, next *tensor.Package, prove prover) error {
	if s.cell.Nested {
		prove = s.reconstructed(n, prove)
	}
	r := trainer.Round{Number: n, Clients: s.roster, Timed: timed}
	return s.session.Fold(ctx, r, s.fold, next, s.trained, prove)
}
