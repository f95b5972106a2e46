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
	"ipcbench/python"
	"ipcbench/transports/driver"
)

// A Peer is a program of somebody's own that runs whole blocks: its server, its workers
// and what goes between them. It reads an order and answers, as another build of ipcbench
// does; docs/peer.md says how. It is a row of the same tables, and so a transport by name
// alone: nothing of ours is sent through it.
type Peer struct {
	name  string
	shown string   // what results call the program
	words []string // of its command, unless it is a reference row

	row  python.Row // a reference row, which Python runs
	find func() (python.Interpreter, error)
}

var peerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// NewPeer returns the peer of that name which a command runs: words with spaces
// between them, and what a shell takes for one word in quotes or after a backslash.
// Nothing else of the command is expanded.
func NewPeer(name, command string) (*Peer, error) {
	if !peerName.MatchString(name) {
		return nil, fmt.Errorf("%q: want a name of a-z, 0-9 and -", name)
	}
	if err := result.CheckText(command); err != nil {
		return nil, fmt.Errorf("%s: its command: %w", name, err)
	}
	words, err := shellquote.Split(command)
	if err != nil {
		return nil, fmt.Errorf("%s: a quote that nothing closes, or a backslash at the end: %w", name, err)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("%s: no command: want NAME='COMMAND'", name)
	}
	path, err := exec.LookPath(words[0])
	if err == nil || errors.Is(err, exec.ErrDot) { // in this folder, as a shell would
		words[0], err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Peer{name: name, shown: command, words: words}, nil
}

// NewRow returns the peer that a reference row is. Its interpreter is looked for when
// somebody first wants to know.
func NewRow(row python.Row) *Peer {
	return &Peer{name: row.Name, shown: "python/peers/" + row.File, row: row, find: sync.OnceValues(func() (python.Interpreter, error) {
		return python.Find(context.Background(), "", row.Modules...)
	})}
}

// Help says what a reference row is.
func (p *Peer) Help() string { return p.row.Help }

// Ready returns what runs a reference row here, or what is missing.
func (p *Peer) Ready() (python.Interpreter, error) { return p.find() }

// Name implements [driver.Transport].
func (p *Peer) Name() string { return p.name }

// Settings implements [driver.Transport].
func (p *Peer) Settings() []driver.Setting { return nil }

// Traits implements [driver.Transport].
func (p *Peer) Traits(driver.Settings) driver.Traits { return driver.Traits{Reach: driver.Host} }

// Check implements [driver.Transport]: it reports what is missing here.
func (p *Peer) Check(driver.Options) error {
	if p.find == nil {
		return nil
	}
	_, err := p.find()
	return err
}

// What a process of a peer is guessed to take: a few copies, and what it runs on.
const (
	peerCopies = 3
	peerBase   = 64 << 20
)

// Footprint implements [driver.Transport] with a guess.
func (p *Peer) Footprint(o driver.Options) int64 {
	each := float64(peerCopies)*(float64(o.Down.Size())+float64(o.Up.Size())) + peerBase
	if all := each * float64(o.Lanes+1); all < math.MaxInt64 {
		return int64(all)
	}
	return math.MaxInt64
}

var errPeer = errors.New("a peer runs blocks of its own")

// Listen implements [driver.Transport].
func (p *Peer) Listen(context.Context, *driver.Endpoint, driver.Options) (driver.Server, error) {
	return nil, errPeer
}

// Dial implements [driver.Transport].
func (p *Peer) Dial(context.Context, *driver.Endpoint, int, driver.Options) (driver.Worker, error) {
	return nil, errPeer
}

// peer returns the peer that runs the cell's blocks, or nil.
func (s Spec) peer() *Peer {
	p, _ := s.Variant.Transport.(*Peer)
	return p
}

// HasRows reports whether any of the cells is a reference row's.
func HasRows(cells []Spec) bool {
	return slices.ContainsFunc(cells, func(s Spec) bool { return s.peer() != nil && s.peer().find != nil })
}

// checkPeer reports what no peer is asked for.
func (s Spec) checkPeer() error {
	switch c := s.Variant.Codec(); {
	case s.peer() == nil:
		return nil
	case c != nil:
		return fmt.Errorf("codec %s: a peer has codecs of its own, if any", c)
	case s.PerProcess != 1:
		return errors.New("a peer has one worker a process: leave --lanes-per-process 1")
	}
	return nil
}

// How long a peer may take to say what it can, for which it may have to import much, or
// the plan's round limit if that is longer; and for a block, besides many times what is
// guessed for it, unless the plan has a round limit. It shows nothing of how far it is.
const (
	peerAnswers  = 30 * time.Second
	peerPatience = 2 * time.Minute
)

// peerHint says what may be wrong with a peer that does not answer.
const peerHint = "if it needs longer, raise --round-limit; if it waits for the end of stdin, have it read one line"

// program returns what carries out orders for the peer. Reference rows are in the
// folder that [python.Unpack] wrote to, and start there.
func (p *Peer) program(dir string) (exchange.Program, error) {
	of := exchange.Program{Name: p.shown, Late: ": " + peerHint, Patience: peerPatience, Alone: true}
	if p.find == nil {
		of.Path, of.Args = p.words[0], p.words[1:]
		return of, nil
	}
	i, err := p.find()
	of.Path, of.Args, of.Dir = i.Path, []string{p.row.In(dir)}, dir
	of.Env = []string{"TMPDIR=" + dir} // where multiprocessing leaves a folder for each process that is killed
	return of, err
}

// askPeers asks each peer which of its cells it can run, and returns all cells but those
// that it cannot.
func (r *run) askPeers(ctx context.Context) ([]Spec, error) {
	var fit []Spec
	var unfit error
	refused := map[string]string{} // why, by cell
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

// askPeer asks a peer which of its cells it can run, and what it runs on. It adds to refused
// why it cannot run a cell.
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
	return nil
}
