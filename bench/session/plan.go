package session

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/trainer"
)

// Values of Plan.Verify.
const (
	VerifyLast   = "last"   // proves the last round
	VerifySample = "sample" // proves the second round, every eighth and the last
	VerifyAll    = "all"    // proves every second round
)

// BlockPlan returns the plan of one block of s, by the plan of the whole cell and adapted to the
// link. The plan of a block is its own.
func (s Spec) BlockPlan(p result.Plan) result.Plan {
	over := s.overLink()
	if over > slowRound {
		p.Warmup, p.Settle, p.Starts = 0, 0, 0
	}
	if p.RoundLimit == 0 && over > 10*time.Second { // a single write may take as long as the round
		p.RoundLimit = time.Minute + 10*over
	}
	if p.Rounds > 0 {
		p.Rounds, p.Least, p.Time, p.WarmTime = (p.Rounds+p.Blocks-1)/p.Blocks, 0, 0, 0
	} else {
		p.Least, p.Time = leastOf(p), p.Time/time.Duration(p.Blocks)
	}
	p.Blocks = 1
	return p
}

// leastOf returns the minimum number of timed rounds per block, however long they take.
func leastOf(p result.Plan) int { return cmp.Or(p.Least, 4) }

// Further warm-up rounds of a block: at most mostStart, or mostSlowStart if the rounds of the cell are longer than
// slowStart. Heaps are collected, and their memory is faulted in again, every few rounds, so that timed rounds at
// fixed positions would see always the same part of such a period.
const (
	mostStart     = 7
	mostSlowStart = 3
	slowStart     = 300 * time.Millisecond
)

// A Go heap faults its memory in until it has its final size: the first ten rounds of gRPC with generated code take up
// to 2.5 times as long as later ones if each has one update of 66 MB, and none does if each has eight. So what counts
// is the number of updates, and settleUpdates of them are not timed. Long rounds have fewer, so that warming up takes
// at most settleTime. unknownRate is the rate, in bytes per second, by which the first block of a cell estimates a round.
const (
	settleUpdates = 12
	settleTime    = 10 * time.Second
	unknownRate   = 200e6
)

// Warmup returns the number of warm-up rounds of the block of s in that cycle, after its first two rounds: those in
// which heaps reach their size, and others that are drawn at random. It is the same for all programs that run s. round is
// the duration of the rounds of an earlier block, or 0 if there is none.
func (s Spec) Warmup(p result.Plan, cycle int, round time.Duration) int {
	p = s.BlockPlan(p)
	most := p.Starts
	if round == 0 || round > slowStart {
		most = min(most, mostSlowStart)
	}
	if round == 0 {
		round = time.Duration(float64(s.Clients*(s.Model.Layout.Payload()+s.Update().Layout.Payload())) / unknownRate * float64(time.Second))
	}
	settle := min((p.Settle*s.Workers+s.Clients-1)/s.Clients, int(settleTime/max(round, 1)))
	id := fnv.New64a()
	_, _ = io.WriteString(id, s.String())
	return max(p.Warmup, settle) + rand.New(rand.NewPCG(p.OrderSeed+uint64(cycle), id.Sum64())).IntN(most+1)
}

// samplesPerJob is the minimum number of spans that one job leaves in a process. It sizes
// the recorders, which must hold a few rounds.
const samplesPerJob = 16

// longest is the longest duration that a plan may have; result files accept no longer
// one.
const longest = 30 * 24 * time.Hour

// CheckPlan returns an error for the first setting of a plan that a user got wrong. It names the flag.
func CheckPlan(p result.Plan) error {
	if err := result.CheckFlags(p); err != nil {
		return err
	}
	switch {
	case p.ServerCPUs > 0 && p.ServerCPUs >= runtime.NumCPU():
		return fmt.Errorf("--server-cpus must be less than %d, the number of processors, not %d",
			runtime.NumCPU(), p.ServerCPUs)
	case p.Time <= 0 || p.Time > longest:
		return fmt.Errorf("--time must be positive and at most %v, not %v", longest, p.Time)
	case p.RoundLimit != 0 && (p.RoundLimit < trainer.LeastRoundLimit || p.RoundLimit > longest):
		return fmt.Errorf("--round-limit must be from %v to %v, or 0, not %v",
			trainer.LeastRoundLimit, longest, p.RoundLimit)
	case p.Verify != VerifySample && p.Verify != VerifyAll && p.Verify != VerifyLast:
		return fmt.Errorf("--verify must be last, sample or all, not %q", p.Verify)
	}
	return nil
}

// Modes of a run, which trade time for precision.
const (
	Quick    = "quick"
	Default  = "default"
	Thorough = "thorough"
)

// DefaultPlan returns the plan of a mode: Quick, Default or Thorough. All defaults are
// here.
//
// Six blocks are the fewest whose medians give a 95 % interval without assuming a
// distribution: the chance that the true median is outside all six is 2/2^6. Quick runs
// exactly six.
//
// Ten blocks against ten show a difference of 1.5 times the variation between blocks. If
// no two of their blocks overlap, they reach 5 % among thousands of comparisons. Six
// against six cannot among more than 23.
func DefaultPlan(mode string) (result.Plan, error) {
	p := result.Plan{
		Mode: mode, Rules: exchange.Rules, Seed: 1, Blocks: 10, Least: 4, Warmup: 2, Settle: settleUpdates, Starts: mostStart, WarmTime: 50 * time.Millisecond,
		Time: 6 * time.Second, Precision: 0.05, Verify: VerifySample, Samples: 1 << 17,
	}
	switch mode {
	case Quick:
		p.Blocks, p.Least, p.Warmup, p.Settle, p.Starts, p.Time, p.Precision = stat.Blocks, 1, 0, 0, 0, 360*time.Millisecond, 0
		p.Verify = VerifyLast
	case Default:
	case Thorough:
		p.Blocks, p.Warmup, p.Time, p.Precision = 12, 3, 30*time.Second, 0.02
	default:
		return p, fmt.Errorf("mode must be quick, default or thorough, not %q", mode)
	}
	return p, nil
}
