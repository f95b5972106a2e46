package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ipcbench/bench/floors"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/phase"
	"ipcbench/transports"
)

func (s Spec) linked() bool { return s.Link != link.Rate{} }

// Links returns the distinct rates of the cells' links.
func Links(cells []Spec) (all []link.Rate) {
	for _, s := range cells {
		if s.linked() && !slices.Contains(all, s.Link) {
			all = append(all, s.Link)
		}
	}
	return all
}

// Networked reports whether tensors of v can travel over a network. They cannot if they
// are in memory shared by its processes, even if messages use a network.
func Networked(v transports.Variant) bool {
	return v.Settings["network"] != "" && v.Settings["shm"] != "on"
}

// checkLink returns an error if s has a link, but does not send its tensors over TCP.
func (s Spec) checkLink() error {
	if s.linked() && (!Networked(s.Variant) || s.Variant.Settings["network"] != "tcp") {
		return fmt.Errorf("--link %v: %s sends no tensors over TCP: set network=tcp, without shared memory", s.Link, s.Variant)
	}
	return nil
}

// largestWay returns the payload of the model or of an update, whichever is larger.
func (s Spec) largestWay() int64 {
	return int64(max(s.Model.Layout.Payload(), s.up().Layout.Payload()))
}

// overLink estimates how long the link needs for the bytes of a round. With several
// workers, downlink and uplink overlap partly.
func (s Spec) overLink() time.Duration {
	down, up := s.Link.Take(int64(s.Model.Layout.Payload())), s.Link.Take(int64(s.up().Layout.Payload()))
	return time.Duration(s.Clients) * (max(down, up) + min(down, up)/time.Duration(s.Workers))
}

// Rounds longer than slowRound are dominated by the link's rate, so that they hardly
// differ, and the first two rounds are enough warm-up.
const slowRound = 500 * time.Millisecond

// planned returns the plan for blocks of s, adapted to its link.
func (s Spec) planned(p Plan) Plan {
	over := s.overLink()
	if over > slowRound {
		p.Least, p.Warmup = 1, 0
	}
	if p.RoundLimit == 0 && over > 10*time.Second { // a single write may take as long as the round
		p.RoundLimit = time.Minute + 10*over
	}
	return p
}

// onLink runs a block of s on its link, and returns the link's counters; nil if s has
// none. The context of run ends if the link fails.
func onLink(ctx context.Context, s Spec, run func(ctx context.Context) error) (*result.LinkCount, error) {
	if !s.linked() {
		return nil, run(ctx)
	}
	if err := link.Set(s.Link); err != nil {
		return nil, err
	}
	watched, stop := link.Watch(ctx)
	err := run(watched)
	stop()
	if failed := context.Cause(watched); failed != nil && ctx.Err() == nil && !errors.Is(failed, context.Canceled) {
		return nil, failed // whichever error followed
	}
	n, countErr := link.Counts()
	return &result.LinkCount{Dropped: n.Dropped, Overlimits: n.Overlimits, Lost: n.Lost, CPU: n.CPU}, errors.Join(err, countErr)
}

// environment describes the run's links for the result; nil if it has none. It measures how
// exact their delays are.
func environment(rates []link.Rate) (*machine.Link, error) {
	if len(rates) == 0 {
		return nil, nil
	}
	l := &machine.Link{Namespaces: link.Namespaces(), Address: link.Address, MTU: link.MTU, Qdisc: link.Qdisc, Bursts: map[string]int64{}}
	for _, r := range rates {
		if !r.Impaired() {
			if r.Shaped() {
				l.Bursts[r.String()] = r.Burst()
			}
			continue
		}
		if !link.Inside() {
			continue // a plan is printed, and nothing measured
		}
		d, err := link.Probe(r)
		if err != nil {
			return nil, err
		}
		l.Delays = append(l.Delays, d)
	}
	return l, nil
}

// within reports whether f limits the tensors of s: they travel over such a connection.
// away means that workers are on another host, where no memory is shared.
func (s Spec) within(f floors.Floor, away bool) bool {
	settings := s.Variant.Settings
	return (Networked(s.Variant) || away) && settings["network"] == "tcp" && (!f.TLS || settings["tls"] != "" && settings["tls"] != "off")
}

// planNetworkFloor adds the floor f for the cells that it limits: for each link, size of
// models and updates, and agent's host.
func (r *run) planNetworkFloor(f floors.Floor) {
	for _, c := range r.cells {
		ends := r.here.hosts.ends(c.Spec)
		if !c.within(f, ends[0] != "") {
			continue
		}
		var bytes int64
		if f.Unit != "s" {
			bytes = min(c.largestWay(), floors.MaxBytes)
		}
		for _, host := range ends {
			r.addNetworkFloor(f, c.Link, host, bytes)
		}
	}
}

// addNetworkFloor adds f, unless a similar floor is planned.
func (r *run) addNetworkFloor(f floors.Floor, on link.Rate, host string, bytes int64) {
	if r.planned(f.Name, on, host, bytes) {
		return
	}
	r.floors = append(r.floors, &Floor{Name: f.Name, Unit: f.Unit, Help: f.Help, Setup: Setup{Link: on}, Host: host, Bytes: bytes})
}

// planWire adds floors of links for the wire bytes that cells have sent, if these differ
// from the size of their model or update. It returns the added floors. It needs the
// blocks of the first cycle.
func (r *run) planWire() []*Floor {
	before := len(r.floors)
	for _, f := range floors.All() {
		for _, c := range r.cells {
			own, sent := min(c.largestWay(), floors.MaxBytes), min(c.wireBytes(), floors.MaxBytes)
			if c.linked() && c.within(f, false) && sent > 0 && r.planned(f.Name, c.Link, "", own) {
				r.addNetworkFloor(f, c.Link, "", sent)
			}
		}
	}
	return r.floors[before:]
}

// sameSize is the ratio up to which two sizes share a floor.
const sameSize = 1.05

// planned reports whether a floor of that name, link, host and about that size exists.
func (r *run) planned(name string, on link.Rate, host string, bytes int64) bool {
	return slices.ContainsFunc(r.floors, func(f *Floor) bool {
		return f.Name == name && f.Link == on && f.Host == host && (f.Bytes == bytes || math.Abs(math.Log(float64(f.Bytes)/float64(bytes))) < math.Log(sameSize))
	})
}

// wireBytes returns the wire bytes per client in the first block, downlink or uplink,
// whichever is larger; 0 without a block.
func (c *cell) wireBytes() int64 {
	if len(c.result.Blocks) == 0 {
		return 0
	}
	b := c.result.Blocks[0]
	up := b.Server.Counts[phase.WireReceived]
	down := b.Counts()[phase.WireReceived] - up
	return max(down, up) / int64(len(b.Round)*c.Clients)
}
