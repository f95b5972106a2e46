package bench

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"ipcbench/bench/result"
	"ipcbench/machine"
	"ipcbench/phase"
	"ipcbench/phase/usage"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// Between the structs that travel and the program's own: each pair of functions is
// one conversion and its inverse. Structs that have the same fields are converted
// as such: where the program's own one changes, that does not compile any more, and
// wants a function.

// workOrder returns what is trained in the cell, and by whom.
func (s Spec) workOrder() orderWork {
	model, up := s.Model, s.up()
	w := orderWork{Model: model.Name, Down: tensorsOf(model.Layout), Change: s.Change, Scenario: s.Scenario}
	switch s.Values {
	case "":
		w.Values = model.File()
	case Normal:
		w.First = Normal
	}
	if up != model {
		w.Up, w.Update = tensorsOf(up.Layout), up.Name
	}
	for _, client := range trainer.Roster(s.Clients) {
		w.Clients = append(w.Clients, orderClient{client.ID, client.Weight, client.Device})
	}
	return w
}

func tensorsOf(l *tensor.Layout) []orderTensor {
	all := make([]orderTensor, 0, l.Len())
	for _, s := range l.Specs() {
		all = append(all, orderTensor{s.Name, s.DType.String(), append([]int{}, s.Shape...), s.Var})
	}
	return all
}

// spec returns what a cell of the work is, as far as the order describes it, and its
// clients.
func (w orderWork) spec() (s Spec, who []trainer.Client, err error) {
	if s.Model, s.Up, who, err = w.models(); err != nil {
		return s, nil, err
	}
	s.Clients, s.Change, s.Values, s.Scenario = len(who), w.Change, w.First, w.Scenario
	return s, who, nil
}

// models returns the model, update and clients that the order describes.
func (w orderWork) models() (model, up *models.Model, who []trainer.Client, err error) {
	if n := len(w.Clients); n < 1 || n > maxClients {
		return nil, nil, nil, fmt.Errorf("clients: %d: not from 1 to %d", n, maxClients)
	}
	for i, c := range w.Clients {
		switch {
		case c.ID != i:
			return nil, nil, nil, fmt.Errorf("clients[%d].id: %d: this build numbers clients from 0", i, c.ID)
		case !(c.Weight > 0 && c.Weight < 1<<50):
			return nil, nil, nil, fmt.Errorf("clients[%d].weight: %v: want a positive number", i, c.Weight)
		}
		if err := result.CheckText(c.Device); err != nil {
			return nil, nil, nil, fmt.Errorf("clients[%d].device: %w", i, err)
		}
		who = append(who, trainer.Client{ID: c.ID, Weight: c.Weight, Device: c.Device})
	}
	l, err := layoutOf("down", w.Down)
	if err != nil {
		return nil, nil, nil, err
	}
	model = &models.Model{Name: w.Model, Layout: l}
	if w.Values != "" {
		if model, err = models.Parse(w.Values); err != nil {
			return nil, nil, nil, err
		}
		if model.File() == "" || model.Layout.Digest() != l.Digest() {
			return nil, nil, nil, fmt.Errorf("values: %s: its tensors are not those of the order", w.Values)
		}
		model.Name = w.Model
	}
	if w.Up == nil {
		return model, nil, who, nil
	}
	if l, err = layoutOf("up", w.Up); err != nil || l.Digest() == model.Layout.Digest() {
		return model, nil, who, err
	}
	return model, &models.Model{Name: w.Update, Layout: l}, who, nil
}

// The most clients and tensors of an order.
const (
	maxClients = 100_000
	maxTensors = 1 << 20
)

