package bench

import (
	"fmt"
	"math"
	"time"

	"ipcbench/trainer"
)

// A number is one that a user chooses and that a result holds. Both are checked
// against the same limits: what a run accepts can be written and read again.
type number struct {
	flag, field        string
	value, least, most int64
}

// The limits of a plan and of a cell. They keep all sums and products that are
// made of the numbers within an int64.
const (
	maxBlocks  = 10_000
	maxRounds  = 100_000
	maxWarmup  = 10_000
	maxTrainMS = int64(time.Hour / time.Millisecond)
	maxSamples = 1 << 28
	maxClients = 100_000 // a round's samples have to fit into memory
	maxDepth   = 1 << 10
	maxTensors = 1 << 20

	maxPrecision = 100.0 // a share: ±10,000 %
	maxSlowdown  = 100.0
)

func (p Plan) numbers() []number {
	return []number{
		{"--blocks", "blocks", int64(p.Blocks), 1, maxBlocks},
		{"--rounds", "rounds", int64(p.Rounds), 0, maxRounds}, // 0 is to go by --time
		{"timed rounds of a block at least:", "least_rounds", int64(p.Least), 0, maxRounds},
		{"--warmup", "warmup", int64(p.Warmup), 0, maxWarmup},
		{"room for spans:", "span_room", int64(p.Samples), 1, maxSamples},
	}
}

func (s Spec) numbers() []number {
	return Cell{
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Depth: s.Depth,
		Model: s.moved(), TrainMS: s.TrainMS,
	}.numbers()
}

func (c Cell) numbers() []number {
	return []number{
		{"--workers", "workers", int64(c.Workers), 1, trainer.MaxWorkers},
		{"--clients", "clients", int64(c.Clients), 1, maxClients},
		{"--lanes-per-process", "lanes_per_process", int64(c.PerProcess), 1, trainer.MaxWorkers},
		{"--depth", "depth", int64(c.Depth), 1, maxDepth},
		{"--train-ms", "train_ms", int64(c.TrainMS), 0, maxTrainMS},
		{"--model: number of tensors:", "model_tensors", int64(c.Model.Tensors), 0, maxTensors},
		{"--model: bytes:", "model_bytes", c.Model.Bytes, 0, maxCount / int64(max(1, c.Clients))},
		{"--up: number of tensors:", "up_tensors", int64(c.Model.UpTensors), 0, maxTensors},
		{"--up: bytes:", "up_bytes", c.Model.UpBytes, 0, maxCount / int64(max(1, c.Clients))},
	}
}

// asked checks a number by the name of its flag.
func (n number) asked() error {
	switch {
	case n.value < n.least:
		return fmt.Errorf("%s %d: want at least %d", n.flag, n.value, n.least)
	case n.value > n.most:
		return fmt.Errorf("%s %d: want at most %d", n.flag, n.value, n.most)
	}
	return nil
}

// read checks a number by the name of its field in a result.
func (n number) read() error {
	if n.value < n.least || n.value > n.most {
		return field(n.field, "%d: want a number from %d to %d", n.value, n.least, n.most)
	}
	return nil
}

// Validate checks what a user can choose.
func (p Plan) Validate() error {
	for _, n := range p.numbers() {
		if err := n.asked(); err != nil {
			return err
		}
	}
	switch {
	case p.Time <= 0:
		return fmt.Errorf("--time %v: want a positive duration", p.Time)
	case int64(p.Time) > maxDuration:
		return fmt.Errorf("--time %v: want at most %v", p.Time, time.Duration(maxDuration))
	case p.RoundLimit != 0 && p.RoundLimit < trainer.LeastRoundLimit:
		return fmt.Errorf("--round-limit %v: want at least %v, or 0", p.RoundLimit, trainer.LeastRoundLimit)
	case int64(p.RoundLimit) > maxDuration:
		return fmt.Errorf("--round-limit %v: want at most %v", p.RoundLimit, time.Duration(maxDuration))
	case !(p.Precision >= 0):
		return fmt.Errorf("--precision %v: want a positive number", p.Precision)
	case p.Precision > maxPrecision:
		return fmt.Errorf("--precision %v: want at most %v", p.Precision, maxPrecision)
	case p.Verify != VerifySample && p.Verify != VerifyAll:
		return fmt.Errorf("--verify %q: want sample or all", p.Verify)
	}
	return nil
}

// read checks a plan of a result by the names of its fields.
func (p Plan) read() error {
	for _, n := range p.numbers() {
		if err := n.read(); err != nil {
			return err
		}
	}
	if err := amounts(p); err != nil {
		return err
	}
	return share("precision", p.Precision, maxPrecision)
}

func share(name string, x, most float64) error {
	if !(x >= 0 && x <= most) || math.IsInf(x, 0) {
		return field(name, "%v: want a number from 0 to %v", x, most)
	}
	return nil
}

// validate checks what a user can choose of a cell.
func (s Spec) validate() error {
	for _, n := range s.numbers() {
		if err := n.asked(); err != nil {
			return err
		}
	}
	if err := named("--model", s.Model.Name); err != nil {
		return fmt.Errorf("%w: rename it", err)
	}
	if err := named("--up", s.up().Name); err != nil {
		return fmt.Errorf("%w: rename it", err)
	}
	if err := named("--transport", s.Variant.String()); err != nil {
		return fmt.Errorf("%w: choose another path", err)
	}
	return s.named().validateWorkload()
}
