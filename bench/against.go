package bench

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	v1 "github.com/go-json-experiment/json/v1"

	"ipcbench/bench/result"
	"ipcbench/machine"
	"ipcbench/phase/usage"
	"ipcbench/reexec"
	"ipcbench/trainer"
)

// An interleaved run takes blocks of two builds of ipcbench in turn. Each block
// is a process of a layout of its build, started for it: the other build's and this
// one's alike, so that neither has an older heap. It reads an order from stdin and
// answers on stdout; the end of stdin asks it to end early.

// BlockCommand is the argument that makes a build of ipcbench read an order and
// run one block. Both builds of an interleaved run must know it.
const BlockCommand = "block"

// A program carries out orders: a build of ipcbench, or a peer.
type program struct {
	name  string // in errors
	path  string // of the executable; empty is this one
	args  []string
	dir   string // in which it starts; empty is where this process is
	env   []string
	doubt string // what to ask if it fails
	late  string // what to do if it does not answer
	keep  bool   // it is anybody's: nothing that it starts outlives it
}

func (p program) String() string { return p.name }

// build returns the program that a build of ipcbench is, by its executable; empty is
// this one.
func build(exe string) program {
	path := exe
	if exe == filepath.Base(exe) { // a file of this folder, and not a command
		path = "./" + exe
	}
	return program{
		name: cmp.Or(exe, os.Args[0]) + " " + BlockCommand, path: path, args: []string{BlockCommand},
		doubt: ": is it a build of ipcbench that can run single blocks?",
	}
}

// askFirst gives the first order, which takes no time to carry out.
func askFirst(ctx context.Context, p program, o order, patience time.Duration) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer within %v%s", patience, p.late))
	defer cancel()
	a, err := ask(ctx, ctx, p, o, 0)
	if err == nil && a.Rules != rules {
		return nil, fmt.Errorf("%s measures blocks by version %d of the rules, this build by version %d: their numbers cannot be compared; make both follow the same rules", p, a.Rules, rules)
	}
	return a, err
}

// patience is how long another build may take to say what it can.
const patience = 10 * time.Second

// addBuilds adds all cells of both builds, but for those that the other one does
// not know.
func (r *run) addBuilds(ctx context.Context, specs []Spec) error {
	base, head := r.sides()
	r.result.Layouts = new(Layouts)
	var err error
	if r.result.Layouts.Base, err = base.layouts(); err != nil {
		return err
	}
	if r.result.Layouts.Head, err = head.layouts(); err != nil {
		return err
	}
	known, err := r.askBase(ctx, base, specs)
	if err != nil {
		return &BuildError{fmt.Errorf("%s %s: %w", base.flag, base.name(0), err)}
	}
	if err := base.alike(ctx, *r.result.Against); err != nil {
		return err
	}
	if err := head.alike(ctx, r.result.Environment); err != nil {
		return err
	}
	if err := r.addCells(known, base); err != nil {
		return err
	}
	return r.addCells(specs, head)
}

// askBase asks the other build which cells it can run, and keeps what it says of itself.
func (r *run) askBase(ctx context.Context, base side, specs []Spec) (known []Spec, err error) {
	a, err := askFirst(ctx, build(base.files[0]), firstOrder(specs, r.Plan), patience)
	if err != nil {
		return nil, err
	}
	if a.Environment == nil || len(a.Refused) != len(specs) {
		return nil, errors.New("its answer says nothing of the cells")
	}
	r.result.Against = a.Environment.environment()
	r.result.Against.Link = r.result.Environment.Link // it runs where this build does
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
		return nil, fmt.Errorf("it can run none of these cells: %s", why)
	}
	return known, nil
}

// firstOrder asks which of the cells a program can run.
func firstOrder(specs []Spec, p Plan) order {
	o := order{Version: exchangeVersion}
	var works []chainKey
	for _, s := range specs {
		key := s.chainKey()
		i := slices.Index(works, key)
		if i < 0 {
			i = len(works)
			works = append(works, key)
			o.Works = append(o.Works, s.workOrder())
		}
		o.Cells = append(o.Cells, s.order(i, p, 0))
	}
	return o
}

// program returns what runs a block of c in that layout, if it is not this process.
func (r *run) program(c *cell, layout int) (program, error) {
	if p := c.peer(); p != nil {
		return p.program(r.Python.Dir)
	}
	return build(c.files[layout]), nil
}

// blockThere runs one block of c in a process of its build, or has its peer run it, and
// compares what that made with the reference chain of this one.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	p, err := r.program(c, b.Layout)
	if err != nil {
		return nil, err
	}
	slow := r.slow(c)
	o := order{Version: exchangeVersion, Works: []orderWork{c.workOrder()}, Cells: []orderCell{c.Spec.order(0, r.Plan, slow)}, Block: blockOrder(c.Spec.planned(r.Plan), c.Spec, slow)}
	r.progress(r.label(c))
	debug.FreeOSMemory() // what the chain has left is not to be collected meanwhile
	guess, _ := c.guess(r.Plan, len(r.here.cpus))
	a, err := ask(ctx, quit, p, o, guess)
	if err != nil && p.keep && quit.Err() != nil { // it did not know how to end early
		return nil, context.Cause(quit)
	}
	if err != nil {
		return nil, err
	}
	s := &blockRun{cell: c.Spec, plan: r.Plan, chain: c.chain, block: b}
	var got Block
	if got, s.hashes, s.running, err = a.check(o.Block, c.Spec, quit.Err() != nil); err != nil {
		return nil, fmt.Errorf("%s: its answer: %w", p, err)
	}
	if a.Software != nil { // with what it has loaded since
		c.result.Software = a.Software
	}
	got.Index, got.Layout, got.Position, got.At = b.Index, b.Layout, b.Position, b.At
	*b = got
	if len(b.Round) == 0 {
		return nil, nil // it was interrupted
	}
	if a.Unproved != "" { // nothing can be compared
		c.result.Unproved = cmp.Or(c.result.Unproved, a.Unproved)
		return a.Pings, nil
	}
	return a.Pings, r.compare(ctx, c, s)
}

