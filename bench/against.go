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
	"os/exec"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"time"

	"ipcbench/machine"
	"ipcbench/phase/usage"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// An interleaved run takes blocks of two builds of ipcbench in turn. Each block
// is a process of its build, started for it: the other build's and this one's
// alike, so that neither has an older heap. It reads an order from stdin and
// answers on stdout; the end of stdin asks it to end early.

// BlockCommand is the argument that makes a build of ipcbench read an order and
// run one block. Both builds of an interleaved run must know it.
const BlockCommand = "block"

// An order asks for one block, or, without a cell, what the build can do.
type order struct {
	Schema int           `json:"schema"`
	Cells  []cellOrder   `json:"cells,omitempty"` // that will be asked for; of the first order
	Cell   *cellOrder    `json:"cell,omitempty"`
	Plan   Plan          `json:"plan"`
	Slow   time.Duration `json:"slow_ns,omitempty"` // CPU time that every Submit burns
	Hashes []uint64      `json:"hashes,omitempty"`  // the build's own reference chain, as far as it is known

	guess time.Duration // that the block takes
}

// A cellOrder is a Spec in words.
type cellOrder struct {
	Variant    string `json:"variant"`
	Model      string `json:"model"`
	Workers    int    `json:"workers"`
	Clients    int    `json:"clients"`
	PerProcess int    `json:"lanes_per_process"`
	Depth      int    `json:"depth"`
}

// An answer is what came of an order.
type answer struct {
	Schema      int                  `json:"schema"`
	Protocol    int                  `json:"protocol"`              // of the build
	Environment *machine.Environment `json:"environment,omitempty"` // with the build in it; to the first order
	Refused     []string             `json:"refused,omitempty"`     // why, for each cell of the first order; empty if it is not
	Block       *Block               `json:"block,omitempty"`
	Pings       []int64              `json:"pings_ns,omitempty"`
	Hashes      []uint64             `json:"hashes,omitempty"` // if the chain had to be longer than the order's
	Error       string               `json:"error,omitempty"`
}

// otherBuild is another build of ipcbench.
type otherBuild struct {
	exe    string
	chains map[*chain]*[]uint64 // by the chain of this build for the same cells
}

// chainOf returns where the hashes of the build's own chain stand.
func (b *otherBuild) chainOf(ch *chain) *[]uint64 {
	if b.chains[ch] == nil {
		b.chains[ch] = new([]uint64)
	}
	return b.chains[ch]
}

func (s Spec) order() cellOrder {
	return cellOrder{
		Variant: s.Variant.String(), Model: s.Model.Name,
		Workers: s.Workers, Clients: s.Clients, PerProcess: s.PerProcess, Depth: s.Depth,
	}
}

func (o cellOrder) spec(all []driver.Transport) (Spec, error) {
	v, err := transports.Parse(o.Variant, all)
	if err != nil {
		return Spec{}, err
	}
	m, err := models.Parse(o.Model)
	if err != nil {
		return Spec{}, err
	}
	s := Spec{Variant: v, Model: m, Workers: o.Workers, Clients: o.Clients, PerProcess: o.PerProcess, Depth: o.Depth}
	return s, s.validate()
}

// ProbeBuild reports why the executable exe cannot be the other build of an
// interleaved run.
func ProbeBuild(ctx context.Context, exe string) error {
	_, err := askFirst(ctx, exe, order{Schema: Schema})
	return err
}

// askFirst gives the first order, which takes no time to carry out.
func askFirst(ctx context.Context, exe string, o order) (*answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s %s: no answer within %v", exe, BlockCommand, patience))
	defer cancel()
	a, err := ask(ctx, ctx, exe, o)
	if err == nil && a.Protocol != protocol {
		return nil, fmt.Errorf("%s measures blocks by version %d of the rules, this build by version %d: their blocks do not compare", exe, a.Protocol, protocol)
	}
	return a, err
}

// patience is how long another build may take to say what it can.
const patience = 10 * time.Second

