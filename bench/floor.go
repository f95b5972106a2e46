package bench

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"ipcbench/tensor/pages"
)

// rpcEmpty is the name of the floor that the sessions of cells measure themselves.
const rpcEmpty = "rpc-empty"

// keepPings adds the durations of one block's empty calls to the floor rpc-empty of the
// cell's variant, link and language.
func (r *run) keepPings(s session.Spec, ns []int64) {
	if len(ns) == 0 {
		return
	}
	r.keep(result.Floor{
		Name: rpcEmpty, Unit: "s", Help: "an empty call on a worker's own connection, while the session is otherwise idle",
		Variant: s.Variant.String(), Setup: result.Setup{Link: s.Link, Language: s.Language},
	}, session.Seconds(ns))
}

// keep adds a block of samples to the floor that equals f, which it adds if the run has none.
func (r *run) keep(f result.Floor, samples []float64) {
	i := slices.IndexFunc(r.floors, func(g *result.Floor) bool {
		return g.Name == f.Name && g.Variant == f.Variant && g.Setup == f.Setup && g.Bytes == f.Bytes
	})
	if i < 0 {
		i = len(r.floors)
		r.floors = append(r.floors, &f)
	}
	r.floors[i].Blocks = append(r.floors[i].Blocks, samples)
}

// planFloors creates the floors of the machine, of its networks and, for each workload,
// of a wake-up after its training time.
func (r *run) planFloors() {
	for _, f := range floors.All() {
		floor := result.Floor{Name: f.Name, Unit: f.Unit, Help: f.Help}
		switch {
		case f.TCP:
			r.planNetworkFloor(f)
		case f.Paged:
			for _, s := range r.pages() {
				in := floor
				in.Pages = s
				r.floors = append(r.floors, &in)
			}
		case f.Name != "futex":
			r.floors = append(r.floors, &floor)
		default:
			seen := map[result.Workload]bool{}
			for _, c := range r.cells {
				if w := c.result.Workload(); !seen[w] {
					seen[w] = true
					r.floors = append(r.floors, w.Floor(floor))
				}
			}
		}
	}
}

// pages returns the sizes of pages that cells have.
func (r *run) pages() (all []pages.Size) {
	for _, c := range r.cells {
		if !slices.Contains(all, c.result.Pages) {
			all = append(all, c.result.Pages)
		}
	}
	return all
}

// floor measures f once more.
func (r *run) floor(ctx context.Context, f *result.Floor) error {
	var p floors.Params
	if r.Listen.IsValid() {
		p.Address = r.Listen.Addr().String()
	}
	if f.Link != (link.Rate{}) {
		p.Takes, p.Rest = f.Link.Take(f.Bytes), f.Link.Take(f.Link.Burst())
		if err := link.Set(f.Link); err != nil {
			return err
		}
		p.Address, p.Via = f.Link.Addresses()
		if f.Link.Impaired() {
			p.Rest = time.Second
		}
	}
	name := strings.TrimSpace(f.Name + " " + f.Host)
	r.progress("floor " + name)
	p.Bytes, p.CPUs, p.Pages = f.Bytes, r.here.Apart(), f.Pages
	if f.Model != "" {
		if f.Gap == 0 {
			f.Gap = min(r.trainTime(f), int64(floors.MaxGap))
		}
		if f.Gap == 0 {
			return nil // no cell of the workload has run yet
		}
		p.Gap = time.Duration(f.Gap)
	}
	if f.Host != "" {
		p.Far = r.here.Hosts.Far(f.Host, r.Listening)
	}
	series, err := floors.Measure(ctx, f.Name, p)
	if unfit := (floors.Unfit{}); errors.As(err, &unfit) {
		known := func(s result.Skipped) bool { return s.Floor == name } // by an earlier cycle
		if !slices.ContainsFunc(r.result.Skipped, known) {
			r.result.Skipped = append(r.result.Skipped, result.Skipped{Floor: name, Why: unfit.Error()})
		}
		return nil
	}
	if err != nil {
		return err
	}
	r.keepSeries(f, r.keepIdle(f, series))
	return nil
}

const idle = "-idle" // end of the names of floors that others measure

// keepIdle moves the transfers after a rest to a floor of their own, on links with a delay: after
// a second without bytes, the windows of a connection are small again. It returns the others.
func (r *run) keepIdle(f *result.Floor, series []floors.Series) []floors.Series {
	return slices.DeleteFunc(series, func(s floors.Series) bool {
		if !f.Link.Impaired() || !strings.HasSuffix(s.Variant, floors.Rested) {
			return false
		}
		r.keep(result.Floor{
			Name: f.Name + idle, Help: "like " + f.Name + ", over a connection that was idle for a second",
			Unit: f.Unit, Setup: f.Setup, Bytes: f.Bytes,
		}, s.Samples)
		return true
	})
}

// A condition is one of several under which a floor is measured.
type condition struct {
	floor *result.Floor
	name  string
}

// keepSeries adds a block to f. If a floor was measured under several conditions, the one
// with the best median over all blocks is the limit.
func (r *run) keepSeries(f *result.Floor, series []floors.Series) {
	best := 0.0
	for _, s := range series {
		key := condition{f, s.Variant}
		r.tried[key] = append(r.tried[key], s.Samples)
		if m := stat.Of(r.tried[key]).Center; m > best {
			best, f.Blocks = m, r.tried[key]
			if len(series) > 1 || strings.HasSuffix(s.Variant, floors.Cached) {
				f.Condition = s.Variant
			}
		}
	}
}

// trainTime returns the median training time of the first cell with the floor's workload,
// in ns; 0 if none has run.
func (r *run) trainTime(f *result.Floor) int64 {
	for _, c := range r.cells {
		if f.Of(&c.result) && len(c.result.Blocks) > 0 {
			return int64(stat.Median(session.Seconds(c.result.Blocks[0].Train)) * 1e9)
		}
	}
	return 0
}
