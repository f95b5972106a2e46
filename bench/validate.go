package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"ipcbench/doctor"
	"ipcbench/machine"
	"ipcbench/phase"
)

// Validate reports the first thing that no run could have written, by the name
// of its field in the file.
func (r *Result) Validate() error {
	if err := r.validateHead(); err != nil {
		return err
	}
	for i, f := range r.Floors {
		if err := f.validate(); err != nil {
			return within(fmt.Sprintf("floors[%d]", i), err)
		}
	}
	if len(r.Cells) == 0 && r.Partial == "" {
		return errors.New("cells: none")
	}
	seen := map[string]int{}
	for i, c := range r.Cells {
		if err := cmp.Or(c.validate(), c.validateLayouts(r.Layouts)); err != nil {
			return within(fmt.Sprintf("cells[%d]", i), err)
		}
		id := c.Build + " " + c.ID()
		if j, ok := seen[id]; ok {
			return fmt.Errorf("cells[%d]: the same as cells[%d]: %s", i, j, c.ID())
		}
		seen[id] = i
	}
	if r.Canary != nil {
		if err := share("canary.slowdown", r.Canary.Slowdown, maxSlowdown); err != nil {
			return err
		}
		if err := cmp.Or(r.Canary.Same.validate(), r.Canary.Same.validateLayouts(r.Layouts)); err != nil {
			return within("canary.same", err)
		}
		if err := cmp.Or(r.Canary.Slow.validate(), r.Canary.Slow.validateLayouts(r.Layouts)); err != nil {
			return within("canary.slow", err)
		}
	}
	return nil
}

// validateHead checks what is known before anything is measured, and all texts.
func (r *Result) validateHead() error {
	if r.Schema != Schema {
		return fmt.Errorf("schema: version %d: this ipcbench writes version %d", r.Schema, Schema)
	}
	if err := r.Plan.read(); err != nil {
		return within("plan", err)
	}
	if err := r.validateHosts(); err != nil {
		return err
	}
	if err := r.Layouts.validate(); err != nil {
		return within("layouts", err)
	}
	if r.Elapsed < 0 || int64(r.Elapsed) > maxDuration {
		return fmt.Errorf("elapsed_ns: %d: no duration of a run", int64(r.Elapsed))
	}
	if l := r.Environment.Listen; l != "" && l != machine.OffLoopback && l != machine.Insecure {
		return field("environment.listen", "%.40q: want %s, %s, or nothing", l, machine.OffLoopback, machine.Insecure)
	}
	for i, c := range r.Doctor {
		if c.Status != doctor.Warn && c.Status != doctor.Fail {
			return fmt.Errorf("doctor[%d].status: %q: want warn or fail", i, c.Status)
		}
	}
	return texts(r, false)
}

func (f Floor) validate() error {
	if err := named("name", f.Name); err != nil {
		return err
	}
	if f.Unit != "s" && f.Unit != "B/s" {
		return field("unit", "%q: want s or B/s", f.Unit)
	}
	if err := readLink(f.Link); err != nil {
		return err
	}
	if err := (number{field: "bytes", value: f.Bytes, most: maxCount}).read(); err != nil {
		return err
	}
	if len(f.Blocks) == 0 {
		return field("blocks", "none")
	}
	for i, b := range f.Blocks {
		if len(b) == 0 {
			return field(fmt.Sprintf("blocks[%d]", i), "no samples")
		}
		for j, x := range b {
			if !(x > 0 && x < float64(maxCount)) {
				return field(fmt.Sprintf("blocks[%d][%d]", i, j), "%v: want a positive number", x)
			}
		}
	}
	return nil
}

func (c Cell) validate() error {
	if err := c.validateHead(); err != nil {
		return err
	}
	if len(c.Blocks) == 0 {
		return field("blocks", "none")
	}
	for i, b := range c.Blocks {
		if err := b.validate(c.Clients); err != nil {
			return within(fmt.Sprintf("blocks[%d]", i), err)
		}
	}
	for i, p := range c.Profiles {
		place := fmt.Sprintf("profiles[%d]", i)
		if err := p.validate(); err != nil {
			return within(place, err)
		}
		if p.Blocks < 0 || p.First < 0 || p.First > len(c.Blocks)-p.Blocks {
			return field(place+".first_block", "%d: want one of which %d follow among %d blocks", p.First, p.Blocks, len(c.Blocks))
		}
	}
	return nil
}

