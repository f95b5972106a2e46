package exchange

import (
	"bytes"
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

// A Process carries out one order: a build of ipcbench or, if its command has Keep, a peer, whose
// processes must end with it.
type Process struct {
	reexec.Command
	Name        string // name in errors
	FailureHint string // appended to errors: a likely cause
	Late        string // appended to errors about a timeout: a remedy
}

func (p Process) String() string { return p.Name }

// First sends a program its first order, without a block, and waits at most patience. The
// answer states for each cell whether it can be run, and identifies a build. Other rules are an
// error.
func First(ctx context.Context, p Process, o Order, patience time.Duration) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v%s", patience, p.Late))
	defer cancel()
	a, err := Ask(ctx, ctx, p, o, 0)
	switch {
	case err != nil:
		return nil, err
	case a.Rules != Rules:
		return nil, fmt.Errorf("%s measures blocks by version %d of the rules, this build by version %d: "+
			"their numbers cannot be compared; make both follow the same rules", p, a.Rules, Rules)
	case a.Environment == nil && !p.Keep:
		return nil, errors.New("its answer does not identify the build")
	case len(o.Cells) > 0 && len(a.Refused) != len(o.Cells):
		return nil, fmt.Errorf("%s: its answer: refused: %d entries: must be %d, one per cell",
			p, len(a.Refused), len(o.Cells))
	}
	return a, nil
}

// Maximum sizes of an answer in bytes: to the first order, and to any order.
const (
	largestFirst = 1 << 20
	largestOf    = 256 << 20
)

// largest returns the maximum size of the answer to o in bytes.
func (o Order) largest() int {
	if o.Block == nil {
		return largestFirst
	}
	timed := int64(max(o.Block.Rounds, MostTimed))
	rounds := 2*timed + 3 + int64(max(o.Block.Warmup, MostWarm))
	w := o.Works[0]
	return int(min(largestOf, largestFirst+timed*(4<<10+128*int64(len(w.Clients)))+rounds*(64+32*int64(len(w.Down)))))
}

// errLate is the cause for killing a process that takes too long.
var errLate = errors.New("too late")

// Ask starts the program to carry out an order, and returns its answer. The process is killed
// when ctx is done or it takes too long, and asked to end early when quit is done. slowest
// is the duration of the slowest earlier block of the order's cell.
func Ask(ctx, quit context.Context, program Process, o Order, slowest time.Duration) (*Answer, error) {
	o.Version = Version
	text, err := json.Marshal(o, v1.DefaultOptionsV1())
	if err != nil {
		return nil, err
	}
	limit := time.Duration(0) // none
	if o.Block != nil {
		limit = o.Block.Limit(slowest)
		var end context.CancelFunc
		ctx, end = context.WithTimeoutCause(ctx, limit, errLate)
		defer end()
	}
	stderr := &reexec.Excerpt{Most: 1 << 10}
	program.Stderr = stderr
	p, err := reexec.Ask(ctx, quit, program.Command, append(text, '\n'), o.largest())
	if err != nil {
		return nil, err
	}
	output, err := p.Answer()
	output = bytes.TrimSpace(output)
	var a *Answer
	switch {
	case errors.Is(err, errLate):
		err = fmt.Errorf("a block of %s (pid %d) has not ended after %v and is %s%s",
			o.Works[0].Model, p.PID(), limit.Round(time.Millisecond), p.Killed(), program.Late)
	case err != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w%s", err, program.FailureHint)
	case err == nil && len(output) == 0:
		err = fmt.Errorf("its answer: empty%s", program.FailureHint)
	case err == nil:
		a, err = ParseAnswer(output)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", program, err)
		if text := stderr.String(); text != "" {
			err = fmt.Errorf("%w\n%s", err, text)
		}
		return nil, err
	}
	return a, nil
}

// Serve reads one order from in, calls carryOut to fill in the answer, and writes it to out. The
// answer contains any error of carryOut or of decoding the order. quit is done when ctx is done
// or in ends.
func Serve(
	ctx context.Context, in io.Reader, out io.Writer,
	carryOut func(quit context.Context, o *Order, a *Answer) error,
) error {
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
		cancel(errors.New("asked to end early"))
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
