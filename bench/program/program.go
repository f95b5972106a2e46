// Package program has the programs that run whole blocks in processes of their own, instead of a
// session of this process: a build of ipcbench and its layouts, a user's peer, and the reference
// rows in Python.
//
// [Program.Ask] asks a program which cells it can run, and [Program.Block] has it measure a block; both
// take cells and plans of package session, and return what a result holds of them. [Serve] is the
// other side: it carries out the order of another build. The messages are in package exchange.
package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"

	"github.com/kballard/go-shellquote"

	"ipcbench/bench/exchange"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/machine"
	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/python"
	"ipcbench/transports/driver"
)

// A Program runs whole blocks, server and workers, in processes of its own: a build of ipcbench, a
// user's own program (a peer), or one of our reference rows in Python. Each block runs in a fresh
// process that reads an order from stdin and answers on stdout: see docs/reference/peer.md. A peer
// is also a [driver.Subject], so that its cells have variants like those of transports.
//
// The address at which a linker puts a function may affect its speed: the same instructions were
// 1.75 times as slow 32 bytes further on. So a build can have several layouts, and the blocks of a
// cell use them in turn. Blocks then also differ by linking, and intervals include that.
type Program struct {
	name    string   // base, head, or the name of a peer
	command string   // command of a peer as results show it; empty for a build
	flag    string   // flag that names a build's executables
	files   []string // executables of a build's layouts; an empty one is this executable; nil for a peer
	words   []string // words of a peer's command; nil for a reference row

	row  python.Row // reference row; else zero
	find func() (python.Interpreter, error)
}

// A BuildError reports an executable that cannot take part in a run of two builds.
type BuildError struct{ error }

func (b *BuildError) Unwrap() error { return b.error }

// Builds returns the two programs of a run with --against: the build with the executables base,
// one per layout, and this build, with the executables head as more layouts. If this build's first
// process also ran blocks of its own, it would have an older heap than the other build's.
func Builds(base, head []string) []*Program {
	return []*Program{
		{name: result.Base, flag: "--against", files: base},
		{name: result.Head, flag: "--layouts", files: append([]string{""}, head...)},
	}
}

var peerName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

// NewPeer returns the peer of that name that runs a command. Words are separated by
// spaces; quotes and backslashes work as in a shell, and nothing else is expanded. The
// first word must be an executable.
func NewPeer(name, command string) (*Program, error) {
	if !peerName.MatchString(name) {
		return nil, fmt.Errorf("%q: a name must consist of a-z, 0-9 and -, and not begin with -", name)
	}
	if name == result.Base || name == result.Head {
		return nil, fmt.Errorf("%s: a build has this name: choose another", name)
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
	if err == nil || errors.Is(err, exec.ErrDot) { // a shell with this PATH would run it from the current directory
		words[0], err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Program{name: name, command: command, words: words}, nil
}

// NewRow returns a reference row as a peer. It searches for the row's interpreter at the
// first use.
func NewRow(row python.Row) *Program {
	find := sync.OnceValues(func() (python.Interpreter, error) {
		return python.Find(context.Background(), "", row.Modules...)
	})
	return &Program{name: row.Name, command: "python/peers/" + row.File, row: row, find: find}
}

// Help describes a reference row.
func (p *Program) Help() string { return p.row.About() }

// Ready returns the interpreter for a reference row on this machine, or an error about
// what is missing.
func (p *Program) Ready() (python.Interpreter, error) { return p.find() }

// Name implements [driver.Subject].
func (p *Program) Name() string { return p.name }

// Settings implements [driver.Subject]. Only reference rows have settings.
func (p *Program) Settings() (all []driver.Setting) {
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

// Traits implements [driver.Subject].
func (p *Program) Traits(driver.Settings) driver.Traits { return driver.Traits{Reach: driver.Host} }

// Check implements [driver.Subject]: it fails if no interpreter here can run the reference row, or
// its shared memory does not fit.
func (p *Program) Check(o driver.Options) error {
	if p.find == nil {
		return nil
	}
	if needs, _ := p.Needs(o); needs.Dir != "" { // without this check, a signal would end the row
		free, err := machine.Room(needs.Dir)
		if err != nil || needs.Bytes > free {
			return fmt.Errorf("tensors in shared memory need %d bytes in %s, %d are available: enlarge it (%s), or choose py-shm, "+
				"which does not use it", needs.Bytes, needs.Dir, free, machine.EnlargeShm(needs.Bytes))
		}
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

// Footprint implements [driver.Subject] with an estimate.
func (p *Program) Footprint(o driver.Options) int64 {
	each := float64(peerCopies)*(float64(o.Down.Size())+float64(o.Up.Size())) + peerBase
	if all := each * float64(o.Lanes+1); all < math.MaxInt64 {
		return int64(all)
	}
	return math.MaxInt64
}

// Needs implements [driver.Subject]. What a user's peer needs is not known.
func (p *Program) Needs(o driver.Options) (n driver.Needs, _ error) {
	if p.row.Shared {
		n.Dir, n.Bytes = scratch.SharedMemory, int64(o.Down.Size())+2*int64(o.Clients)*int64(o.Up.Size())
	}
	return n, nil
}

// Of returns the peer that runs s, or nil if s is of a transport.
func Of(s session.Spec) *Program {
	p, _ := s.Variant.Subject.(*Program)
	return p
}

// HasRows reports whether any cell is a reference row.
func HasRows(cells []session.Spec) bool {
	return slices.ContainsFunc(cells, func(s session.Spec) bool { return Of(s) != nil && Of(s).find != nil })
}

// IsBuild reports whether p is a build of ipcbench, instead of a peer.
func (p *Program) IsBuild() bool { return p.files != nil }

// process returns the process that carries out an order: of a build's layout, or of a peer.
// Reference rows start in dir, to which [python.Unpack] has written them.
func (p *Program) process(layout int, dir string) (exchange.Process, error) {
	if p.IsBuild() {
		file := p.files[layout]
		path := file
		if file == filepath.Base(file) { // a file in the current directory, not a command to search for in PATH
			path = "./" + file
		}
		return exchange.Process{
			Command:     reexec.Command{Path: path, Args: []string{BlockCommand}},
			Name:        cmp.Or(file, os.Args[0]) + " " + BlockCommand,
			FailureHint: ": is it a build of ipcbench that can run single blocks?",
			Late:        ": if it was stopped, continue it (kill -CONT); else raise --round-limit",
		}, nil
	}
	peer := exchange.Process{
		Command: reexec.Command{Keep: true}, Name: p.command,
		Late: ": if it needs longer, raise --round-limit; if it waits for the end of stdin, have it read one line",
	}
	if p.find == nil {
		peer.Path, peer.Args = p.words[0], p.words[1:]
		peer.Env = []string{"_IPCBENCH_VERSION=" + machine.Version()} // an installed ipcbench_worker compares it
		return peer, nil
	}
	i, err := p.find()
	peer.Path, peer.Args, peer.Dir = i.Path, []string{p.row.In(dir)}, dir
	peer.Env = []string{"TMPDIR=" + dir} // multiprocessing leaves a folder there for each process that is killed
	return peer, err
}
