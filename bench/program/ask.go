package program

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/machine"
)

// Time limits for a program's first answer. A peer may have to import much before it answers; a
// longer --round-limit replaces its limit.
const (
	buildAnswers = 10 * time.Second
	peerAnswers  = 30 * time.Second
)

// Conditions are the settings of a run that its programs must know.
type Conditions struct {
	Environment machine.Environment // of this program
	Dir         string              // directory to which [python.Unpack] has written
	RoundLimit  time.Duration       // of the plan
	Canary      float64             // share of a round that the peer must be able to burn; zero means none
}

// An Offer says what a program can do in a run: it is the answer to [Program.Ask].
type Offer struct {
	Entry   result.Program
	Refused map[string]string // reasons for the refused cells, by [session.Spec.String]
	Burns   bool              // the peer slows itself down as Conditions.Canary asks
}

// Ask asks a program which of the cells it can run. The executables of a build must be layouts of
// one build, and it is an error if it can run controls only.
func (p *Program) Ask(ctx context.Context, specs []session.Spec, under Conditions) (Offer, error) {
	if p.IsBuild() {
		return p.askBuild(ctx, specs, under.Environment)
	}
	return p.askPeer(ctx, specs, under)
}

func (p *Program) askBuild(ctx context.Context, specs []session.Spec, here machine.Environment) (Offer, error) {
	offer := Offer{Entry: result.Program{Name: p.name}}
	var err error
	if offer.Entry.Layouts, err = p.layouts(); err != nil {
		return offer, err
	}
	first := here
	for i, file := range p.files {
		if file == "" { // this program
			continue
		}
		process, _ := p.process(i, "")
		asked := specs
		if i > 0 {
			asked = nil // one layout is enough
		}
		a, err := exchange.First(ctx, process, firstOrder(asked), buildAnswers)
		switch {
		case err != nil:
		case i > 0:
			err = sameBuild(*a.Environment, first, p.fileName(0))
		default:
			first, offer.Refused, err = *a.Environment, reasons(specs, a.Refused), comparable(specs, a.Refused)
			first.Link = here.Link // both builds run on the same links
			offer.Entry.Environment = &first
		}
		if err != nil {
			return offer, fmt.Errorf("%s %s: %w", p.flag, p.fileName(i), err)
		}
	}
	return offer, nil
}

// reasons returns the reasons for which cells are refused, by cell.
func reasons(specs []session.Spec, refused []string) map[string]string {
	all := map[string]string{}
	for i, s := range specs {
		all[s.String()] = refused[i]
	}
	return all
}

// comparable returns an error if only controls are left, because a control alone can be compared
// with no other cell.
func comparable(specs []session.Spec, refused []string) error {
	for i, s := range specs {
		if refused[i] == "" && !s.Inside() {
			return nil
		}
	}
	if why := cmp.Or(refused...); why != "" {
		return &BuildError{fmt.Errorf("it can run none of these cells: %s", why)}
	}
	return nil
}

// sameBuild returns an error that names the first difference between two builds: commit,
// uncommitted changes, Go version or race detector. [exchange.First] has checked that
// both follow the same rules.
func sameBuild(e, first machine.Environment, name string) error {
	for _, fact := range []struct{ what, has, want string }{
		{"commit", e.Commit, first.Commit},
		{"changes since the commit", strconv.FormatBool(e.Dirty), strconv.FormatBool(first.Dirty)},
		{"Go version", e.Go, first.Go},
		{"race detector", strconv.FormatBool(e.Race), strconv.FormatBool(first.Race)},
	} {
		if fact.has != fact.want {
			return &BuildError{fmt.Errorf("%s: %s, but %s has %s: both must be layouts of one build",
				fact.what, cmp.Or(fact.has, "none"), name, cmp.Or(fact.want, "none"))}
		}
	}
	return nil
}

func (p *Program) askPeer(ctx context.Context, specs []session.Spec, under Conditions) (Offer, error) {
	process, err := p.process(0, under.Dir)
	if err != nil {
		return Offer{}, err
	}
	limit := max(under.RoundLimit, peerAnswers)
	a, err := exchange.First(ctx, process, firstOrder(specs), limit)
	switch {
	case err != nil && p.find == nil:
		return Offer{}, fmt.Errorf("--peer %s: %w", p.name, err)
	case err != nil:
		return Offer{}, err
	}
	offer := Offer{
		Entry: result.Program{Name: p.name, Command: p.command, Software: a.Software}, Refused: reasons(specs, a.Refused),
	}
	if under.Canary > 0 {
		if a, err = exchange.First(ctx, slowed(process, under.Canary), firstOrder(specs), limit); err != nil {
			return offer, fmt.Errorf("--canary: %s with %s: %w", p.name, CanaryVariable, err)
		}
		offer.Burns = a.Canary == under.Canary
	}
	return offer, nil
}

// CanaryVariable asks a peer to burn a share of its last round's time in every round.
const CanaryVariable = "IPCBENCH_CANARY"

// slowed returns the process of a peer that slows itself down. See docs/reference/peer.md.
func slowed(p exchange.Process, share float64) exchange.Process {
	p.Env = append(slices.Clone(p.Env), fmt.Sprintf("%s=%g", CanaryVariable, share))
	return p
}

// Block has a process of the program measure a block, and returns its checked answer. It fills in s
// like [session.Run.Do], but without rounds if quit was done early. dir is [Conditions].Dir, burn
// the share of a round that a peer burns for a canary, and slowest the duration of the slowest
// earlier block of the cell; zero means none.
func (p *Program) Block(
	ctx, quit context.Context, s *session.Run, dir string, burn float64, slowest time.Duration,
) (*exchange.Answer, error) {
	b := s.Block
	b.Layout = b.Index % max(1, len(p.files))
	process, err := p.process(b.Layout, dir)
	if err != nil {
		return nil, err
	}
	if burn > 0 {
		process = slowed(process, burn)
	}
	o := blockOrder(s.Spec, s.Plan, s.Slow)
	a, err := exchange.Ask(ctx, quit, process, o, slowest)
	if err != nil && !p.IsBuild() && quit.Err() != nil { // the peer may not support ending early
		return nil, context.Cause(quit)
	}
	if err != nil {
		return nil, err
	}
	if err := a.Check(o, !p.IsBuild(), quit.Err() != nil); err != nil {
		return nil, fmt.Errorf("%s: its answer: %w", process, err)
	}
	got := *a.Block
	got.Index, got.Layout, got.Position, got.At, got.Warmup, got.Proof.Hashed = b.Index, b.Layout, b.Position, b.At, b.Warmup, 0
	*b, s.Pings, s.Hashes, s.Running = got, a.Pings, a.Hashes, a.Running
	return a, nil
}
