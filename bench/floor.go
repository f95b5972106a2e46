package bench

import (
	"context"
	"errors"
	"ipcbench/bench/floors"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/bench/stat"
	"ipcbench/internal/link"
	"slices"
	"strings"
	"time"
)

// rpcEmpty is the name of the floor that the sessions of cells measure themselves.
const rpcEmpty = "rpc-empty"

// keepPings adds the durations of one block's empty calls to the floor rpc-empty of the
// cell's variant, link and language.
func (r *run) keepPings(s session.Spec, ns []int64) {
	if len(ns) == 0 {
		return
	}
	variant := s.Variant.String()
	i := slices.IndexFunc(r.floors, func(f *result.Floor) bool {
		return f.Variant == variant && f.Link == s.Link && f.Language == s.Language
	})
	if i < 0 {
		i = len(r.floors)
		r.floors = append(r.floors, &result.Floor{
			Name: rpcEmpty, Unit: "s", Variant: variant, Setup: result.Setup{Link: s.Link, Language: s.Language}, Help: "an empty call on a worker's own connection, while the session is otherwise idle",
		})
	}
	r.floors[i].Blocks = append(r.floors[i].Blocks, session.Seconds(ns))
}

// planFloors creates the floors of the machine, of its networks and, for each workload,
// of a wake-up after its training time.
func (r *run) planFloors() {
	for _, f := range floors.All() {
		own := result.Floor{Name: f.Name, Unit: f.Unit, Help: f.Help}
		switch {
		case f.TCP:
			r.planNetworkFloor(f)
		case f.Name != "futex":
			r.floors = append(r.floors, &own)
		default:
			seen := map[result.Workload]bool{}
			for _, c := range r.cells {
				if w := c.result.Workload(); !seen[w] {
					seen[w] = true
					r.floors = append(r.floors, w.Floor(own))
				}
			}
		}
	}
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
	p.Bytes = f.Bytes
	r.progress(strings.TrimSpace("floor " + f.Name + " " + f.Host))
	p.CPUs = r.here.Apart()
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
		name := strings.TrimSpace(f.Name + " " + f.Host)
		if !slices.ContainsFunc(r.result.Skipped, func(s result.Skipped) bool { return s.Floor == name }) { // else in an earlier cycle
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

// keepIdle moves the transfers after a rest to a floor of their own, on links with a delay: after
// a second without bytes, the windows of a connection are small again. It returns the others.
func (r *run) keepIdle(f *result.Floor, series []floors.Series) []floors.Series {
	return slices.DeleteFunc(series, func(s floors.Series) bool {
		if !f.Link.Impaired() || !strings.HasSuffix(s.Variant, floors.Rested) {
			return false
		}
		name := f.Name + "-idle"
		i := slices.IndexFunc(r.floors, func(g *result.Floor) bool { return g.Name == name && g.Link == f.Link && g.Bytes == f.Bytes })
		if i < 0 {
			i = len(r.floors)
			r.floors = append(r.floors, &result.Floor{Name: name, Unit: f.Unit, Help: "like " + f.Name + ", over a connection that was idle for a second", Setup: f.Setup, Bytes: f.Bytes})
		}
		r.floors[i].Blocks = append(r.floors[i].Blocks, s.Samples)
		return true
	})
}

// keepSeries adds a block to f. If a floor was measured under several conditions, the one
// with the best median over all blocks is the limit.
func (r *run) keepSeries(f *result.Floor, series []floors.Series) {
	if r.tried[f] == nil {
		r.tried[f] = map[string][][]float64{}
	}
	tried, best := r.tried[f], 0.0
	for _, s := range series {
		tried[s.Variant] = append(tried[s.Variant], s.Samples)
		if m := stat.Of(tried[s.Variant]).Center; m > best {
			best, f.Blocks = m, tried[s.Variant]
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

// hostDue reports whether the current cycle, if it measures floors, measures f: hosts may
// take turns.
func (r *run) hostDue(f *result.Floor) bool {
	return f.Host == "" || r.here.Hosts.Due(f.Host, floorsIn(r.cycle))
}
