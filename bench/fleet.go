package bench

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ipcbench/agent"
	"ipcbench/bench/floors"
	"ipcbench/machine"
	"ipcbench/scratch"
	"ipcbench/trainer"
)

// folder reports a host that does not see the same files as the server's, where the
// transport of s wants that, or whose user has not allowed it.
func (h *Hosts) folder(s Spec) error {
	dir := s.Variant.Traits().Folder
	if dir == "" || h.fleet == nil {
		return nil
	}
	hosts, _ := h.used(s)
	for _, host := range hosts {
		key := dir + " " + host.name
		if _, asked := h.sees[key]; !asked && host.agent != nil {
			h.sees[key] = shared(dir, host.agent)
		}
		if err := h.sees[key]; err != nil {
			return err
		}
	}
	return nil
}

// shared reports an agent that does not find in dir what the server has put there.
func shared(dir string, a *agent.Agent) (err error) {
	session, err := scratch.New(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	nonce := rand.Text()
	if err := os.WriteFile(filepath.Join(session.Path(), agent.NonceFile), []byte(nonce), 0o600); err != nil {
		return err
	}
	found, err := a.Sees(context.Background(), dir, filepath.Base(session.Path()))
	if err == nil && found != nonce {
		err = errors.New("other files are there")
	}
	if err != nil {
		return fmt.Errorf("%s does not have the folder %s as the server's host has it: %w", a.Name(), dir, err)
	}
	return nil
}

// Dial has every agent connect to where servers of the run will listen, and reports
// those that do not get there.
func (h *Hosts) Dial(ctx context.Context, o Options) error {
	l, err := o.Ports.Listen(ctx, o.Listen.Addr().String())
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	arrived := make(chan struct{}, len(h.fleet.Agents()))
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
			select {
			case arrived <- struct{}{}:
			default: // strangers come, too
			}
		}
	})
	defer all.Wait()
	defer l.Close()
	errs := make([]error, len(h.fleet.Agents()))
	var dialling sync.WaitGroup
	for i, a := range h.fleet.Agents() {
		dialling.Go(func() {
			if errs[i] = a.Dials(ctx, l.Addr().String()); errs[i] == nil {
				errs[i] = h.arrives(ctx, a, l.Addr(), arrived)
			}
		})
	}
	dialling.Wait()
	return errors.Join(errs...)
}

// arrives reports an agent that has connected, and not to this host: an address may mean
// another one over there.
func (h *Hosts) arrives(ctx context.Context, a *agent.Agent, at net.Addr, arrived <-chan struct{}) error {
	select {
	case <-arrived:
		return nil
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	return fmt.Errorf("agent %s: dialled %v and has reached somebody else than this host", a.Name(), at)
}

// A remote is what a block knows of the host of a process. The zero remote is the server's.
type remote struct {
	name       string
	otherClock bool // it is not the server's
}

// remotes returns the host of each process that agents start; nil is the server's.
func remotes(agents []*agent.Agent) []remote {
	own := machine.OwnClock()
	all := make([]remote, len(agents))
	for n, a := range agents {
		if a != nil {
			all[n] = remote{a.Name(), !a.Self().Clock.Same(own)}
		}
	}
	return all
}

// hostOf returns the host of a process.
func (s *blockRun) hostOf(process int) (r remote) {
	if process < len(s.hosts) {
		r = s.hosts[process]
	}
	return r
}

// A Host is one of a run with agents, in its result.
type Host struct {
	Name        string              `json:"name"`        // an agent's is what its user calls it
	Environment machine.Environment `json:"environment"` // as it was when the run began
	Server      bool                `json:"server,omitempty"`

	// SameMachine is the first host of the list that is on the same machine: its kernel
	// started at the same time. Empty for that one itself.
	SameMachine string `json:"same_machine,omitempty"`
}

// results are what a result says of the fleet.
func (h *Hosts) results(server machine.Environment) []Host {
	if h == nil {
		return nil
	}
	all := []Host{{Name: ServerHost, Environment: server, Server: true}}
	first := map[string]string{machine.OwnClock().Boot: ServerHost} // host of each machine
	for _, s := range h.all {
		if s.agent != nil {
			self := s.agent.Self()
			host := Host{Name: s.name, Environment: self.Environment}
			if boot := self.Clock.Boot; boot != "" { // else nobody knows
				host.SameMachine = first[boot]
				first[boot] = cmp.Or(first[boot], s.name)
			}
			all = append(all, host)
		}
	}
	return all
}

// validateHosts checks that each host of the result has a name of its own, and that
// nothing was measured on another one.
func (r *Result) validateHosts() error {
	if n := len(r.Hosts); n > trainer.MaxWorkers+1 { // more have no worker
		return field("hosts", "%d: want at most %d", n, trainer.MaxWorkers+1)
	}
	known := map[string]bool{"": true}
	for i, h := range r.Hosts {
		place := fmt.Sprintf("hosts[%d]", i)
		switch {
		case agent.CheckName(h.Name) != nil:
			return within(place, &fieldError{"name", agent.CheckName(h.Name)})
		case known[h.Name]:
			return within(place, field("name", "%q stands there twice", h.Name))
		case !known[h.SameMachine]:
			return within(place, field("same_machine", "%q: want a host before it", h.SameMachine))
		case h.Server != (i == 0):
			return within(place, field("server", "%v: want the server's host first, and no other", h.Server))
		}
		known[h.Name] = true
	}
	for i, f := range r.Floors {
		if !known[f.Host] {
			return within(fmt.Sprintf("floors[%d]", i), field("host", "%q: there is none of that name", f.Host))
		}
	}
	for i, c := range r.Cells {
		for j, b := range c.Blocks {
			for k, p := range b.Processes {
				if !known[p.Host] {
					return within(fmt.Sprintf("cells[%d].blocks[%d].processes[%d]", i, j, k), field("host", "%q: there is none of that name", p.Host))
				}
			}
		}
	}
	return nil
}

// ends returns the hosts between which and the server's the bytes of s go: "" is the
// server's own.
func (h *Hosts) ends(s Spec) (names []string) {
	hosts, _ := h.used(s)
	for _, host := range hosts {
		if host.name != ServerHost {
			names = append(names, host.name)
		}
	}
	if names == nil {
		names = []string{""}
	}
	return names
}

// far returns the host of that name, to measure what is between it and this one.
func (r *run) far(name string) floors.Far {
	i := slices.IndexFunc(r.here.hosts.all, func(s seat) bool { return s.name == name })
	return floors.Far{
		Listen: func(ctx context.Context) (net.Listener, error) {
			return r.Ports.Listen(ctx, r.Listen.Addr().String())
		},
		Play: r.here.hosts.all[i].agent.Plays,
	}
}

// hostsACycle is between how many hosts and the server's floors are measured in one cycle.
// Larger fleets take turns: each would make a cycle longer.
const hostsACycle = 4

// turn reports whether f is to be measured in the cycle in hand.
func (r *run) turn(f *Floor) bool {
	if f.Host == "" {
		return true
	}
	all := r.here.hosts.all
	i := slices.IndexFunc(all, func(s seat) bool { return s.name == f.Host })
	turns := (len(all) + hostsACycle - 1) / hostsACycle
	return i/hostsACycle == floorsIn(r.cycle)%turns
}
