package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/kballard/go-shellquote"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/python"
	"ipcbench/transports/driver"
)

// A Peer is a user's own program, or one of our reference rows, that runs whole blocks
// itself: server, workers and their communication. Like another build of ipcbench, it
// reads orders and answers them: see docs/reference/peer.md. It implements [driver.Transport] only
// to have a row in the same tables; Listen and Dial fail.
type Peer struct {
	name  string
	shown string   // the program's name in results
	words []string // words of the command; nil for a reference row

	row  python.Row // reference row, which runs in Python; else zero
	find func() (python.Interpreter, error)
}

var peerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// NewPeer returns the peer of that name that runs a command. Words are separated by
// spaces; quotes and backslashes work as in a shell, and nothing else is expanded. The
// first word must be an executable.
func NewPeer(name, command string) (*Peer, error) {
	if !peerName.MatchString(name) {
		return nil, fmt.Errorf("%q: a name must consist of a-z, 0-9 and -, and not begin with -", name)
	}
	if err := result.CheckText(command); err != nil {
		return nil, fmt.Errorf("%s: its command: %w", name, err)
	}
	words, err := shellquote.Split(command)
	if err != nil {
		return nil, fmt.Errorf("%s: an unclosed quote, or a backslash at the end: %w", name, err)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: no command: must be NAME='COMMAND'", name)
	}
	path, err := exec.LookPath(words[0])
	if err == nil || errors.Is(err, exec.ErrDot) { // found in the current directory, which a shell with this PATH would run
		words[0], err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Peer{name: name, shown: command, words: words}, nil
}

// NewRow returns a reference row as a peer. It searches for the row's interpreter at the
// first use.
func NewRow(row python.Row) *Peer {
	return &Peer{name: row.Name, shown: "python/peers/" + row.File, row: row, find: sync.OnceValues(func() (python.Interpreter, error) {
		return python.Find(context.Background(), "", row.Modules...)
	})}
}

// Help describes a reference row.
func (p *Peer) Help() string { return p.row.Help }

// Ready returns the interpreter for a reference row on this machine, or an error about
// what is missing.
func (p *Peer) Ready() (python.Interpreter, error) { return p.find() }

// Name implements [driver.Transport].
func (p *Peer) Name() string { return p.name }

// Settings implements [driver.Transport]. Only reference rows have settings.
func (p *Peer) Settings() (all []driver.Setting) {
	for _, k := range p.row.Knobs {
		s := driver.Setting{Name: k.Name, Default: k.Default, Values: k.Values, Min: 1, Max: k.Most, Help: k.Help}
		switch {
		case k.Bytes:
			s.Kind = driver.Size
		case k.Values == nil:
			s.Kind = driver.Count
		}
		all = append(all, s)
	}
	return all
}

// Traits implements [driver.Transport].
func (p *Peer) Traits(driver.Settings) driver.Traits { return driver.Traits{Reach: driver.Host} }

// Check implements [driver.Transport]: it fails if no interpreter here can run the
// reference row.
func (p *Peer) Check(driver.Options) error {
	if p.find == nil {
		return nil
	}
	_, err := p.find()
	return err
}

// Estimated memory of a peer's process: copies of model and update, and a base for its
// runtime.
const (
	peerCopies = 3
	peerBase   = 64 << 20
)

// Footprint implements [driver.Transport] with an estimate.
func (p *Peer) Footprint(o driver.Options) int64 {
	each := float64(peerCopies)*(float64(o.Down.Size())+float64(o.Up.Size())) + peerBase
	if all := each * float64(o.Lanes+1); all < math.MaxInt64 {
		return int64(all)
	}
	return math.MaxInt64
}

// Needs implements [driver.Transport]. What a peer needs is not known.
func (p *Peer) Needs(driver.Options) (driver.Needs, error) { return driver.Needs{}, nil }

var errPeer = errors.New("a peer runs its own blocks")

// Listen implements [driver.Transport]. It always fails.
func (p *Peer) Listen(context.Context, *driver.Endpoint, driver.Options) (driver.Server, error) {
	return nil, errPeer
}

// Dial implements [driver.Transport]. It always fails.
func (p *Peer) Dial(context.Context, *driver.Endpoint, int, driver.Options) (driver.Worker, error) {
	return nil, errPeer
}

func (s Spec) peer() *Peer {
	p, _ := s.Variant.Transport.(*Peer)
	return p
}

// HasRows reports whether any cell is a reference row.
func HasRows(cells []Spec) bool {
	return slices.ContainsFunc(cells, func(s Spec) bool { return s.peer() != nil && s.peer().find != nil })
}

// checkPeer returns an error if no peer supports what s asks for.
func (s Spec) checkPeer() error {
	switch c := s.Variant.Codec(); {
	case s.peer() == nil:
		return nil
	case c != nil:
		return fmt.Errorf("codec %s: a peer can only have its own codecs: leave --codec out", c)
	case s.PerProcess != 1:
		return errors.New("a peer has one worker per process: --lanes-per-process must be 1")
	}
	return nil
}

// peerAnswers is the time limit for a peer's first answer, before which it may have to
// import much; a longer --round-limit replaces it.
const peerAnswers = 30 * time.Second

// peerHint suggests why a peer does not answer.
const peerHint = "if it needs longer, raise --round-limit; if it waits for the end of stdin, have it read one line"

// program returns the command that carries out orders for the peer. Reference rows start
// in dir, to which [python.Unpack] has written them.
func (p *Peer) program(dir string) (exchange.Program, error) {
	of := exchange.Program{Name: p.shown, Late: ": " + peerHint, Alone: true}
	if p.find == nil {
		of.Path, of.Args = p.words[0], p.words[1:]
		of.Env = []string{"_IPCBENCH_VERSION=" + machine.Version()} // an installed ipcbench_worker compares it
		return of, nil
	}
	i, err := p.find()
	of.Path, of.Args, of.Dir = i.Path, []string{p.row.In(dir)}, dir
	of.Env = []string{"TMPDIR=" + dir} // multiprocessing leaves a folder there for each process that is killed
	return of, err
}

// askPeers asks each peer which of its cells it can run, and returns all cells but the
// refused ones, which are skipped. It is an error if none is left.
func (r *run) askPeers(ctx context.Context) ([]Spec, error) {
	var fit []Spec
	var unfit error
	refused := map[string]string{} // reason by cell
	for _, s := range r.Cells {
		p := s.peer()
		if _, asked := r.software[p]; p != nil && !asked {
			if err := r.askPeer(ctx, p, refused); err != nil {
				return nil, err
			}
		}
		if why := refused[s.String()]; why != "" {
			u := &Unfit{s, errors.New(why)}
			unfit = errors.Join(unfit, u)
			r.result.Skipped = append(r.result.Skipped, u.Skipped())
			continue
		}
		fit = append(fit, s)
	}
	if len(fit) == 0 {
		return nil, unfit
	}
	return fit, nil
}

// askPeer asks a peer which of its cells it can run, and stores its software. It adds the
// reason for each refusal to refused.
func (r *run) askPeer(ctx context.Context, p *Peer, refused map[string]string) error {
	of, err := p.program(r.Python.Dir)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(r.Cells), func(s Spec) bool { return s.peer() != p })
	a, err := exchange.First(ctx, of, firstOrder(own), max(r.Plan.RoundLimit, peerAnswers))
	switch {
	case err != nil && p.find == nil:
		return fmt.Errorf("--peer %s: %w", p.name, err)
	case err != nil:
		return err
	}
	for i, s := range own {
		refused[s.String()] = a.Refused[i]
	}
	r.software[p] = a.Software
	if base := func(s Spec) bool { return s.Variant.String() == r.Plan.Baseline }; r.Canary > 0 && slices.ContainsFunc(own, base) {
		if a, err = exchange.First(ctx, r.slowed(of), firstOrder(own), max(r.Plan.RoundLimit, peerAnswers)); err != nil {
			return fmt.Errorf("--canary: %s with %s: %w", p.name, canaryVariable, err)
		}
		r.burns = a.Canary == r.Canary
	}
	return nil
}
