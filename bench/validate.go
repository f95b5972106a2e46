package bench

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"ipcbench/phase"
	"ipcbench/phase/usage"
)

// Limits beyond which a number in a result is not believed. They keep all sums
// within an int64.
const (
	longest = int64(30 * 24 * time.Hour)
	most    = int64(1) << 50
)

// Validate reports the first thing that no run could have written, by the name
// of its field in the file.
func (r *Result) Validate() error {
	if err := r.validateHead(); err != nil {
		return err
	}
	if err := times("elapsed_ns", int64(r.Elapsed)); err != nil {
		return err
	}
	for i, f := range r.Floors {
		if err := f.validate(); err != nil {
			return fmt.Errorf("floors[%d].%w", i, err)
		}
	}
	if len(r.Cells) == 0 && r.Partial == "" {
		return fmt.Errorf("cells: none")
	}
	seen := map[string]int{}
	for i, c := range r.Cells {
		if err := c.validate(); err != nil {
			return fmt.Errorf("cells[%d].%w", i, err)
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
		if err := r.Canary.Same.validate(); err != nil {
			return fmt.Errorf("canary.same.%w", err)
		}
		if err := r.Canary.Slow.validate(); err != nil {
			return fmt.Errorf("canary.slow.%w", err)
		}
	}
	return nil
}

// validateHead checks what is known before anything is measured, and all texts.
func (r *Result) validateHead() error {
	if r.Schema != Schema {
		return fmt.Errorf("schema: version %d: this ipcbench reads version %d", r.Schema, Schema)
	}
	if err := r.Plan.read(); err != nil {
		return fmt.Errorf("plan.%w", err)
	}
	return texts(reflect.ValueOf(r), false)
}

func (f Floor) validate() error {
	if err := named("name", f.Name); err != nil {
		return err
	}
	if f.Unit != "s" && f.Unit != "B/s" {
		return fmt.Errorf("unit: %q: want s or B/s", f.Unit)
	}
	if len(f.Blocks) == 0 {
		return fmt.Errorf("blocks: none")
	}
	for i, b := range f.Blocks {
		if len(b) == 0 {
			return fmt.Errorf("blocks[%d]: no samples", i)
		}
		for j, x := range b {
			if !(x > 0 && x < float64(most)) {
				return fmt.Errorf("blocks[%d][%d]: %v: want a positive number", i, j, x)
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
		return fmt.Errorf("blocks: none")
	}
	for i, b := range c.Blocks {
		if err := b.validate(c.Clients); err != nil {
			return fmt.Errorf("blocks[%d].%w", i, err)
		}
	}
	for i, p := range c.Profiles {
		if err := p.validate(); err != nil {
			return fmt.Errorf("profiles[%d].%w", i, err)
		}
		if p.Blocks < 0 || p.First < 0 || p.First > len(c.Blocks)-p.Blocks {
			return fmt.Errorf("profiles[%d].first_block: %d: want one of which %d follow among %d blocks", i, p.First, p.Blocks, len(c.Blocks))
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
	if err := named("model.name", c.Model.Name); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "base", "head"}, c.Build) {
		return fmt.Errorf("build: %q: want base or head", c.Build)
	}
	for _, n := range c.numbers() {
		if err := n.read(); err != nil {
			return err
		}
	}
	return nil
}

func (b Block) validate(clients int) error {
	rounds := len(b.Round)
	if rounds == 0 {
		return fmt.Errorf("round_ns: no samples")
	}
	for i, ns := range b.Round {
		if ns <= 0 {
			return fmt.Errorf("round_ns[%d]: %d: a round takes time", i, ns)
		}
	}
	for _, s := range []struct {
		field   string
		samples []int64
		want    int
	}{
		{"round_ns", b.Round, rounds},
		{"unattributed_ns", b.Unattributed, rounds},
		{"train_ns", b.Train, rounds * clients},
		{"rtt_ns", b.RTT, rounds * clients},
		{"down_ns", b.Down, rounds * clients},
		{"up_ns", b.Up, rounds * clients},
	} {
		if len(s.samples) != s.want {
			return fmt.Errorf("%s: %d samples: want %d for %d rounds of %d clients", s.field, len(s.samples), s.want, rounds, clients)
		}
		if err := times(s.field, s.samples...); err != nil {
			return err
		}
	}
	known := phase.Phases()
	for name, samples := range b.Phases {
		field := "phases_ns." + name
		if !slices.ContainsFunc(known, func(p phase.Phase) bool { return p.String() == name }) {
			return fmt.Errorf("%s: no such phase", field)
		}
		if len(samples) != rounds {
			return fmt.Errorf("%s: %d samples: want %d, one a round", field, len(samples), rounds)
		}
		if err := times(field, samples...); err != nil {
			return err
		}
	}
	if err := times("spawn_ns", int64(b.Spawn)); err != nil {
		return err
	}
	if err := times("cold.round_ns", b.Cold.Round); err != nil {
		return err
	}
	if t := b.System; t != nil {
		if err := times("system", int64(t.Busy), int64(t.Idle), int64(t.Steal)); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		field string
		value int64
	}{
		{"proof.rounds", int64(b.Proof.Rounds)}, {"proof.updates", int64(b.Proof.Updates)}, {"proof.hashed", int64(b.Proof.Hashed)},
		{"spans", b.Spans}, {"span_cost_ns", b.SpanCost},
	} {
		if err := count(n.field, n.value); err != nil {
			return err
		}
	}
	if b.Timeline != nil {
		if err := b.Timeline.validate(); err != nil {
			return fmt.Errorf("timeline.%w", err)
		}
	}
	if err := b.Server.validate(); err != nil {
		return fmt.Errorf("server.%w", err)
	}
	for i, w := range b.Workers {
		if err := w.validate(); err != nil {
			return fmt.Errorf("workers[%d].%w", i, err)
		}
	}
	if err := costs(b.Cold.Server); err != nil {
		return fmt.Errorf("cold.server.%w", err)
	}
	for i, w := range b.Cold.Workers {
		if err := costs(w); err != nil {
			return fmt.Errorf("cold.workers[%d].%w", i, err)
		}
	}
	return nil
}

func (p Process) validate() error {
	if err := costs(p.Usage); err != nil {
		return fmt.Errorf("usage.%w", err)
	}
	for _, n := range []struct {
		field string
		value int64
	}{{"peak_rss_bytes", p.Memory.Peak}, {"rss_bytes", p.Memory.RSS}, {"rss_shmem_bytes", p.Memory.Shmem}} {
		if err := count("memory."+n.field, n.value); err != nil {
			return err
		}
	}
	if p.Memory.PSS != nil {
		if err := count("memory.pss_bytes", *p.Memory.PSS); err != nil {
			return err
		}
	}
	for name, n := range p.Counts {
		if err := named("counts", name); err != nil {
			return err
		}
		if n < -most || n > most { // a cache may have become smaller
			return fmt.Errorf("counts.%s: %d: no count of a run", name, n)
		}
	}
	return nil
}

func costs(u usage.Usage) error {
	for _, n := range []struct {
		field string
		value int64
	}{
		{"user_ns", int64(u.User)}, {"system_ns", int64(u.System)}, {"gc_cpu_ns", int64(u.GCTime)},
		{"minor_faults", u.MinorFaults}, {"major_faults", u.MajorFaults},
		{"voluntary_switches", u.VoluntarySwitches}, {"involuntary_switches", u.InvoluntarySwitches},
		{"alloc_bytes", u.AllocBytes}, {"alloc_objects", u.AllocObjects}, {"gc_cycles", u.GCCycles},
	} {
		if err := count(n.field, n.value); err != nil {
			return err
		}
	}
	if u.Queue != nil {
		return times("queue.wait_ns", int64(u.Queue.Wait))
	}
	return nil
}

// times checks durations in nanoseconds.
func times(field string, samples ...int64) error {
	for i, ns := range samples {
		if ns < 0 || ns > longest {
			if len(samples) > 1 {
				field = fmt.Sprintf("%s[%d]", field, i)
			}
			return fmt.Errorf("%s: %d: no duration of a run", field, ns)
		}
	}
	return nil
}

func count(field string, n int64) error {
	if n < 0 || n > most {
		return fmt.Errorf("%s: %d: want a number from 0 to %d", field, n, most)
	}
	return nil
}

// named checks a text that reports use as a name.
func named(field, text string) error {
	switch {
	case text == "":
		return fmt.Errorf("%s: empty", field)
	case len(text) > 4096:
		return fmt.Errorf("%s: %d bytes long", field, len(text))
	}
	if err := checkText(text); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}