// validateHead checks what is known of a cell before it is measured.
func (c Cell) validateHead() error {
	if err := named("transport", c.Transport); err != nil {
		return err
	}
	if err := named("variant", c.Variant); err != nil {
		return err
	}
	if err := named("model", c.Model.Name); err != nil {
		return err
	}
	if c.Model.Up != "" {
		if err := named("up", c.Model.Up); err != nil {
			return err
		}
	} else if c.Model.UpTensors != 0 || c.Model.UpBytes != 0 {
		return field("up", "none, of %d tensors and %d bytes", c.Model.UpTensors, c.Model.UpBytes)
	}
	if err := c.validateWorkload(); err != nil {
		return err
	}
	if err := c.Coding.validate(); err != nil {
		return within("coding", err)
	}
	if !slices.Contains([]string{"", "base", "head"}, c.Build) {
		return field("build", "%q: want base or head", c.Build)
	}
	for _, n := range c.numbers() {
		if err := n.read(); err != nil {
			return err
		}
	}
	return cmp.Or(c.validateSoftware(), readLink(c.Link))
}

func (b Block) validate(clients int) error {
	rounds := len(b.Round)
	if rounds == 0 {
		return field("round_ns", "no samples")
	}
	for i, ns := range b.Round {
		if ns <= 0 {
			return field(fmt.Sprintf("round_ns[%d]", i), "%d: a round takes time", ns)
		}
	}
	for _, s := range []struct {
		field string
		got   int
		ways  bool
	}{
		{"train_ns", len(b.Train), false},
		{"rtt_ns", len(b.RTT), false},
		{"down_ns", len(b.Down), true},
		{"up_ns", len(b.Up), true},
	} {
		switch all := rounds * clients; {
		case s.ways && !b.OneClock():
			if s.got > 0 {
				return field(s.field, "%d samples: want none, as a process read another clock", s.got)
			}
		case s.got == all || s.got == len(b.Train) && isThinned(s.got, rounds, clients):
		case clients == 1:
			return field(s.field, "%d samples: want %d for %d rounds of %d clients", s.got, all, rounds, clients)
		default:
			return field(s.field, "%d samples: want %d for %d rounds of %d clients, or those of every k-th client", s.got, all, rounds, clients)
		}
	}
	for name := range b.Phases {
		if !slices.ContainsFunc(phase.Phases(), func(p phase.Phase) bool { return p.String() == name }) {
			return field("phases_ns."+name, "no such phase")
		}
	}
	if b.TLS != nil {
		if n := len(b.TLS.Cipher); n > maxCipher {
			return field("tls.cipher", "%d bytes long: want at most %d", n, maxCipher)
		}
		if err := named("tls.cipher", b.TLS.Cipher); err != nil {
			return err
		}
	}
	if err := b.Server.validate(); err != nil {
		return within("server", err)
	}
	for i, p := range b.Processes {
		if err := p.validate(); err != nil {
			return within(fmt.Sprintf("processes[%d]", i), err)
		}
	}
	if b.Timeline != nil {
		if err := b.Timeline.validate(); err != nil {
			return within("timeline", err)
		}
	}
	return amounts(b)
}

// validate reports what no process has used.
func (p Process) validate() error {
	for name := range p.Counts {
		if err := named("counts", name); err != nil {
			return err
		}
	}
	return amounts(p)
}

// maxCipher is the longest name of a cipher suite, in bytes.
const maxCipher = 64

// field says what is wrong with one.
func field(name, format string, args ...any) error {
	return &fieldError{name, fmt.Errorf(format, args...)}
}

// named checks a text that reports use as a name.
func named(name, text string) error {
	switch {
	case text == "":
		return &fieldError{name, errors.New("empty")}
	case len(text) > 4096:
		return &fieldError{name, fmt.Errorf("%d bytes long", len(text))}
	}
	return within(name, checkText(text))
}
