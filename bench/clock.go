package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ipcbench/agent"
	"ipcbench/clock"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// A Clock says how far the clock of another host was ahead of the server's during a
// block, and so how far off what the block holds of that host's spans may be: a way
// down or up by Width either way.
type Clock struct {
	Host   string  `json:"host"`
	Offset int64   `json:"offset_ns" check:"offset"` // half-way between both bursts
	Width  int64   `json:"width_ns"`                 // half of the bounds
	Drift  float64 `json:"drift_ppm"`                // how much faster it ran; two bursts that are close tell little
	Same   bool    `json:"same,omitempty"`           // it is the server's own clock: nothing had to be translated
}

// A Discarded is a block that does not count, since a clock stepped meanwhile.
type Discarded struct {
	At  time.Duration `json:"at_ns"` // when it began, since the run did
	Why string        `json:"why"`
}

func (c Clock) validate() error {
	if err := named("host", c.Host); err != nil {
		return err
	}
	if !(math.Abs(c.Drift) < 1000) {
		return field("drift_ppm", "%v: no drift of a clock", c.Drift)
	}
	return nil
}

// A timekeeper is another host, whose clock is compared with ours: an agent.
type timekeeper interface {
	Name() string
	Burst(ctx context.Context) (clock.Burst, error)
}

// A remote is another host that processes of a block run on.
type remote struct {
	timekeeper
	id     clock.ID
	before clock.Bounds // the block
	line   clock.Line   // known after it
}

// An unsteadyError says that a host's clock cannot be translated: the block is worth
// nothing, and another one may be.
type unsteadyError struct {
	host string
	err  error
}

func (e *unsteadyError) Error() string { return "host " + e.host + ": " + e.err.Error() }
func (e *unsteadyError) Unwrap() error { return e.err }

// unsteady makes one of a clock that stepped.
func (r *remote) unsteady(err error) error {
	if step := new(clock.Step); errors.As(err, &step) {
		return &unsteadyError{r.Name(), err}
	}
	return fmt.Errorf("host %s: %w", r.Name(), err)
}

func (r *remote) bounds(ctx context.Context) (clock.Bounds, error) {
	burst, err := r.Burst(ctx)
	if err != nil {
		return clock.Bounds{}, err
	}
	b, err := burst.Bounds()
	if err != nil {
		err = r.unsteady(err)
	}
	return b, err
}

// remotes returns the host of each process, one for each agent.
func remotes(agents []*agent.Agent) []*remote {
	of := map[*agent.Agent]*remote{nil: nil}
	all := make([]*remote, len(agents))
	for n, a := range agents {
		if _, known := of[a]; !known {
			of[a] = &remote{timekeeper: a, id: a.Self().Clock}
		}
		all[n] = of[a]
	}
	return all
}

// others returns each other host of the block once.
func (s *blockRun) others() (all []*remote) {
	for _, r := range s.hosts {
		if r != nil && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// hostOf returns the host of a process, nil for this one.
func (s *blockRun) hostOf(process int) *remote {
	if process >= len(s.hosts) {
		return nil
	}
	return s.hosts[process]
}

// on says which host r is, in errors about its processes.
func (r *remote) on() string {
	if r == nil {
		return ""
	}
	return " on " + r.Name()
}

// synchronize compares clocks before the block.
func (s *blockRun) synchronize(ctx context.Context) (err error) {
	for _, r := range s.others() {
		if r.before, err = r.bounds(ctx); err != nil {
			return err
		}
	}
	return nil
}

// translate compares clocks after the block, and puts what other hosts have recorded
// on the clock of this one. All that follows knows one clock.
func (s *blockRun) translate(ctx context.Context, report trainer.Report) error {
	if len(s.windows) == 0 {
		return nil // interrupted
	}
	for _, r := range s.others() {
		after, err := r.bounds(ctx)
		if err != nil {
			return err
		}
		if !r.id.Same(clock.Here()) || !r.before.Hold(0) || !after.Hold(0) {
			if r.line, err = clock.Between(r.before, after); err != nil {
				return r.unsteady(err)
			}
		}
		s.block.Clocks = append(s.block.Clocks, Clock{Host: r.Name(), Offset: r.line.Offset(), Width: r.line.Width(), Drift: r.line.Drift(), Same: r.line.Same()})
		for n, p := range report.Processes {
			if s.hostOf(n) != r {
				continue
			}
			for i := range p.Samples {
				x := &p.Samples[i]
				x.Start, x.End = r.line.Ours(x.Start), r.line.Ours(x.End)
				if x.Start < r.before.At-r.line.Width() || x.End > after.At+r.line.Width() || x.End < x.Start {
					return fmt.Errorf("host %s: a span of %s of %s lies outside of the block: it was not timed on the clock that the host showed",
						r.Name(), x.Phase, trainer.ProcessName(n))
				}
			}
			if !r.line.Same() {
				join(p.Samples, s.windows, r.line.Width())
			}
		}
	}
	return nil
}

// join gives spans that name no round that of the span of their lane that ends next: a
// wait ends as its job is received. Spans of one clock go by the time at which they
// end, see [byRound], but a translated time may be off by width, and lie before its
// round or in another.
func join(samples []phase.Sample, windows []window, width int64) {
	byLane := func(a, b phase.Sample) int { return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.End, b.End)) }
	named := slices.DeleteFunc(slices.Clone(samples), func(s phase.Sample) bool { return s.Round < 0 })
	slices.SortFunc(named, byLane)
	for i := range samples {
		s := &samples[i]
		next, _ := slices.BinarySearchFunc(named, *s, byLane)
		if s.Round >= 0 || next == len(named) || named[next].Lane != s.Lane {
			continue
		}
		round := named[next].Round
		n, timed := slices.BinarySearchFunc(windows, int(round), func(w window, round int) int { return w.round - round })
		if timed && s.End >= windows[n].start-width && s.End <= windows[n].end+width {
			s.Round = round
		}
	}
}

// way returns how long a way between the server and a lane took. What was translated
// may be off by the clock's width, so that a short way may seem to end before it
// began: it took no time that could be measured. Beyond the width, the clock did
// not run as the bursts say.
func (s *blockRun) way(ns int64, lane, client int) (int64, error) {
	r := s.hostOf(lane / max(1, s.cell.PerProcess))
	switch {
	case r == nil || ns >= 0:
		return ns, nil
	case ns >= -r.line.Width():
		return 0, nil
	}
	return 0, &unsteadyError{r.Name(), fmt.Errorf("its clock contradicts the server's: client %d had something %v before it was sent, and the clocks are known to ±%v",
		client, time.Duration(-ns), time.Duration(r.line.Width()))}
}

// mostDiscarded blocks of a cell, one after the other, end the run.
const mostDiscarded = 3

// steady runs a block of c, again if a clock stepped meanwhile.
func (r *run) steady(c *cell, block func() error) error {
	for n := 1; ; n++ {
		began := time.Since(r.started)
		err := block()
		var step *unsteadyError
		if !errors.As(err, &step) {
			return err
		}
		c.result.Discarded = append(c.result.Discarded, Discarded{At: began, Why: printable(step.Error())})
		if n == mostDiscarded {
			return fmt.Errorf("%w; so did %d blocks one after the other: wait until nothing corrects the clock of %s fast any more (chronyc tracking, timedatectl timesync-status), and neither stop nor move its virtual machine",
				err, n, step.host)
		}
		r.note(fmt.Sprintf("a block of %s is discarded, and run again: %s", r.label(c), printable(step.Error())))
	}
}
