package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"ipcbench/machine"
	"ipcbench/phase/usage"
	"ipcbench/reexec"
	"ipcbench/trainer"
)

// An interleaved run takes blocks of two builds of ipcbench in turn. Each block
// is a process of its build, started for it: the other build's and this one's
// alike, so that neither has an older heap. It reads an order from stdin and
// answers on stdout; the end of stdin asks it to end early.

// BlockCommand is the argument that makes a build of ipcbench read an order and
// run one block. Both builds of an interleaved run must know it.
const BlockCommand = "block"

// ProbeBuild reports why the executable exe cannot be the other build of an
// interleaved run.
func ProbeBuild(ctx context.Context, exe string) error {
	_, err := askFirst(ctx, exe, order{Version: exchangeVersion, Works: []orderWork{}, Cells: []orderCell{}})
	return err
}

// askFirst gives the first order, which takes no time to carry out.
func askFirst(ctx context.Context, exe string, o order) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s %s: no answer within %v", exe, BlockCommand, patience))
	defer cancel()
	a, err := ask(ctx, ctx, exe, o, 0)
	if err == nil && a.Rules != protocol {
		return nil, fmt.Errorf("%s measures blocks by version %d of the rules, this build by version %d: their numbers cannot be compared; build both from commits with the same rules", exe, a.Rules, protocol)
	}
	return a, err
}

// patience is how long another build may take to say what it can.
const patience = 10 * time.Second

// addBuilds adds all cells of both builds, but for those that the other one does
// not know.
func (r *run) addBuilds(ctx context.Context, specs []Spec) error {
	first := order{Version: exchangeVersion}
	for _, s := range specs {
		ch := r.chainOf(s)
		if slices.Index(r.chains, ch) == len(first.Works) {
			first.Works = append(first.Works, ch.order())
		}
		first.Cells = append(first.Cells, s.order(slices.Index(r.chains, ch), r.Plan, 0))
	}
	a, err := askFirst(ctx, r.Against, first)
	if err != nil {
		return fmt.Errorf("--against %s: %w", r.Against, err)
	}
	if a.Environment == nil || len(a.Refused) != len(specs) {
		return fmt.Errorf("--against %s: its answer says nothing of the cells", r.Against)
	}
	r.result.Against = a.Environment.environment()
	r.result.Against.Link = r.result.Environment.Link // it runs where this build does
	var known []Spec
	why, compared := "", false
	for i, s := range specs {
		if a.Refused[i] == "" {
			known = append(known, s)
			compared = compared || !s.inside()
		} else if why == "" {
			why = a.Refused[i]
		}
	}
	if why != "" && !compared { // the control alone says nothing of the others
		return fmt.Errorf("--against %s: it can run none of these cells: %s", r.Against, why)
	}
	if err := r.addCells(known, "base", r.Against); err != nil {
		return err
	}
	return r.addCells(specs, "head", "")
}

// blockThere runs one block of c in a process of its build, and compares what it
// made with the reference chain of this one.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	slow := r.slow(c)
	o := order{Version: exchangeVersion, Works: []orderWork{c.chain.order()}, Cells: []orderCell{c.Spec.order(0, r.Plan, slow)}, Block: r.Plan.of(c.Spec).order(slow)}
	r.progress(r.label(c))
	debug.FreeOSMemory() // what the chain has left is not to be collected meanwhile
	guess, _ := c.guess(r.Plan, len(r.here.cpus))
	a, err := ask(ctx, quit, c.build, o, guess)
	if err != nil {
		return nil, err
	}
	got, hashes, err := a.fits(o.Block, c.Clients)
	if err != nil {
		return nil, fmt.Errorf("%s %s: its answer: %w", cmp.Or(c.build, os.Args[0]), BlockCommand, err)
	}
	got.Index, got.Position, got.At = b.Index, b.Position, b.At
	*b = got
	if len(b.Round) == 0 {
		return nil, nil // it was interrupted
	}
	s := &blockRun{cell: c.Spec, plan: r.Plan, chain: c.chain, block: b, hashes: hashes}
	return a.Pings, r.compare(ctx, c, s)
}

// The most of an answer that is read: to the first order, and of a block. A
// result holds no more either.
const (
	largestFirst  = 1 << 20
	largestAnswer = maxFile
)

