package bench

import (
	"errors"
	"math"
	"slices"

	"ipcbench/bench/floors"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/phase"
)

// onLink runs a block of s on its link, and returns the link's counters; nil if s has none.
func onLink(s session.Spec, run func() error) (*result.LinkCount, error) {
	if !s.Linked() {
		return nil, run()
	}
	if err := link.Set(s.Link); err != nil {
		return nil, err
	}
	err := run()
	n, countErr := link.Counts()
	count := result.LinkCount{Dropped: n.Dropped, Overlimits: n.Overlimits, Lost: n.Lost, CPU: n.CPU}
	return &count, errors.Join(err, countErr)
}

// describeLinks adds the run's links to the result. It measures how exact their delays are, and adds
// a warning if one is not.
func (r *run) describeLinks() error {
	rates := session.Links(r.Cells)
	if len(rates) == 0 {
		return nil
	}
	l := &machine.Link{
		Namespaces: link.Namespaces(), Address: link.Address, MTU: link.MTU, Qdisc: link.Qdisc,
		Congestion: link.Congestion, Bursts: map[string]int64{},
	}
	for _, rate := range rates {
		switch {
		case rate.Impaired() && link.Inside(): // else a plan is printed, and nothing measured
			d, late, err := link.Probe(rate)
			if err != nil {
				return err
			}
			l.Delays = append(l.Delays, d)
			if late != "" {
				r.result.Doctor = append(r.result.Doctor, machine.Check{
					Name: "link", Status: machine.Warn, What: late, Why: "Rounds take longer than on the link that was asked for.",
					Fix: "run it again when the machine is idle, or choose a longer delay",
				})
			}
		case !rate.Impaired() && rate.Shaped():
			l.Bursts[rate.String()] = rate.Burst()
		}
	}
	r.result.Environment.Link = l
	return nil
}

// planNetworkFloor adds the floor f for the cells that it limits: for each link, size of
// models and updates, and agent's host.
func (r *run) planNetworkFloor(f floors.Floor) {
	for _, c := range r.cells {
		ends := r.here.Hosts.Ends(c.Spec)
		if !c.Within(f, ends[0] != "") {
			continue
		}
		var bytes int64
		if f.Unit != "s" {
			bytes = min(c.LargestWay(), floors.MaxBytes)
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
	r.floors = append(r.floors, &result.Floor{
		Name: f.Name, Unit: f.Unit, Help: f.Help, Setup: result.Setup{Link: on}, Host: host, Bytes: bytes,
	})
}

// planWire adds floors of links for the wire bytes that cells have sent, if these differ
// from the size of their model or update. It returns the added floors. It needs the
// blocks of the first cycle.
func (r *run) planWire() []*result.Floor {
	before := len(r.floors)
	for _, f := range floors.All() {
		for _, c := range r.cells {
			payload, sent := min(c.LargestWay(), floors.MaxBytes), min(c.wireBytes(), floors.MaxBytes)
			if c.Linked() && c.Within(f, false) && sent > 0 && r.planned(f.Name, c.Link, "", payload) {
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
	return slices.ContainsFunc(r.floors, func(f *result.Floor) bool {
		return f.Name == name && f.Link == on && f.Host == host &&
			(f.Bytes == bytes || math.Abs(math.Log(float64(f.Bytes)/float64(bytes))) < math.Log(sameSize))
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
