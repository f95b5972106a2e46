package bench

import (
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

// linked reports whether s is measured on a link.
func (s Spec) linked() bool { return s.Link != link.Rate{} }

// host is where the server of s listens; empty for the usual place.
func (s Spec) host() string {
	if !s.linked() {
		return ""
	}
	return link.Address
}

// Links returns the rates of the links that cells are on, each once.
func Links(cells []Spec) (all []link.Rate) {
	for _, s := range cells {
		if s.linked() && !slices.Contains(all, s.Link) {
			all = append(all, s.Link)
		}
	}
	return all
}

// Networked reports whether tensors of v can go over a network: not where they lie in
// memory that its processes share, whatever their messages go over.
func Networked(v transports.Variant) bool {
	return v.Settings["network"] != "" && v.Settings["shm"] != "on"
}

// checkLink reports a cell whose bytes would not go over its link.
func (s Spec) checkLink() error {
	if s.linked() && (!Networked(s.Variant) || s.Variant.Settings["network"] != "tcp") {
		return fmt.Errorf("--link %v: %s moves nothing over a network: it wants the setting network=tcp, and no shared memory", s.Link, s.Variant)
	}
	return nil
}

// largestWay returns the bytes that one client gets or sends, whichever is more.
func (s Spec) largestWay() int64 {
	return int64(max(s.Model.Layout.Payload(), s.up().Layout.Payload()))
}

// overLink returns how long the bytes of a round need to get over the link, about.
// With several workers some go down while others go up.
func (s Spec) overLink() time.Duration {
	down, up := s.Link.Take(int64(s.Model.Layout.Payload())), s.Link.Take(int64(s.up().Layout.Payload()))
	return time.Duration(s.Clients) * (max(down, up) + min(down, up)/time.Duration(s.Workers))
}

// A round over a slow link takes seconds, most of which the kernel counts: rounds
// hardly differ, and need no more warmth than the first two have given.
const slowRound = 500 * time.Millisecond

// planned returns the plan for blocks of s.
func (s Spec) planned(p Plan) Plan {
	over := s.overLink()
	if over > slowRound {
		p.Least, p.Warmup = 1, 0
	}
	if p.RoundLimit == 0 && over > 10*time.Second { // so long may one write take
		p.RoundLimit = time.Minute + 10*over
	}
	return p
}

// onLink runs a block of s on its link.
func onLink(s Spec, run func() error) (*result.LinkCount, error) {
	if !s.linked() {
		return nil, run()
	}
	if err := link.Set(s.Link); err != nil {
		return nil, err
	}
	err := run()
	n, countErr := link.Counts()
	return &result.LinkCount{Dropped: n.Dropped, Overlimits: n.Overlimits}, errors.Join(err, countErr)
}

// environment says where the links of a run are; nil if it has none.
func environment(rates []link.Rate) *machine.Link {
	if len(rates) == 0 {
		return nil
	}
	l := &machine.Link{Namespaces: link.Namespaces(), Address: link.Address, MTU: link.MTU, Qdisc: link.Qdisc, Bursts: map[string]int64{}}
	for _, r := range rates {
		if r.Shaped() {
			l.Bursts[r.String()] = r.Burst()
		}
	}
	return l
}

// within reports whether f limits the tensors of s: they go over such a connection. Away
// from the server's host no memory is shared.
func (s Spec) within(f floors.Floor, away bool) bool {
	settings := s.Variant.Settings
	return (Networked(s.Variant) || away) && settings["network"] == "tcp" && (!f.TLS || settings["tls"] != "" && settings["tls"] != "off")
}

// planNetworkFloor adds the floor f for the cells that it limits: for each network, for
// each size of models and updates, and for each agent's host.
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

// addNetworkFloor adds f, unless there is one like it.
func (r *run) addNetworkFloor(f floors.Floor, on link.Rate, host string, bytes int64) {
	if r.planned(f.Name, on, host, bytes) {
		return
	}
	r.floors = append(r.floors, &Floor{Name: f.Name, Unit: f.Unit, Help: f.Help, Setup: Setup{Link: on}, Host: host, Bytes: bytes})
}

// planWire adds floors of links for the bytes that cells have really sent, if the size of
// their model or update differs from that, and returns them. It needs the first cycle.
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

// alike is how near to each other two sizes are whose floors are the same.
const alike = 1.05

// planned reports whether there is a floor of that name, link, host and about that size.
func (r *run) planned(name string, on link.Rate, host string, bytes int64) bool {
	return slices.ContainsFunc(r.floors, func(f *Floor) bool {
		return f.Name == name && f.Link == on && f.Host == host && (f.Bytes == bytes || math.Abs(math.Log(float64(f.Bytes)/float64(bytes))) < math.Log(alike))
	})
}

// wireBytes returns what went over the wire for one client, the larger way, in the
// first block; 0 if there is none.
func (c *cell) wireBytes() int64 {
	if len(c.result.Blocks) == 0 {
		return 0
	}
	b := c.result.Blocks[0]
	up := b.Server.Counts[phase.WireReceived]
	down := b.Counts()[phase.WireReceived] - up
	return max(down, up) / int64(len(b.Round)*c.Clients)
}
