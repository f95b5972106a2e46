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

// ServerHost is the name of the server's host in runs with agents.
const ServerHost = "server"

// A Place is the rule that distributes a cell's worker processes over the hosts of a
// fleet.
type Place struct {
	Server bool // use the server's host too, as the first one
	Fill   bool // put as many processes on a host as it has processors, then go on to the next; else hosts take turns
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

// over returns the index of the host of each of n processes, for hosts with so many
// processors.
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

// Hosts are the hosts available to worker processes of a run with agents.
type Hosts struct {
	place Place
	fleet *agent.Fleet // nil until the agents have joined
	all   []workerHost
	sees  map[string]error // result of the test for shared files, by folder and host
}

// A workerHost is a host that worker processes may run on.
type workerHost struct {
	name       string
	agent      *agent.Agent // nil for the server's host, and before the agent has joined
	processors int
	memory     int64 // bytes that processes may use there; 0 if unknown
	source     string
	processes  int  // number of processes of one cell; only set by [Hosts.used]
	otherClock bool // its clock is not the server's
}

// Hosts returns the hosts available to o's workers, or nil without agents. Before the
// agents join, names and resources are placeholders.
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
		s := workerHost{name: ServerHost, processors: machine.Read().Processors()}
		s.memory, s.source = machine.MemoryLimit()
		h.all = append(h.all, s)
	}
	for i := range agents {
		s := workerHost{name: fmt.Sprintf("agent %d", i+1)}
		if o.Fleet != nil {
			s.agent = o.Fleet.Agents()[i]
			self := s.agent.Self()
			s.name, s.processors, s.memory, s.source = s.agent.Name(), self.Environment.Processors(), self.Memory, self.MemorySource
			s.otherClock = !self.Clock.Same(machine.OwnClock())
		}
		if s.name == ServerHost {
			return nil, fmt.Errorf("an agent is named %s, like the server's host: give it another --name", s.name)
		}
		h.all = append(h.all, s)
	}
	return h, nil
}

// of returns the host of each worker process of s; none for the control.
func (h *Hosts) of(s Spec) []workerHost {
	if h == nil || s.inside() {
		return nil
	}
	var processors []int
	for _, s := range h.all {
		processors = append(processors, s.processors)
	}
	var all []workerHost
	for _, i := range h.place.over(s.processes(), processors) {
		all = append(all, h.all[i])
	}
	return all
}

// used returns the distinct hosts of s, with their numbers of processes.
func (h *Hosts) used(s Spec) (hosts []workerHost) {
	for _, on := range h.of(s) {
		i := slices.IndexFunc(hosts, func(t workerHost) bool { return t.name == on.name })
		if i < 0 {
			i = len(hosts)
			hosts = append(hosts, on)
		}
		hosts[i].processes++
	}
	return hosts
}

// at returns the hosts of s with their numbers of processes, and the rule that placed
// them. Both are empty without agents, and for the control.
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

// describe returns the hosts of s for an outline, or the rule if it depends on hosts that
// have not joined yet.
func (h *Hosts) describe(s Spec) string {
	if h != nil && h.fleet == nil && h.place.Fill && !s.inside() {
		return "each host in turn, one process per processor"
	}
	on, _ := h.at(s)
	return on
}

// launcher returns the launcher that starts the workers of s on their hosts.
func (h *Hosts) launcher(s Spec) trainer.Launcher {
	var agents []*agent.Agent
	for _, s := range h.of(s) {
		agents = append(agents, s.agent)
	}
	return agent.Launcher(agents)
}

// Check returns an error if s cannot be measured on these hosts, like [Spec.Check] for
// this host alone. h may be nil.
func (h *Hosts) Check(s Spec) error {
	if h == nil || s.inside() {
		return s.Check()
	}
	if err := s.checkData(); err != nil {
		return err
	}
	if err := cmp.Or(h.checkReach(s), h.checkMemory(s), h.checkFolder(s)); err != nil {
		return &Unfit{s, err}
	}
	return nil
}

// checkReach returns an error if workers of s are on a host that its transport cannot
// reach.
func (h *Hosts) checkReach(s Spec) error {
	away := slices.DeleteFunc(h.used(s), func(s workerHost) bool { return s.name == ServerHost })
	if len(away) == 0 || s.Variant.Traits().Reach == driver.Network {
		return nil
	}
	v := s.Variant
	what, try := "shares memory", "measure it without agents"
	for _, setting := range v.Transport.Settings() {
		if setting.Kind == driver.Path {
			what, try = "has its files in a directory that hosts do not share", fmt.Sprintf("set %s= to a directory that they share", setting.Name)
		}
	}
	if v.Settings["network"] == "unix" {
		what, try = "uses Unix sockets", "remove network=unix"
	}
	return fmt.Errorf("%s, but lanes on %s are on another host: %s", what, away[0].name, try)
}

// checkMemory returns an error if a host has less memory than the processes of s need
// there.
func (h *Hosts) checkMemory(s Spec) error {
	hosts := h.used(s)
	share := s.memory() / int64(2+s.processes()) // of a worker process; the server counts as two
	need := map[string]int64{ServerHost: 2 * share}
	for _, host := range hosts {
		need[host.name] += share * int64(host.processes)
	}
	if !h.place.Server {
		server := workerHost{name: ServerHost}
		server.memory, server.source = machine.MemoryLimit()
		hosts = append(hosts, server)
	}
	for _, host := range hosts {
		if need := need[host.name]; host.memory > 0 && need > host.memory {
			return fmt.Errorf("needs about %s of memory on %s, but %s has %s: choose a smaller model, fewer workers, more hosts or --depth 1",
				megabytes(need), host.name, host.source, megabytes(host.memory))
		}
	}
	return nil
}
