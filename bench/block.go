package bench

import (
	"cmp"
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

// emptyCalls of a block, if its transport makes calls.
const emptyCalls = 100

// proofEvery is how many rounds lie between two that are proved.
const proofEvery = 8

// blockRun is a block in progress.
type blockRun struct {
	cell    Spec
	plan    Plan
	chain   *chain           // nil if another build asks for the block, and compares, or there is none: see sent
	slow    time.Duration    // CPU time that every training burns besides: a canary
	config  trainer.Config   // before the start, where the server listens over TCP, and to whom
	hosts   []seat           // of its processes, by number, of a run with agents
	session *trainer.Session // nil between rounds that have their own
	fresh   *fresh           // nil if one session serves all rounds
	roster  []trainer.Client // nil for the usual ones
	fold    *trainer.Fold
	model   *tensor.Package // the current one
	trained *tensor.Package // what clients of the round have of it
	proof   *proof          // nil if updates arrive as clients have made them
	block   *Block
	hashes  []exchange.Hash   // of the models that the rounds have made
	running [][]exchange.Hash // of each of them after each of its tensors, of a peer that says them
	windows []window          // of the timed rounds
	open    trainer.Window
	pings   []int64 // what empty calls took, ns

	onRound func()
	onChain func(round int) // while the reference chain is made longer

	profiling *trainer.Profiling // nil unless the block is profiled
	report    trainer.Report     // of all rounds, at the end
	software  map[string]string  // of workers in Python
	stalePeak bool               // of this process: what ran before may have been larger
}

// window is when a timed round was, on the clock of package phase.
type window struct {
	round      int
	start, end int64
}

func (w window) took() time.Duration { return time.Duration(w.end - w.start) }

// A prover checks an update that a client has sent in a round.
type prover func(c trainer.Client, update *tensor.Package) error

// run runs one session of fresh processes. ctx ends it at once; quit asks it to
// end after the round in hand.
func (s *blockRun) run(ctx, quit context.Context, l trainer.Launcher) error {
	if err := s.start(ctx, l); err != nil {
		return err
	}
	return s.finish(crash.Guard(func() error { return s.rounds(ctx, quit) })) // models and updates may be mapped files
}

// start starts server and workers and makes the first model.
func (s *blockRun) start(ctx context.Context, l trainer.Launcher) error {
	fn, config, err := s.function()
	if err != nil {
		return err
	}
	// What blocks before have left is no part of this one's memory. What lay in a
	// sync.Pool takes two collections.
	runtime.GC()
	debug.FreeOSMemory()
	s.stalePeak = usage.ResetPeak() != nil
	s.config = trainer.Config{
		Variant: s.cell.Variant, Down: s.cell.Model.Layout, Up: s.cell.up().Layout,
		Workers: s.cell.Workers, PerProcess: s.cell.PerProcess, Clients: s.cell.Clients, Depth: s.cell.Depth,
		Func: fn, FuncConfig: config, Foreign: s.cell.Train != "", Launcher: l, Samples: s.samples(), Pings: emptyCalls,
		Profiling: s.profiling, RoundLimit: s.plan.RoundLimit,
		Host: cmp.Or(s.cell.host(), s.config.Host), Ports: s.config.Ports, Insecure: s.config.Insecure, Files: s.config.Files,
	}
	if s.roster == nil {
		s.roster = trainer.Roster(s.cell.Clients)
	}
	s.fold = s.cell.fold()
	if s.cell.respawns() {
		s.config.Pings = 0 // its floor comes from the same cells without --respawn
		s.model, s.fresh = tensor.Alloc(s.cell.Model.Layout), &fresh{spare: tensor.Alloc(s.cell.Model.Layout)}
		return s.first()
	}
	if s.session, err = trainer.Open(ctx, s.config); err != nil {
		return err
	}
	s.block.Spawn, s.block.TLS, s.pings = s.session.Spawned(), handshakes(s.session), s.session.Pings()
	if s.model, err = s.session.Reserve(0); err == nil {
		err = crash.Guard(s.first)
	}
	if err != nil {
		_, closeErr := s.session.Close()
		return errors.Join(err, closeErr)
	}
	return nil
}

// function returns the name of the worker function, and its configuration.
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

// finish stops everything and, unless err says that the rounds have failed,
// fills the block.
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

// rounds runs the rounds of a block.
func (s *blockRun) rounds(ctx, quit context.Context) error {
	system, systemErr := usage.ReadSystem()
	plan := ofBlock(s.plan)
	first, err := s.in(ctx, trainer.Cold, 0, nil) // its costs are its own
	if err != nil {
		return err
	}
	s.block.Cold.Round = first.end - first.start
	round := 1
	second, err := s.proved(ctx, round)
	if err != nil {
		return err
	}
	// What a session needs to settle, its heaps and where its processes run, is a
	// matter of time: cnn's rounds get faster for some 40 ms, and those of 66 MB do
	// not after the first two.
	warm := first.took() + second.took()
	for n := 0; quit.Err() == nil && (n < plan.Warmup || warm < plan.WarmTime && n < exchange.MostWarm); n++ {
		round++
		w, err := s.in(ctx, trainer.Outside, round, nil)
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
		w, err := s.in(ctx, trainer.Timed, round, nil)
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

// proves reports whether the round is proved and not timed. A profile is not
// interrupted for that: a fifth of a second would go by each time.
func (s *blockRun) proves(round int) bool {
	if s.profiling != nil {
		return false
	}
	return round%proofEvery == 0 || s.plan.Verify == VerifyAll && round%2 == 0
}

// enough reports whether the block has all timed rounds that it needs, or all
// that the recorders have room for.
func (s *blockRun) enough(plan Plan, spent time.Duration) bool {
	n := len(s.windows)
	switch {
	case n > 0 && s.session != nil && s.session.Full(): // another round may find no room in the recorders
		return true
	case plan.Rounds > 0:
		return n >= plan.Rounds
	}
	return n >= plan.Least && spent >= plan.Time || n >= exchange.MostTimed && s.profiling == nil
}

// samples returns for how many spans a process needs room: what the plan says,
// and enough for the fewest timed rounds of many clients with many tensors.
func (s *blockRun) samples() int {
	perClient := samplesPerJob + s.cell.tensors() // a transport may time every tensor's coming and going
	return max(s.plan.Samples, 2*(leastOf(s.plan)+1)*s.cell.Clients*perClient)
}

// enter moves all processes to another window, unless they are there. round is the
// next one.
func (s *blockRun) enter(ctx context.Context, w trainer.Window, round int) error {
	if s.open == w {
		return nil
	}
	s.open = w
	if s.session == nil {
		return nil // the next round's session begins in it
	}
	return s.session.Enter(ctx, w, round)
}

// in runs a round in a window, and keeps the hash of the model that it makes. What that
// must be is known when the chain is that long: see [blockRun.compare].
func (s *blockRun) in(ctx context.Context, w trainer.Window, n int, prove prover) (window, error) {
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

// check hashes the model that a round has made. Profiles know it by its name: it is
// between rounds.
func (s *blockRun) check() { s.hashes = append(s.hashes, exchange.Hash(s.model.Hash())) }

// leave ends a round that is measured: what the server does until the next one is no part
// of either. Workers are idle meanwhile, unless they wait by spinning, which would be
// counted.
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
	w, err := s.in(ctx, trainer.Outside, n, func(c trainer.Client, update *tensor.Package) error {
		s.block.Proof.Updates++
		if s.cell.Train != "" { // see round
			return nil
		}
		return s.prove(update, tensor.Key{Seed: s.plan.Seed, Round: n, Client: c.ID, Change: s.cell.Change})
	})
	if err == nil {
		s.block.Proof.Rounds++
	}
	return w, err
}

// compare compares the models of all rounds with the chain, which it makes longer
// if it must. A block that was interrupted before its first timed round does not
// count.
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

// round runs one round and makes the model that it yields current.
func (s *blockRun) round(ctx context.Context, n int, timed bool, prove prover) (window, error) {
	if s.cell.Train != "" && s.open == trainer.Outside {
		prove = s.sent(ctx, n, prove)
	}
	if s.fresh != nil {
		return s.respawned(ctx, n, timed, prove)
	}
	w := window{round: n, start: phase.Now()}
	err := s.detach(n, s.model)
	if err != nil {
		return w, err
	}
	if s.trained, err = s.session.Publish(ctx, n, s.model); err != nil {
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

// exchange has all clients train the model that was published, and folds their
// updates into next.
func (s *blockRun) exchange(ctx context.Context, n int, timed bool, next *tensor.Package, prove prover) error {
	if s.cell.Nested {
		prove = s.reconstructed(n, prove)
	}
	r := trainer.Round{Number: n, Clients: s.roster, Timed: timed}
	return s.session.Fold(ctx, r, s.fold, next, s.trained, prove)
}