// largestAnswer is the most of any answer that is read, in bytes, and longestCall the longest
// that an empty call can take.
const (
	largestAnswer = 256 << 20
	longestCall   = 24 * time.Hour
)

// The most of an answer to the first order that is read, in bytes.
const largestFirst = 1 << 20

// largest returns the most of an answer that is read, in bytes: of a block, there are
// times of the rounds, and hashes of the tensors after each.
func (o order) largest() int {
	if o.Block == nil {
		return largestFirst
	}
	timed := int64(max(o.Block.Rounds, mostRounds))
	rounds := 2*timed + 3 + int64(max(o.Block.Warmup, mostWarm))
	w := o.Works[0]
	return int(min(largestAnswer, largestFirst+timed*(4<<10+128*int64(len(w.Clients)))+rounds*(64+32*int64(len(w.Down)))))
}

// ask has a process of a program carry out an order. When ctx ends, or the process
// stops answering, it is killed; when quit ends, it is asked to end early. guess is what
// a block takes.
func ask(ctx, quit context.Context, of program, o order, guess time.Duration) (*answer, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stdout := &reexec.Excerpt{Most: o.largest(), Head: true}
	stdout.Over = func() { end(fmt.Errorf("an answer of more than %d bytes%s", stdout.Most, of.doubt)) }
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	stderr := &reexec.Excerpt{Most: 1 << 10}
	p, err := reexec.Start(ctx, reexec.Command{Path: of.path, Args: of.args, Env: of.env, Dir: of.dir, Keep: of.keep, Stdin: theirs, Stdout: stdout, Stderr: stderr})
	theirs.Close()
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(quit, func() { _ = stdin.Close() })
	defer stop()
	if o.Block != nil {
		go func() {
			watch := watchBlock
			if of.keep {
				watch = watchPeer
			}
			if err := watch(p, o, guess); err != nil {
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
		err = fmt.Errorf("%w%s", err, of.doubt)
	default:
		a, err = parseAnswer(stdout.Bytes())
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", of, err)
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
		what := fmt.Sprintf("%s (pid %d)", o.what(), pid)
		switch {
		case time.Since(ran) > patience:
			return fmt.Errorf("%s has been %s for %v: continue it (kill -CONT), or raise --round-limit", what, usage.State(pid), patience)
		case time.Since(began) > blockPatience+blockGuesses*guess:
			return fmt.Errorf("%s has not ended after %v and is %s", what, time.Since(began).Round(time.Second), usage.State(pid))
		}
	}
}

// How long a peer may take to say what it can, for which it may have to import much, or
// the plan's round limit if that is longer; and besides many times what is guessed for a
// block, unless the plan has a round limit. It shows nothing of how far it is.
const (
	peerAnswers  = 30 * time.Second
	peerPatience = 2 * time.Minute
)

// peerHint says what may be wrong with a peer that does not answer.
const peerHint = "if it needs longer, raise --round-limit; if it waits for the end of stdin, have it read one line"

// watchPeer waits until the peer of a block takes too long, and says so. It returns nil
// once all of it has ended.
func watchPeer(p *reexec.Process, o order, guess time.Duration) error {
	limit := cmp.Or(o.Block.RoundLimit, peerPatience) + blockGuesses*guess
	over := time.NewTimer(limit)
	defer over.Stop()
	select {
	case <-p.Exited():
		return nil
	case <-over.C:
		return fmt.Errorf("%s has not ended after %v: %s", o.what(), limit.Round(time.Millisecond), peerHint)
	}
}

// what says of which block an order is.
func (o order) what() string {
	return fmt.Sprintf("a block of %s, %s", o.Cells[0].Variant, o.Works[0].Model)
}

// parse reads an order or an answer. What another version made of the fields is
// not known, so that nothing else of it is looked at.
func parse(text []byte, v any) error {
	var head struct {
		Version int `json:"version"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&head); err == io.EOF {
		return errors.New("there is none")
	} else if err != nil {
		return fmt.Errorf("%.60q: %w", text, err)
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("behind it stands %.60q: want one answer, and nothing else", rest)
	}
	if head.Version != exchangeVersion {
		return fmt.Errorf("of version %d, where this build has version %d: measure both apart", head.Version, exchangeVersion)
	}
	return result.Located(text, jsonv2.Unmarshal(text, v, v1.FormatDurationAsNano(true)))
}

// parseAnswer checks what came from another process.
func parseAnswer(text []byte) (*answer, error) {
	a := new(answer)
	if err := parse(text, a); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	// Its texts reach the terminal and the result.
	result.MakePrintable(a)
	if err := (Cell{Software: a.Software}).ValidateHead(); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	for i, ns := range a.Pings {
		if ns <= 0 || ns > int64(longestCall) {
			return nil, fmt.Errorf("pings_ns[%d]: %d: no duration of a call", i, ns)
		}
	}
	return a, nil
}

// ServeBlock carries out one order, which it reads from in, and answers on out.
// It ends early when ctx ends or in does.
func ServeBlock(ctx context.Context, in io.Reader, out io.Writer, h trainer.Host) error {
	d := json.NewDecoder(io.LimitReader(in, largestAnswer))
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
	a := &answer{Version: exchangeVersion, Rules: rules}
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
