package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/internal/agent"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// ServerHost is what the server's host is called where agents have names.
const ServerHost = "server"

// A Place says on which hosts of a fleet the processes of a cell are.
type Place struct {
	Server bool // on the server's host too, which comes first
	Fill   bool // a host gets as many as it has processors, then the next; else each gets one in turn
}

func (p Place) String() string {
	text := "spread"
	if p.Fill {
		text = "fill"
	}
	if p.Server {
		text = ServerHost + "," + text
	}
	return text
}

// over returns on which host each of n processes is, of those with so many processors.
func (p Place) over(n int, processors []int) []int {
	at := make([]int, 0, n)
	for len(at) < n {
		for host, room := range processors {
			if !p.Fill {
				room = 1
			}
			for range min(max(1, room), n-len(at)) {
				at = append(at, host)
			}
		}
	}
	return at
}

// Hosts are those that worker processes of a run with agents may be on.
type Hosts struct {
	place Place
	fleet *agent.Fleet // nil until agents have joined
	all   []seat
	sees  map[string]error // by folder, and by the agent that was asked
}

// A seat is one of these hosts.
type seat struct {
	name       string
	agent      *agent.Agent // nil is the server's host, and one whose agent has not joined
	processors int
	memory     int64 // that processes may have there; 0 if nobody knows
	source     string
	processes  int  // of the cell that is asked for, see [Hosts.used]
	otherClock bool // it is not the server's
}

// Hosts returns those of the run; nil if it has no agents. Before they have joined,
// nobody knows their names, nor what they have.
func (o Options) Hosts() (*Hosts, error) {
	agents := o.Agents
	if o.Fleet != nil {
		agents = len(o.Fleet.Agents())
	}
	if agents == 0 {
		return nil, nil
	}
	h := &Hosts{place: o.Place, fleet: o.Fleet, sees: map[string]error{}}
	if o.Place.Server {
		s := seat{name: ServerHost, processors: machine.Read().Processors()}
		s.memory, s.source = machine.MemoryLimit()
		h.all = append(h.all, s)
	}
	for i := range agents {
		s := seat{name: fmt.Sprintf("agent %d", i+1)}
		if o.Fleet != nil {
			s.agent = o.Fleet.Agents()[i]
			self := s.agent.Self()
			s.name, s.processors, s.memory, s.source = s.agent.Name(), self.Environment.Processors(), self.Memory, self.MemorySource
			s.otherClock = !self.Clock.Same(machine.OwnClock())
		}
		if s.name == ServerHost {
			return nil, fmt.Errorf("an agent is called %s, as the server's host is: give it another --name", s.name)
		}
		h.all = append(h.all, s)
	}
	return h, nil
}

// of returns the host of each process of s.
func (h *Hosts) of(s Spec) []seat {
	if h == nil || s.inside() {
		return nil
	}
	var processors []int
	for _, s := range h.all {
		processors = append(processors, s.processors)
	}
	var all []seat
	for _, i := range h.place.over(s.processes(), processors) {
		all = append(all, h.all[i])
	}
	return all
}

// used returns the hosts that have processes of s, and how many.
func (h *Hosts) used(s Spec) (hosts []seat) {
	for _, on := range h.of(s) {
		i := slices.IndexFunc(hosts, func(t seat) bool { return t.name == on.name })
		if i < 0 {
			i = len(hosts)
			hosts = append(hosts, on)
		}
		hosts[i].processes++
	}
	return hosts
}

// at says on which hosts the processes of s are, and how they were placed: nothing where
// there are no agents, or no processes.
func (h *Hosts) at(s Spec) (on, place string) {
	if h == nil || s.inside() {
		return "", ""
	}
	var texts []string
	for _, host := range h.used(s) {
		texts = append(texts, fmt.Sprintf("%s:%d", host.name, host.processes))
	}
	return strings.Join(texts, ","), h.place.String()
}

// lie says where the processes of s are, for whoever reads what would be measured.
func (h *Hosts) lie(s Spec) string {
	if h != nil && h.fleet == nil && h.place.Fill && !s.inside() {
		return "as many on each host as it has processors"
	}
	on, _ := h.at(s)
	return on
}

// launcher returns what starts the workers of s on their hosts.
func (h *Hosts) launcher(s Spec) trainer.Launcher {
	var agents []*agent.Agent
	for _, s := range h.of(s) {
		agents = append(agents, s.agent)
	}
	return agent.Launcher(agents)
}

// Check reports why s cannot be measured on these hosts, as [Spec.Check] does for one.
func (h *Hosts) Check(s Spec) error {
	if h == nil || s.inside() {
		return s.Check()
	}
	if err := s.checkData(); err != nil {
		return err
	}
	if err := cmp.Or(h.reach(s), h.room(s), h.folder(s)); err != nil {
		return &Unfit{s, err}
	}
	return nil
}

// reach reports a host that the transport of s cannot reach.
func (h *Hosts) reach(s Spec) error {
	away := slices.DeleteFunc(h.used(s), func(s seat) bool { return s.name == ServerHost })
	if len(away) == 0 || s.Variant.Traits().Reach == driver.Network {
		return nil
	}
	v := s.Variant
	what, try := "shares memory", "measure it without agents"
	for _, setting := range v.Transport.Settings() {
		if setting.Kind == driver.Path {
			what, try = "has its files in a directory of each host's own", fmt.Sprintf("name one that all hosts share with %s=", setting.Name)
		}
	}
	if v.Settings["network"] == "unix" {
		what, try = "uses Unix sockets", "leave network=unix out"
	}
	return fmt.Errorf("%s, and lanes on %s are on another host: %s", what, away[0].name, try)
}

// room reports a host with less memory than the processes of s need there.
func (h *Hosts) room(s Spec) error {
	hosts := h.used(s)
	share := s.memory() / int64(2+s.processes()) // of a worker process; the server has two
	need := map[string]int64{ServerHost: 2 * share}
	for _, host := range hosts {
		need[host.name] += share * int64(host.processes)
	}
	if !h.place.Server {
		server := seat{name: ServerHost}
		server.memory, server.source = machine.MemoryLimit()
		hosts = append(hosts, server)
	}
	for _, host := range hosts {
		if need := need[host.name]; host.memory > 0 && need > host.memory {
			return fmt.Errorf("needs about %s of memory on %s, where %s has %s: choose a smaller model, fewer workers, more hosts or --depth 1",
				megabytes(need), host.name, host.source, megabytes(host.memory))
		}
	}
	return nil
}
