package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
)

// An Answer is what came of an order.
type Answer struct {
	Version     int                  `json:"version"`
	Rules       int                  `json:"rules"` // version of those by which the program measures a block
	Error       string               `json:"error,omitempty"`
	Environment *machine.Environment `json:"environment,omitempty"` // of a build that was asked for no block
	Refused     []string             `json:"refused,omitempty"`     // of the first order: why, for each cell; empty if it can be run
	Block       *result.Block        `json:"block,omitempty"`
	Pings       []int64              `json:"pings_ns,omitempty" check:"positive"` // durations of empty calls
	Software    map[string]string    `json:"software,omitempty"`                  // versions by name, of a peer
	Unproved    string               `json:"unproved,omitempty"`                  // why a peer has no hashes
	Running     [][]Hash             `json:"running,omitempty"`                   // of a peer: for each round, the hash after each tensor; the last is the model's
	Hashes      []Hash               `json:"hashes,omitempty"`                    // of the model after each round, untimed rounds included
}

// A Hash is that of a model, as 16 hex digits in JSON.
type Hash uint64

// MarshalText returns the digits.
func (h Hash) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText reads the digits.
func (h *Hash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || string(text) != fmt.Sprintf("%016x", n) {
		return fmt.Errorf("%.40q: must be 16 hex digits", text)
	}
	*h = Hash(n)
	return nil
}

// ParseAnswer reads what came from another process. Its texts are made printable, as they reach
// the terminal.
func ParseAnswer(text []byte) (*Answer, error) {
	a := new(Answer)
	err := decode(text, a)
	result.MakePrintable(a)
	if err == nil && a.Error != "" {
		return nil, errors.New(a.Error)
	}
	if err = cmp.Or(err, result.Check(a), result.Cell{Software: a.Software}.ValidateHead()); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	return a, nil
}

// A Question is what an answer with a block has to fit.
type Question struct {
	Block            *Block
	Clients, Tensors int  // of the cell's model
	Workers          int  // processes, of a peer
	Peer             bool // the program is no build of ipcbench
	Ended            bool // the block was asked to end early: it may have no timed round
}

// Check reports what a block of that order cannot have. A block that was ended early may
// have no timed rounds, and then nothing else of it is looked at.
func (a *Answer) Check(q Question) error {
	b := a.Block
	switch {
	case b == nil:
		return errors.New("the answer holds no block")
	case len(b.Round) == 0 && q.Ended:
		return nil
	case len(b.Round) == 0:
		return errors.New("block.round_ns: no round was timed")
	}
	if err := b.Validate(q.Clients); err != nil {
		return result.At("block", err)
	}
	if !b.OneClock() || b.Profiled || b.Timeline != nil {
		return errors.New("block: it has profiles, or processes that read another clock, which nobody asked for")
	}
	if n, want := len(b.RTT), len(b.Round)*q.Clients; n != want { // the asking build chooses what is kept of many clients
		return fmt.Errorf("block.rtt_ns: %d samples: must be %d", n, want)
	}
	if m := max(q.Block.Rounds, MostTimed); len(b.Round) > m {
		return fmt.Errorf("block.round_ns: %d timed rounds: a block has at most %d", len(b.Round), m)
	}
	if err := a.proves(q); err != nil || !q.Peer {
		return err
	}
	return result.At("block", possible(b, q, a.Unproved == ""))
}

// proves checks that there are as many hashes as rounds, or that the answer claims nothing.
func (a *Answer) proves(q Question) error {
	b := a.Block
	if a.Unproved != "" {
		switch {
		case !q.Peer:
			return errors.New("unproved: only a peer may leave hashes out")
		case len(a.Hashes)+len(a.Running) > 0 || b.Proof != (result.Proof{}):
			return errors.New("unproved: there are hashes, or rounds that were proved: only one of the two can be")
		}
		return result.CheckName(a.Unproved)
	}
	// Besides the timed rounds, there are the first, those that warm up and those
	// that are proved: two, and at most one before each timed one.
	if b.Proof.Rounds > 2+len(b.Round) || b.Proof.Updates != b.Proof.Rounds*q.Clients {
		return fmt.Errorf("block.proof: %d updates in %d rounds: must be all of %d clients, and no more rounds than there are", b.Proof.Updates, b.Proof.Rounds, q.Clients)
	}
	least := 1 + len(b.Round) + b.Proof.Rounds
	if most := least + max(q.Block.Warmup, MostWarm); len(a.Hashes) < least || len(a.Hashes) > most {
		return fmt.Errorf("hashes: of %d models: must be %d to %d for %d timed rounds and %d that were proved", len(a.Hashes), least, most, len(b.Round), b.Proof.Rounds)
	}
	if len(a.Running) == 0 {
		return nil
	}
	if len(a.Running) != len(a.Hashes) {
		return fmt.Errorf("running: of %d models: must be %d, as many as hashes", len(a.Running), len(a.Hashes))
	}
	for n, of := range a.Running {
		if want := max(1, q.Tensors); len(of) != want {
			return fmt.Errorf("running[%d]: of %d tensors: must be %d", n, len(of), want)
		}
		if last := of[len(of)-1]; last != a.Hashes[n] {
			return fmt.Errorf("running[%d]: the last is %016x: must be the model's, %016x", n, uint64(last), uint64(a.Hashes[n]))
		}
	}
	return nil
}

// possible reports what no block can be, whichever program has run it. A training that takes
// longer than its client's round trip, say, would be a transfer of less than nothing: the
// best.
func possible(b *result.Block, q Question, proved bool) error {
	if n := len(b.Processes); n != q.Workers {
		return result.Errorf("processes", "%d: must be %d", n, q.Workers)
	}
	if n := b.Proof.Rounds; n < 2 && proved {
		return result.Errorf("proof.rounds", "%d: must be 2 at least, the second round and the last", n)
	}
	for i, rtt := range b.RTT {
		for _, t := range []struct {
			name        string
			took, least int64
			of          string
			most        int64
		}{
			{"rtt_ns", rtt, 1, "round_ns", b.Round[i/q.Clients]},
			{"train_ns", b.Train[i], 1, "rtt_ns", rtt - 1},
			{"down_ns", b.Down[i], 0, "rtt_ns", rtt},
			{"up_ns", b.Up[i], b.Train[i], "rtt_ns", rtt},
		} {
			if t.took < t.least || t.took > t.most {
				return result.Errorf(fmt.Sprintf("%s[%d]", t.name, i), "%d: must be %d to %d, as a part of %s", t.took, t.least, t.most, t.of)
			}
		}
	}
	return nil
}