// addBuilds adds all cells of both builds, but for those that the other one does
// not know.
func (r *run) addBuilds(ctx context.Context, specs []Spec) error {
	r.base = &otherBuild{exe: r.Against, chains: map[*chain]*[]uint64{}}
	first := order{Schema: Schema, Plan: r.Plan}
	for _, s := range specs {
		first.Cells = append(first.Cells, s.order())
	}
	a, err := askFirst(ctx, r.base.exe, first)
	if err != nil {
		return fmt.Errorf("--against %s: %w", r.base.exe, err)
	}
	if a.Environment == nil || len(a.Refused) != len(specs) {
		return fmt.Errorf("--against %s: its answer says nothing of the cells", r.base.exe)
	}
	r.result.Against = a.Environment
	var known []Spec
	for i, s := range specs {
		if a.Refused[i] == "" {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return fmt.Errorf("--against %s: it can run none of these cells: %s", r.base.exe, a.Refused[0])
	}
	if err := r.addCells(known, "base", r.base); err != nil {
		return err
	}
	return r.addCells(specs, "head", nil)
}

// blockThere runs one block of c in a process of its build.
func (r *run) blockThere(ctx, quit context.Context, c *cell, b *Block) (pings []int64, err error) {
	asked := c.order()
	o := order{Schema: Schema, Cell: &asked, Plan: r.Plan, Slow: r.slow(c), guess: c.guess(r.Plan, len(r.here.cpus))}
	exe, hashes := self, &c.chain.hashes
	if c.build != nil {
		exe, hashes = c.build.exe, c.build.chainOf(c.chain)
	}
	o.Hashes = *hashes
	r.progress(c.String(), 0)
	a, err := ask(ctx, quit, exe, o)
	if err != nil {
		return nil, err
	}
	if a.Block == nil {
		return nil, errors.New("the answer holds no block")
	}
	if len(a.Hashes) > len(*hashes) {
		*hashes = a.Hashes
	}
	a.Block.Index, a.Block.Position, a.Block.At = b.Index, b.Position, b.At
	*b = *a.Block
	if len(b.Round) == 0 {
		return nil, nil // it was interrupted
	}
	return a.Pings, b.validate(c.Clients)
}

// self is this build, also if the file that it was started from was replaced.
const self = "/proc/self/exe"

// The most of an answer that is read: to the first order, and of a block. A
// result holds no more either.
const (
	largestFirst  = 1 << 20
	largestAnswer = largest
)

// ask has a process of the build exe carry out an order. When ctx ends, or the
// process stops answering, it is killed; when quit ends, it is asked to end early.
func ask(ctx, quit context.Context, exe string, o order) (*answer, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The kernel sends Pdeathsig when the thread that started the process ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, exe, BlockCommand)
	if exe == self {
		cmd.Args[0] = os.Args[0]
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true} // an interrupt from the terminal is for this process
	cmd.WaitDelay = time.Second
	stdout := &capped{most: largestFirst, end: end}
	if o.Cell != nil {
		stdout.most = largestAnswer
	}
	var stderr tail
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(quit, func() { _ = stdin.Close() })
	defer stop()
	unwatch := make(chan struct{})
	if o.Cell != nil {
		go func() {
			if err := watchBlock(cmd.Process.Pid, o, unwatch); err != nil {
				end(err)
			}
		}()
	}
	go func() { // a process that is stopped does not read
		_, _ = stdin.Write(append(text, '\n')) // if it does not read that, its end or its answer says why
	}()
	waitErr := cmd.Wait()
	close(unwatch)
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%s %s: %w%s", exe, BlockCommand, context.Cause(ctx), stderr.text())
	}
	if waitErr != nil {
		return nil, fmt.Errorf("%s %s: %w: is it a build of ipcbench that can run single blocks?%s", exe, BlockCommand, waitErr, stderr.text())
	}
	a, err := parseAnswer(stdout.b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w%s", exe, BlockCommand, err, stderr.text())
	}
	return a, nil
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
// takes too long, and says so. It returns nil once unwatch is closed.
func watchBlock(pid int, o order, unwatch <-chan struct{}) error {
	patience := cmp.Or(o.Plan.RoundLimit, stoppedPatience)
	tick := time.NewTicker(min(patience/4, 5*time.Second)) // seldom, as blocks are timed
	defer tick.Stop()
	began := time.Now()
	ran := began // when it was last seen running
	for {
		select {
		case <-unwatch:
			return nil
		case <-tick.C:
		}
		if !usage.Stopped(pid) {
			ran = time.Now()
		}
		what := fmt.Sprintf("a block of %s, %s (pid %d)", o.Cell.Variant, o.Cell.Model, pid)
		switch {
		case time.Since(ran) > patience:
			return fmt.Errorf("%s has been %s for %v: whoever stopped it can let it go on, or raise --round-limit", what, usage.State(pid), patience)
		case time.Since(began) > blockPatience+blockGuesses*o.guess:
			return fmt.Errorf("%s has not ended after %v and is %s", what, time.Since(began).Round(time.Second), usage.State(pid))
		}
	}
}

