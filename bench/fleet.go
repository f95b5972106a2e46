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

	"ipcbench/bench/floors"
	"ipcbench/internal/agent"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
)

// folder reports a host that does not see the same files as the server's, where the
// transport of s wants that, or whose user has not allowed it.
func (h *Hosts) folder(s Spec) error {
	dir := s.Variant.Traits().Folder
	if dir == "" || h.fleet == nil {
		return nil
	}
	for _, host := range h.used(s) {
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
			if errs[i] = a.Dials(ctx, l.Addr().String()); errs[i] != nil {
				return
			}
			select {
			case <-arrived:
				return
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			// The address may mean another host over there.
			errs[i] = fmt.Errorf("agent %s: dialled %v and has reached somebody else than this host", a.Name(), l.Addr())
		})
	}
	dialling.Wait()
	return errors.Join(errs...)
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

// ends returns the hosts between which and the server's the bytes of s go: "" is the
// server's own.
func (h *Hosts) ends(s Spec) (names []string) {
	for _, host := range h.used(s) {
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
func (r *run) far(name string) *floors.Far {
	i := slices.IndexFunc(r.here.hosts.all, func(s seat) bool { return s.name == name })
	return &floors.Far{
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
