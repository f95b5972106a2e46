package exchange

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"ipcbench/bench/result"
	"ipcbench/internal/machine"
)

// An Answer is the reply to an order: the cells that the program refuses, or one measured block.
type Answer struct {
	Version     int                  `json:"version"`
	Rules       int                  `json:"rules"` // the program's version of the rules, see the constant
	Error       string               `json:"error,omitempty"`
	Environment *machine.Environment `json:"environment,omitempty"`                        // of a build, in its first answer
	Refused     []string             `json:"refused,omitempty"`                            // in the first answer: a reason per cell; empty if it can be run
	Canary      float64              `json:"canary,omitempty" check:"0..100" unit:"share"` // share of a round that a peer burns on request
	Block       *result.Block        `json:"block,omitempty"`
	Pings       []int64              `json:"pings_ns,omitempty" check:"positive"` // durations of empty calls, in nanoseconds
	Software    map[string]string    `json:"software,omitempty"`                  // versions of a peer's software, by name
	Unproved    string               `json:"unproved,omitempty"`                  // reason why a peer has no hashes; empty if it has
	Running     [][]Hash             `json:"running,omitempty"`                   // from a peer, per round: hash after each tensor; the last is the model's
	Hashes      []Hash               `json:"hashes,omitempty"`                    // hash of the model after each round, untimed rounds included
}

// A Hash is the hash of a model, encoded in JSON as 16 lower-case hex digits.
type Hash uint64

// MarshalText returns 16 hex digits.
func (h Hash) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText accepts exactly 16 lower-case hex digits.
func (h *Hash) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 16, 64)
	if err != nil || string(text) != fmt.Sprintf("%016x", n) {
		return fmt.Errorf("%.40q: must be 16 hex digits", text)
	}
	*h = Hash(n)
	return nil
}

// ParseAnswer decodes and checks an answer, and returns the error in it, if any. It makes texts
// printable, because they are shown in the terminal.
func ParseAnswer(text []byte) (*Answer, error) {
	a := new(Answer)
	err := decode(text, a)
	result.MakePrintable(a)
	if err == nil && a.Error != "" {
		return nil, fmt.Errorf("%.1000s", a.Error)
	}
	if err = cmp.Or(err, result.Check(a), result.CheckSoftware(a.Software)); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	return a, nil
}

// Check returns an error if the answer's block cannot result from the order. peer is set for a peer
// instead of a build. If the program was asked to end early, Check accepts a block without timed
// rounds.
func (a *Answer) Check(o Order, peer, ended bool) error {
	b, clients := a.Block, len(o.Works[0].Clients)
	switch {
	case b == nil:
		return errors.New("the answer holds no block")
	case len(b.Round) == 0 && ended:
		return nil
	case len(b.Round) == 0:
		return errors.New("block.round_ns: no round was timed")
	}
	if err := b.Validate(clients); err != nil {
		return result.At("block", err)
	}
	if !b.OneClock() || b.Profiled || b.Timeline != nil {
		return errors.New("block: must not have profiles, or processes with other_clock")
	}
	if n, want := len(b.RTT), len(b.Round)*clients; n != want { // all clients: this build thins them out later
		return fmt.Errorf("block.rtt_ns: %d samples: must be %d", n, want)
	}
	if m := max(o.Block.Rounds, MostTimed); len(b.Round) > m {
		return fmt.Errorf("block.round_ns: %d timed rounds: a block has at most %d", len(b.Round), m)
	}
	if err := a.proves(o, peer); err != nil || !peer {
		return err
	}
	cell, err := o.Cell(0)
	if err != nil {
		return err
	}
	if n := len(b.Processes); n != cell.Workers {
		return result.Errorf("block.processes", "%d: must be %d", n, cell.Workers)
	}
	if n := b.Proof.Rounds; (n == 0 || n == 1 && o.Block.Verify != "last") && a.Unproved == "" {
		return result.Errorf("block.proof.rounds", "%d: must be at least 2, for the second round and the last; or 1, if only the last is proved", n)
	}
	return result.At("block", possible(b, clients))
}

// proves checks that the answer has a hash for each round, or is from a peer and unproved.
func (a *Answer) proves(o Order, peer bool) error {
	b, clients, tensors := a.Block, len(o.Works[0].Clients), len(o.Works[0].Down)
	if a.Unproved != "" {
		switch {
		case !peer:
			return errors.New("unproved: must be absent, because only a peer may omit hashes")
		case len(a.Hashes)+len(a.Running) > 0 || b.Proof != (result.Proof{}):
			return errors.New("unproved: must be absent, because there are hashes or proved rounds")
		}
		return result.CheckName(a.Unproved)
	}
	// In addition to the timed rounds, there are the first round, warm-up rounds and proved
	// rounds: two, and at most one before each timed round. If only the last must be proved,
	// the second one may be there without proof.
	proof, most := b.Proof, 2+len(b.Round)
	if proof.Rounds > most || proof.Updates != proof.Rounds*clients {
		return fmt.Errorf("block.proof: %d updates in %d rounds: must be one per round for each of %d clients, "+
			"and rounds at most %d",
			proof.Updates, proof.Rounds, clients, most)
	}
	least := 1 + len(b.Round) + proof.Rounds
	most = least + max(o.Block.Warmup, MostWarm)
	if o.Block.Verify == "last" {
		most++
	}
	if len(a.Hashes) < least || len(a.Hashes) > most {
		return fmt.Errorf("hashes: %d entries: must be %d to %d for %d timed rounds and %d proved ones",
			len(a.Hashes), least, most, len(b.Round), proof.Rounds)
	}
	if len(a.Running) == 0 {
		return nil
	}
	if len(a.Running) != len(a.Hashes) {
		return fmt.Errorf("running: %d entries: must be %d, as many as hashes", len(a.Running), len(a.Hashes))
	}
	for n, hashes := range a.Running {
		if len(hashes) != tensors {
			return fmt.Errorf("running[%d]: %d entries: must be %d, one per tensor", n, len(hashes), tensors)
		}
		if tensors > 0 && hashes[tensors-1] != a.Hashes[n] {
			return fmt.Errorf("running[%d]: the last is %016x: must be the hash of the model, %016x",
				n, hashes[tensors-1], a.Hashes[n])
		}
	}
	return nil
}

// possible returns an error for times that no correct program can measure. For example, a training
// longer than its round trip would rank first, with a negative transfer time.
func possible(b *result.Block, clients int) error {
	for i, rtt := range b.RTT {
		for _, t := range []struct {
			name        string
			took, least int64
			whole       string
			most        int64
		}{
			{"rtt_ns", rtt, 1, "round_ns", b.Round[i/clients]},
			{"train_ns", b.Train[i], 1, "rtt_ns", rtt - 1},
			{"down_ns", b.Down[i], 0, "rtt_ns", rtt},
			{"up_ns", b.Up[i], b.Train[i], "rtt_ns", rtt},
		} {
			if t.took < t.least || t.took > t.most {
				return result.Errorf(fmt.Sprintf("%s[%d]", t.name, i), "%d: must be %d to %d, as part of %s",
					t.took, t.least, t.most, t.whole)
			}
		}
	}
	return nil
}
