package exchange

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"

	"ipcbench/internal/reexec"
)

// A Program carries out orders: a build of ipcbench, or a peer.
type Program struct {
	Name     string // in errors
	Path     string // of the executable; empty is this one
	Args     []string
	Dir      string // in which it starts; empty is where this process is
	Env      []string
	Doubt    string        // what to ask if it fails
	Late     string        // what to do if it does not answer in time
	Patience time.Duration // for a block, besides many times what is guessed for it and the order's round limit
	Alone    bool          // it is anybody's program: nothing that it starts outlives it
}

func (p Program) String() string { return p.Name }

// First gives a program its first order, which takes no time to carry out. The answer says
// of each cell whether it can be run and, of a build, which one it is.
func First(ctx context.Context, p Program, o Order, patience time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v%s", patience, p.Late))
	defer cancel()
	a, err := Ask(ctx, ctx, p, o, 0)
	switch {
	case err != nil:
		return nil, err
	case a.Rules != Rules:
		return nil, fmt.Errorf("%s measures blocks by version %d of the rules, this build by version %d: their numbers cannot be compared; make both follow the same rules", p, a.Rules, Rules)
	case a.Environment == nil && !p.Alone:
		return nil, errors.New("its answer says nothing of the build")
	case len(o.Cells) > 0 && len(a.Refused) != len(o.Cells):
		return nil, fmt.Errorf("%s: its answer: refused: %d entries, want one for each of %d cells", p, len(a.Refused), len(o.Cells))
	}
	return a, nil
}

// The largest answers that are read, in bytes: to the first order, and to any.
const (
	largestFirst = 1 << 20
	largestOf    = 256 << 20
)

// largest returns the most of an answer that is read, in bytes: of a block, there are times
// of the rounds, and hashes of the tensors after each.
func (o Order) largest() int {
	if o.Block == nil {
		return largestFirst
	}
	timed := int64(max(o.Block.Rounds, MostTimed))
	rounds := 2*timed + 3 + int64(max(o.Block.Warmup, MostWarm))
	w := o.Works[0]
	return int(min(largestOf, largestFirst+timed*(4<<10+128*int64(len(w.Clients)))+rounds*(64+32*int64(len(w.Down)))))
}

// blockGuesses is how many times longer than guessed a block may take.
const blockGuesses = 20

// errLate ends the process of a block that takes too long.
var errLate = errors.New("too late")

// Ask has a process of a program carry out an order. When ctx ends, or the process takes too
// long, it is killed; when quit ends, it is asked to end early. guess is what a block takes.
func Ask(ctx, quit context.Context, of Program, o Order, guess time.Duration) (*Answer, error) {
	o.Version = Version
	text, err := json.Marshal(o, v1.DefaultOptionsV1())
	if err != nil {
		return nil, err
	}
	limit := time.Duration(0) // none
	if o.Block != nil {
		limit = cmp.Or(o.Block.RoundLimit, of.Patience) + blockGuesses*guess
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, limit, errLate)
		defer end()
	}
	stderr := &reexec.Excerpt{Most: 1 << 10}
	c := reexec.Command{Path: of.Path, Args: of.Args, Env: of.Env, Dir: of.Dir, Keep: of.Alone, Stderr: stderr}
	p, err := reexec.Ask(ctx, quit, c, append(text, '\n'), o.largest())
	if err != nil {
		return nil, err
	}
	said, err := p.Answer()
	var a *Answer
	switch {
	case errors.Is(err, errLate):
		err = fmt.Errorf("a block of %s (pid %d) has not ended after %v and is %s%s", o.Works[0].Model, p.PID(), limit.Round(time.Millisecond), p.Killed(), of.Late)
	case err != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w%s", err, of.Doubt)
	case err == nil:
		a, err = ParseAnswer(bytes.TrimSpace(said))
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", of, err)
		if said := stderr.String(); said != "" {
			err = fmt.Errorf("%w\n%s", err, said)
		}
		return nil, err
	}
	return a, nil
}

// Serve reads one order from in, has it carried out, and writes the answer to out. The
// context of carryOut ends early when ctx ends or in does.
func Serve(ctx context.Context, in io.Reader, out io.Writer, carryOut func(quit context.Context, o *Order, a *Answer) error) error {
	d := jsontext.NewDecoder(io.LimitReader(in, largestOf))
	text, err := d.ReadValue()
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	text = text.Clone()
	quit, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		cancel(errEarly)
	}()
	a := &Answer{Version: Version, Rules: Rules}
	o, err := ParseOrder(text)
	if err == nil {
		err = carryOut(quit, o, a)
	}
	if err != nil {
		a.Error = err.Error()
	}
	return json.MarshalWrite(out, a, v1.DefaultOptionsV1())
}