func layoutOf(field string, tensors []orderTensor) (*tensor.Layout, error) {
	if len(tensors) > maxTensors {
		return nil, fmt.Errorf("%s: %d tensors: want at most %d", field, len(tensors), maxTensors)
	}
	specs := make([]tensor.Spec, len(tensors))
	for i, t := range tensors {
		d, err := tensor.ParseDType(t.DType)
		if err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		specs[i] = tensor.Spec{Name: t.Name, DType: d, Shape: t.Shape, Var: t.Var}
	}
	l, err := tensor.NewLayout(specs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return l, nil
}

// order returns the cell, whose work stands at that index.
func (s Spec) order(work int, p Plan, slow time.Duration) orderCell {
	c := orderCell{Needs: []string{}, Work: work, Variant: s.Variant.String(), Workers: s.Workers, PerProcess: s.PerProcess, Depth: s.Depth, Link: s.Link}
	for _, n := range []struct {
		need string
		has  bool
	}{
		{needValues, s.Model.File() != "" && s.Values == ""}, {needRespawn, s.Respawn}, {needPin, p.Pin}, {needSlow, slow > 0}, {needUp, s.up() != s.Model},
		{needChange, s.Change != (tensor.Change{})}, {needNormal, s.Values == Normal}, {needSync, s.Scenario == Sync}, {needLink, s.linked()}, {needNested, s.Nested},
	} {
		if n.has {
			c.Needs = append(c.Needs, n.need)
		}
	}
	return c
}

// specs returns the cells of the order and their clients, or why there is none.
func (o order) specs(all []driver.Transport) ([]Spec, [][]trainer.Client, []error) {
	type work struct {
		spec Spec
		who  []trainer.Client
		err  error
	}
	works := make([]work, len(o.Works))
	for i, w := range o.Works {
		works[i].spec, works[i].who, works[i].err = w.spec()
	}
	specs, whos, errs := make([]Spec, len(o.Cells)), make([][]trainer.Client, len(o.Cells)), make([]error, len(o.Cells))
	for i, c := range o.Cells {
		if c.Work < 0 || c.Work >= len(works) {
			errs[i] = fmt.Errorf("work: %d: the order has %d", c.Work, len(works))
			continue
		}
		w := works[c.Work]
		for _, need := range c.Needs {
			if !slices.Contains(knownNeeds, need) {
				errs[i] = fmt.Errorf("it needs %q, which this build does not know", need)
			}
		}
		if errs[i] = cmp.Or(errs[i], w.err); errs[i] != nil {
			continue
		}
		v, err := transports.Parse(c.Variant, all)
		if err == nil {
			specs[i] = w.spec
			specs[i].Variant, specs[i].Workers, specs[i].PerProcess, specs[i].Depth, specs[i].Link = v, c.Workers, c.PerProcess, c.Depth, c.Link
			specs[i].Nested = slices.Contains(c.Needs, needNested)
			if o.Block != nil {
				specs[i].TrainMS, specs[i].Respawn = o.Block.TrainMS, o.Block.Respawn
			}
			err = cmp.Or(specs[i].validate(), specs[i].checkLink())
		}
		whos[i], errs[i] = w.who, err
	}
	return specs, whos, errs
}

// order returns what the plan says of one block.
func blockOrder(p Plan, s Spec, slow time.Duration) *orderBlock {
	l := limitsOf(p)
	return &orderBlock{
		Seed: p.Seed, Rounds: l.rounds, Least: l.least, Time: l.time, Warmup: p.Warmup, WarmTime: l.warm, Verify: p.Verify, TrainMS: s.TrainMS,
		Spans: p.Samples, RoundLimit: p.RoundLimit, Respawn: s.Respawn, Pin: p.Pin, Slow: slow,
	}
}

// plan returns a plan of that block alone.
func (b *orderBlock) plan() (Plan, error) {
	p := Plan{
		Rules: rules, Blocks: 1, Precision: 1,
		Seed: b.Seed, Rounds: b.Rounds, Least: b.Least, Time: b.Time, Warmup: b.Warmup, WarmTime: b.WarmTime, Verify: b.Verify,
		Samples: b.Spans, RoundLimit: b.RoundLimit, Pin: b.Pin,
	}
	if p.Rounds > 0 && p.Time == 0 {
		p.Time = 1 // which does not count
	}
	return p, cmp.Or(CheckPlan(p), result.Check(b))
}

// lend is what version 1 of answers calls the phase [phase.ReserveUpdate].
const lend = "lend"

// renamed returns the phases with another name for one of them, if it is there.
func renamed(phases map[string][]int64, from, to string) map[string][]int64 {
	if ns, ok := phases[from]; ok {
		phases = maps.Clone(phases)
		delete(phases, from)
		phases[to] = ns
	}
	return phases
}

// answerOf also takes what the block has the sums of, with an entry a timed round.
func answerOf(b Block, unattributed []int64, phases map[string][]int64) *answerBlock {
	a := &answerBlock{
		Spawn: b.Spawn, TLS: (*answerTLS)(b.TLS), Cold: answerCold{Round: b.Cold.Round, Server: usageOut(b.Cold.Server)},
		Round: b.Round, Unattributed: unattributed, Train: b.Train, RTT: b.RTT, Down: b.Down, Up: b.Up,
		Phases: renamed(phases, phase.ReserveUpdate.String(), lend), Server: processOut(b.Server), System: (*answerSystem)(b.System),
		Proof: answerProof{b.Proof.Rounds, b.Proof.Updates}, Spans: b.Spans, SpanCost: b.SpanCost,
	}
	for _, u := range b.Cold.Processes {
		a.Cold.Workers = append(a.Cold.Workers, usageOut(u))
	}
	for _, w := range b.Processes {
		a.Workers = append(a.Workers, processOut(w))
	}
	return a
}

// block leaves out what is the asking build's to say: the place in the run, and
// how many hashes were right.
func (a *answerBlock) block() (Block, error) {
	b := Block{
		Spawn: a.Spawn, TLS: (*TLS)(a.TLS), Cold: Cold{Round: a.Cold.Round, Server: usageIn(a.Cold.Server)},
		Round: a.Round, Train: a.Train, RTT: a.RTT, Down: a.Down, Up: a.Up, Server: processIn(a.Server), System: (*usage.System)(a.System),
		Proof: Proof{Rounds: a.Proof.Rounds, Updates: a.Proof.Updates}, Spans: a.Spans, SpanCost: a.SpanCost,
	}
	for _, u := range a.Cold.Workers {
		b.Cold.Processes = append(b.Cold.Processes, usageIn(u))
	}
	for _, w := range a.Workers {
		b.Processes = append(b.Processes, processIn(w))
	}
	var err error
	b.Unattributed, b.Phases, err = sums(a.Unattributed, renamed(a.Phases, lend, phase.ReserveUpdate.String()), len(a.Round))
	return b, err
}

func processOut(p Process) answerProcess {
	return answerProcess{usageOut(p.Usage), answerMemory(p.Memory), p.Counts, p.CPUs, p.StalePeak, p.Import}
}

func processIn(p answerProcess) Process {
	return Process{Usage: usageIn(p.Usage), Memory: usage.Memory(p.Memory), Counts: p.Counts, CPUs: p.CPUs, StalePeak: p.StalePeak, Import: p.Import}
}

func usageOut(u usage.Usage) answerUsage {
	return answerUsage{
		u.User, u.System, u.MinorFaults, u.MajorFaults, u.VoluntarySwitches, u.InvoluntarySwitches,
		u.AllocBytes, u.AllocObjects, u.GCCycles, u.GCTime, (*answerQueue)(u.Queue), (*answerIO)(u.IO),
	}
}

func usageIn(u answerUsage) usage.Usage {
	return usage.Usage{
		User: u.User, System: u.System, MinorFaults: u.MinorFaults, MajorFaults: u.MajorFaults,
		VoluntarySwitches: u.VoluntarySwitches, InvoluntarySwitches: u.InvoluntarySwitches,
		AllocBytes: u.AllocBytes, AllocObjects: u.AllocObjects, GCCycles: u.GCCycles, GCTime: u.GCTime,
		Queue: (*usage.Queue)(u.Queue), IO: (*usage.IO)(u.IO),
	}
}

func environmentOut(e machine.Environment) *answerEnvironment {
	return &answerEnvironment{
		e.Time, e.CPU, e.CPUs, e.Affinity, e.GOMAXPROCS, e.LLC, e.Governor, e.Hypervisor, e.Arch, e.Kernel, e.AES,
		e.MemTotal, e.MemAvailable, (*answerCgroup)(e.Cgroup), (*answerSpace)(e.Shm), (*answerSpace)(e.Tmp), e.THP, e.ShmemTHP,
		e.HugePages, e.SocketBuffer, e.Go, e.Commit, e.Dirty, e.Race,
	}
}

func (a *answerEnvironment) environment() *machine.Environment {
	return &machine.Environment{
		Time: a.Time, CPU: a.CPU, CPUs: a.CPUs, Affinity: a.Affinity, GOMAXPROCS: a.GOMAXPROCS, LLC: a.LLC,
		Governor: a.Governor, Hypervisor: a.Hypervisor, Arch: a.Arch, Kernel: a.Kernel, AES: a.AES,
		MemTotal: a.MemTotal, MemAvailable: a.MemAvailable,
		Cgroup: (*machine.Cgroup)(a.Cgroup), Shm: (*machine.Space)(a.Shm), Tmp: (*machine.Space)(a.Tmp),
		THP: a.THP, ShmemTHP: a.ShmemTHP, HugePages: a.HugePages, SocketBuffer: a.SocketBuffer,
		Go: a.Go, Commit: a.Commit, Dirty: a.Dirty, Race: a.Race,
	}
}

func hashesOut(hashes []uint64) []string {
	var all []string
	for _, h := range hashes {
		all = append(all, fmt.Sprintf("%016x", h))
	}
	return all
}

func hashesIn(field string, texts []string) ([]uint64, error) {
	hashes := make([]uint64, len(texts))
	for i, text := range texts {
		h, err := strconv.ParseUint(text, 16, 64)
		if err != nil || text != fmt.Sprintf("%016x", h) {
			return nil, fmt.Errorf("%s[%d]: %.40q: want 16 hex digits", field, i, text)
		}
		hashes[i] = h
	}
	return hashes, nil
}

// fits reports what a block of that order cannot have: it bounds the rounds that
// the reference chain is made for.
func (a *answer) fits(o *orderBlock, clients int) (Block, []uint64, error) {
	if a.Block == nil {
		return Block{}, nil, errors.New("the answer holds no block")
	}
	b, err := a.Block.block()
	if err != nil {
		return b, nil, err
	}
	hashes, err := hashesIn("hashes", a.Hashes)
	if err != nil || len(b.Round) == 0 { // it was interrupted
		return b, nil, err
	}
	if err := cmp.Or(result.Check(b), b.Validate(clients)); err != nil {
		return b, nil, err
	}
	if want := len(b.Round) * clients; len(b.RTT) != want { // what is kept of many clients is chosen here
		return b, nil, result.Errorf("rtt_ns", "%d samples: want %d", len(b.RTT), want)
	}
	if m := max(o.Rounds, mostRounds); len(b.Round) > m {
		return b, nil, fmt.Errorf("round_ns: %d timed rounds: a block has at most %d", len(b.Round), m)
	}
	if a.Unproved != "" {
		return b, nil, a.admits(b)
	}
	// Besides the timed rounds, there are the first, those that warm up and those
	// that are proved: two, and at most one before each timed one.
	if b.Proof.Rounds > 2+len(b.Round) || b.Proof.Updates != b.Proof.Rounds*clients {
		return b, nil, fmt.Errorf("proof: %d updates in %d rounds: want all of %d clients, and no more rounds than there are", b.Proof.Updates, b.Proof.Rounds, clients)
	}
	least := 1 + len(b.Round) + b.Proof.Rounds
	if most := least + max(o.Warmup, mostWarm); len(hashes) < least || len(hashes) > most {
		return b, nil, fmt.Errorf("hashes: of %d models: want %d to %d for %d timed rounds and %d that were proved", len(hashes), least, most, len(b.Round), b.Proof.Rounds)
	}
	return b, hashes, nil
}

// admits checks an answer that proves nothing: it says why, and claims nothing.
func (a *answer) admits(b Block) error {
	if len(a.Hashes)+len(a.Running) > 0 || b.Proof != (Proof{}) {
		return errors.New("unproved: there are hashes, or rounds that were proved: want either")
	}
	if len(a.Unproved) > maxPeer {
		return fmt.Errorf("unproved: %d bytes long: want at most %d", len(a.Unproved), maxPeer)
	}
	return nil
}

// check reports what a block of s cannot have, of a build or, by stricter rules, of a peer.
// It returns the hashes of its models, and those after each tensor if they are known.
// Only a block that was asked to end early may have no timed round, and then no hashes.
func (a *answer) check(o *orderBlock, s Spec, ended bool) (b Block, hashes []uint64, running [][]uint64, err error) {
	peer := s.peer() != nil
	b, hashes, err = a.fits(o, s.Clients)
	switch {
	case err != nil:
	case a.Unproved != "" && !peer:
		err = errors.New("unproved: this is for peers")
	case len(b.Round) > 0:
		if running, err = a.runs(hashes, s.Model.Layout.Len()); err == nil && peer {
			err = ofPeer(b, s, a.Unproved == "")
		}
	case !ended:
		err = errors.New("round_ns: no round was timed")
	}
	return b, hashes, running, err
}

// runs returns the hashes after each tensor of the models that have these hashes; none
// if the answer has none. Of a model without tensors there is its hash.
func (a *answer) runs(hashes []uint64, tensors int) ([][]uint64, error) {
	if len(a.Running) == 0 {
		return nil, nil
	}
	if len(a.Running) != len(hashes) {
		return nil, fmt.Errorf("running: of %d models: want %d, as many as hashes", len(a.Running), len(hashes))
	}
	all := make([][]uint64, len(hashes))
	for n, texts := range a.Running {
		field := fmt.Sprintf("running[%d]", n)
		of, err := hashesIn(field, texts)
		switch {
		case err != nil:
			return nil, err
		case len(of) != max(1, tensors):
			return nil, fmt.Errorf("%s: of %d tensors: want %d", field, len(of), tensors)
		case of[len(of)-1] != hashes[n]:
			return nil, fmt.Errorf("%s: the last is %016x: want the model's, %016x", field, of[len(of)-1], hashes[n])
		}
		all[n] = of
	}
	return all, nil
}