// ask has a process of the build exe, or of this one if it is empty, carry out an
// order. When ctx ends, or the process stops answering, it is killed; when quit
// ends, it is asked to end early. guess is what a block takes.
func ask(ctx, quit context.Context, exe string, o order, guess time.Duration) (*answer, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stdout := &reexec.Excerpt{Most: largestFirst, Head: true}
	if o.Block != nil {
		stdout.Most = largestAnswer
	}
	stdout.Over = func() {
		end(fmt.Errorf("an answer of more than %d bytes: is it a build of ipcbench that can run single blocks?", stdout.Most))
	}
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	stderr := &reexec.Excerpt{Most: 1 << 10}
	p, err := reexec.Start(ctx, reexec.Command{Path: exe, Args: []string{BlockCommand}, Stdin: theirs, Stdout: stdout, Stderr: stderr})
	theirs.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(quit, func() { _ = stdin.Close() })
	defer stop()
	if o.Block != nil {
		go func() {
			if err := watchBlock(p, o, guess); err != nil {
				end(err)
			}
		}()
	}
	go func() { // a process that is stopped does not read
		_, _ = stdin.Write(append(text, '\n')) // if it does not read that, its end or its answer says why
	}()
	<-p.Exited()
	err = p.Err()
	var a *answer
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case err != nil:
		err = fmt.Errorf("%w: is it a build of ipcbench that can run single blocks?", err)
	default:
		a, err = parseAnswer(stdout.Bytes())
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", cmp.Or(exe, os.Args[0]), BlockCommand, err)
		if said := stderr.String(); said != "" {
			err = fmt.Errorf("%w\n%s", err, said)
		}
	}
	return a, err
}

// How long the process of a block may be stopped, and how long it may take for
// sure, besides many times what is guessed: its own watch over its workers ends it
// long before that.
const (
	stoppedPatience = time.Minute // unless the plan has a round limit
	blockPatience   = 10 * time.Minute
	blockGuesses    = 20
)

// watchBlock waits until the process of a block has been stopped for too long, or
// takes too long, and says so. It returns nil once the process has ended.
func watchBlock(p *reexec.Process, o order, guess time.Duration) error {
	pid := p.PID()
	patience := cmp.Or(o.Block.RoundLimit, stoppedPatience)
	tick := time.NewTicker(min(patience/4, 5*time.Second)) // seldom, as blocks are timed
	defer tick.Stop()
	began := time.Now()
	ran := began // when it was last seen running
	for {
		select {
		case <-p.Exited():
			return nil
		case <-tick.C:
		}
		if !usage.Stopped(pid) {
			ran = time.Now()
		}
		what := fmt.Sprintf("a block of %s, %s (pid %d)", o.Cells[0].Variant, o.Works[0].Model, pid)
		switch {
		case time.Since(ran) > patience:
			return fmt.Errorf("%s has been %s for %v: continue it (kill -CONT), or raise --round-limit", what, usage.State(pid), patience)
		case time.Since(began) > blockPatience+blockGuesses*guess:
			return fmt.Errorf("%s has not ended after %v and is %s", what, time.Since(began).Round(time.Second), usage.State(pid))
		}
	}
}

// parse reads an order or an answer. What another version made of the fields is
// not known, so that nothing else of it is looked at.
func parse(text []byte, v any) error {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	if head.Version != exchangeVersion {
		return fmt.Errorf("of version %d, where this build has version %d: measure both apart", head.Version, exchangeVersion)
	}
	return json.Unmarshal(text, v)
}

// parseAnswer checks what came from another process.
func parseAnswer(text []byte) (*answer, error) {
	a := new(answer)
	if err := parse(text, a); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	// Its texts reach the terminal and the result.
	if err := texts(a, true); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	for i, ns := range a.Pings {
		if ns <= 0 || ns > maxDuration {
			return nil, fmt.Errorf("pings_ns[%d]: %d: no duration of a call", i, ns)
		}
	}
	return a, nil
}

// ServeBlock carries out one order, which it reads from in, and answers on out.
// It ends early when ctx ends or in does.
func ServeBlock(ctx context.Context, in io.Reader, out io.Writer, h trainer.Host) error {
	d := json.NewDecoder(io.LimitReader(in, maxFile))
	var text json.RawMessage
	if err := d.Decode(&text); err != nil {
		return fmt.Errorf("%s: order: %w", BlockCommand, err)
	}
	quit, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with the process
		_, _ = io.Copy(io.Discard, in)
		cancel(errors.New("asked to end early"))
	}()
	a := &answer{Version: exchangeVersion, Rules: protocol}
	if err := a.carryOut(quit, text, h); err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(out).Encode(a)
}

func (a *answer) carryOut(quit context.Context, text []byte, h trainer.Host) error {
	var o order
	if err := parse(text, &o); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	specs, whos, errs := o.specs(h.Transports)
	if o.Block == nil {
		a.Environment = environmentOut(machine.Read())
		for _, err := range errs {
			refused := ""
			if err != nil {
				refused = err.Error()
			}
			a.Refused = append(a.Refused, refused)
		}
		return nil
	}
	if len(specs) != 1 {
		return fmt.Errorf("order: a block of %d cells: want one", len(specs))
	}
	plan, err := o.Block.plan()
	if err = cmp.Or(err, errs[0]); err != nil {
		return err
	}
	here, err := newHost(plan, h)
	if err != nil {
		return err
	}
	now, cancel := bounded(quit, grace)
	defer cancel()
	b := Block{SpanCost: spanCost()}
	s := &blockRun{cell: specs[0], plan: plan, slow: o.Block.Slow, roster: whos[0], block: &b}
	if err := here.run(now, quit, s); err != nil {
		return err
	}
	a.Block, a.Pings, a.Hashes = answerOf(b, s.unattributed, s.phases), s.pings, hashesOut(s.hashes)
	return nil
}