// parseAnswer checks what came from another process.
func parseAnswer(text []byte) (*answer, error) {
	a := new(answer)
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if a.Schema != Schema {
		return nil, fmt.Errorf("its results are of version %d, those of this build of version %d: measure both apart", a.Schema, Schema)
	}
	// Its texts reach the terminal and the result.
	if err := texts(reflect.ValueOf(a), true); err != nil {
		return nil, fmt.Errorf("its answer: %w", err)
	}
	if a.Error != "" {
		return nil, errors.New(a.Error)
	}
	for i, ns := range a.Pings {
		if ns <= 0 || ns > longest {
			return nil, fmt.Errorf("pings_ns[%d]: %d: no duration of a call", i, ns)
		}
	}
	return a, nil
}

// ServeBlock carries out one order, which it reads from in, and answers on out.
// It ends early when ctx ends or in does.
func ServeBlock(ctx context.Context, in io.Reader, out io.Writer, h trainer.Host) error {
	d := json.NewDecoder(in)
	var o order
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("%s: order: %w", BlockCommand, err)
	}
	a := &answer{Schema: Schema, Protocol: protocol}
	if o.Schema == Schema { // if not, the version in the answer says it all
		quit, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, d.Buffered())
			_, _ = io.Copy(io.Discard, in)
			cancel(errors.New("asked to end early"))
		}()
		if err := a.carryOut(quit, o, h); err != nil {
			a.Error = err.Error()
		}
	}
	return json.NewEncoder(out).Encode(a)
}

func (a *answer) carryOut(quit context.Context, o order, h trainer.Host) error {
	if o.Cell == nil {
		e := machine.Read()
		a.Environment = &e
		for _, c := range o.Cells {
			refused := ""
			if _, err := c.spec(h.Transports); err != nil {
				refused = err.Error()
			}
			a.Refused = append(a.Refused, refused)
		}
		return nil
	}
	if err := o.Plan.Validate(); err != nil {
		return err
	}
	cell, err := o.Cell.spec(h.Transports)
	if err != nil {
		return err
	}
	here, err := newHost(o.Plan, h)
	if err != nil {
		return err
	}
	defer here.close()
	now, cancel := bounded(quit)
	defer cancel()
	ch := &chain{model: cell.Model, clients: cell.Clients, seed: o.Plan.Seed, hashes: o.Hashes}
	a.Block = &Block{SpanCost: spanCost()}
	s := &session{cell: cell, plan: o.Plan, chain: ch, slow: o.Slow, roster: roster(cell.Clients), block: a.Block}
	if err := here.run(now, quit, s); err != nil {
		return err
	}
	a.Pings = s.pings
	if len(ch.hashes) > len(o.Hashes) {
		a.Hashes = ch.hashes
	}
	return nil
}

// capped is a buffer that ends what writes to it once that is more than an answer
// can be. It has no other method: io.Copy would go around Write.
type capped struct {
	b    bytes.Buffer
	most int
	end  context.CancelCauseFunc
}

func (c *capped) Write(b []byte) (int, error) {
	if c.b.Len()+len(b) > c.most {
		err := fmt.Errorf("an answer of more than %d bytes: is it a build of ipcbench that can run single blocks?", c.most)
		c.end(err)
		return 0, err
	}
	return c.b.Write(b)
}

// tail keeps the last kilobyte of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(b []byte) (int, error) {
	t.b = append(t.b, b...)
	if over := len(t.b) - 1024; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(b), nil
}

func (t *tail) text() string {
	text := ""
	for line := range strings.Lines(string(t.b)) {
		if line = strings.TrimSpace(line); line != "" {
			text += "\n" + printable(line)
		}
	}
	return text
}
