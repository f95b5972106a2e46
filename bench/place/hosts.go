package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
)

// ServerHost is the name of the server's host in runs with agents.
const ServerHost = "server"

// A Rule distributes a cell's worker processes over the hosts of a fleet. By the zero Rule, hosts
// other than the server's take turns.
type Rule struct {
	Server bool // use the server's host too, as the first one
	Fill   bool // put as many processes on a host as it has processors, then go on to the next
}

func (p Rule) String() string {
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
func (p Rule) over(n int, processors []int) []int {
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
	rule  Rule
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

// NewHosts returns the hosts available to workers that a rule distributes over the hosts of a
// fleet, or nil without agents. Before the fleet's agents have joined, it is nil, and the names and
// resources of as many hosts are placeholders.
func NewHosts(rule Rule, fleet *agent.Fleet, agents int) (*Hosts, error) {
	if fleet != nil {
		agents = len(fleet.Agents())
	}
	if agents == 0 {
		return nil, nil
	}
	h := &Hosts{rule: rule, fleet: fleet, sees: map[string]error{}}
	if rule.Server {
		server := workerHost{name: ServerHost, processors: machine.Read().Processors()}
		server.memory, server.source = machine.MemoryLimit()
		h.all = append(h.all, server)
	}
	for i := range agents {
		host := workerHost{name: fmt.Sprintf("agent %d", i+1)}
		if fleet != nil {
			host.agent = fleet.Agents()[i]
			self := host.agent.Self()
			host.name, host.processors = host.agent.Name(), self.Environment.Processors()
			host.memory, host.source = self.Memory, self.MemorySource
			host.otherClock = !self.Clock.Same(machine.OwnClock())
		}
		if host.name == ServerHost {
			return nil, fmt.Errorf("an agent is named %s, like the server's host: give it another --name", host.name)
		}
		h.all = append(h.all, host)
	}
	return h, nil
}

// each returns the host of each worker process of s; none for the control.
func (h *Hosts) each(s session.Spec) []workerHost {
	if h == nil || s.Inside() {
		return nil
	}
	var processors []int
	for _, s := range h.all {
		processors = append(processors, s.processors)
	}
	var all []workerHost
	for _, i := range h.rule.over(s.Processes(), processors) {
		all = append(all, h.all[i])
	}
	return all
}

// session returns the host of each worker process of s, for a block; nil without agents.
func (h *Hosts) session(s session.Spec) (all []session.Host) {
	for _, on := range h.each(s) {
		host := session.Host{Name: on.name, OtherClock: on.otherClock}
		if on.name == ServerHost {
			host = session.Host{}
		}
		all = append(all, host)
	}
	return all
}

// used returns the distinct hosts of s, with their numbers of processes.
func (h *Hosts) used(s session.Spec) (hosts []workerHost) {
	for _, on := range h.each(s) {
		i := slices.IndexFunc(hosts, func(t workerHost) bool { return t.name == on.name })
		if i < 0 {
			i = len(hosts)
			hosts = append(hosts, on)
		}
		hosts[i].processes++
	}
	return hosts
}

// At returns the hosts of s with their numbers of processes, and the rule that placed
// them. Both are empty without agents, and for the control.
func (h *Hosts) At(s session.Spec) (on, place string) {
	var texts []string
	for _, host := range h.used(s) {
		texts = append(texts, fmt.Sprintf("%s:%d", host.name, host.processes))
	}
	if texts == nil {
		return "", ""
	}
	return strings.Join(texts, ","), h.rule.String()
}

// Describe returns the hosts of s for an outline, or the rule if it depends on hosts that
// have not joined yet.
func (h *Hosts) Describe(s session.Spec) string {
	if h != nil && h.fleet == nil && h.rule.Fill && !s.Inside() {
		return "each host in turn, one process per processor"
	}
	on, _ := h.At(s)
	return on
}

// launcher returns the launcher that starts the workers of s on their hosts.
func (h *Hosts) launcher(s session.Spec) trainer.Launcher {
	var agents []*agent.Agent
	for _, s := range h.each(s) {
		agents = append(agents, s.agent)
	}
	return agent.Launcher(agents)
}

// Check returns an error if s cannot be measured on these hosts, like [session.Spec.Check] for
// this host alone. h may be nil.
func (h *Hosts) Check(s session.Spec) error {
	if h == nil || s.Inside() {
		return s.Check()
	}
	if err := s.CheckData(); err != nil {
		return err
	}
	if err := cmp.Or(h.checkReach(s), h.checkMemory(s), h.checkFolder(s)); err != nil {
		return &session.Unfit{Spec: s, Err: err}
	}
	return nil
}

// checkReach returns an error if workers of s are on a host that its transport cannot
// reach.
func (h *Hosts) checkReach(s session.Spec) error {
	away := h.Ends(s)[0]
	if away == "" || s.Variant.Traits().Reach == driver.Network {
		return nil
	}
	v := s.Variant
	what, try := "shares memory", "measure it without agents"
	for _, setting := range v.Subject.Settings() {
		if setting.Kind == driver.Path {
			what = "has its files in a directory that hosts do not share"
			try = fmt.Sprintf("set %s= to a directory that they share", setting.Name)
		}
	}
	if v.Settings["network"] == "unix" {
		what, try = "uses Unix sockets", "remove network=unix"
	}
	return fmt.Errorf("%s, but lanes on %s are on another host: %s", what, away, try)
}

// checkMemory returns an error if a host has less memory than the processes of s need
// there.
func (h *Hosts) checkMemory(s session.Spec) error {
	hosts := h.used(s)
	share := s.Memory() / int64(2+s.Processes()) // of a worker process; the server counts as two
	need := map[string]int64{ServerHost: 2 * share}
	for _, host := range hosts {
		need[host.name] += share * int64(host.processes)
	}
	if !h.rule.Server {
		server := workerHost{name: ServerHost}
		server.memory, server.source = machine.MemoryLimit()
		hosts = append(hosts, server)
	}
	for _, host := range hosts {
		if need := need[host.name]; host.memory > 0 && need > host.memory {
			return fmt.Errorf("needs about %s of memory on %s, but %s has %s: "+
				"choose a smaller model, fewer workers, more hosts or --depth 1",
				session.Megabytes(need), host.name, host.source, session.Megabytes(host.memory))
		}
	}
	return nil
}
