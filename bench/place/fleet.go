package place

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
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
)

// checkFolder returns an error if s needs a shared folder, and one of its hosts has other
// files there or does not allow it.
func (h *Hosts) checkFolder(s session.Spec) error {
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

// shared returns an error unless the agent finds a new file of the server in dir.
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
		err = errors.New("its files there are different")
	}
	if err != nil {
		return fmt.Errorf("%s does not share folder %s with the server's host: %w", a.Name(), dir, err)
	}
	return nil
}

// Dial tests that every agent can connect to the address where servers of the run will
// listen. It returns the errors of all agents that cannot.
func (h *Hosts) Dial(ctx context.Context, at session.Listening) error {
	l, err := at.Ports.Listen(ctx, at.Listen.Addr().String())
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
			default: // unrelated connections may arrive too
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
			// In the agent's network, the address may belong to another host.
			errs[i] = fmt.Errorf("agent %s: dialled %v and reached another host instead of this one", a.Name(), l.Addr())
		})
	}
	dialling.Wait()
	return errors.Join(errs...)
}

// Results returns the hosts of the fleet for the result; nil without agents.
func (h *Hosts) Results(server machine.Environment) []result.Host {
	if h == nil {
		return nil
	}
	all := []result.Host{{Name: ServerHost, Environment: server, Server: true}}
	first := map[string]string{machine.OwnClock().Boot: ServerHost} // by boot ID, the first host with it
	for _, s := range h.all {
		if s.agent != nil {
			self := s.agent.Self()
			host := result.Host{Name: s.name, Environment: self.Environment}
			if boot := self.Clock.Boot; boot != "" { // else the machine is unknown
				host.SameMachine = first[boot]
				first[boot] = cmp.Or(first[boot], s.name)
			}
			all = append(all, host)
		}
	}
	return all
}

// Ends returns the names of the hosts, other than the server's, that have workers of s.
// If there are none, it returns a single "".
func (h *Hosts) Ends(s session.Spec) (names []string) {
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

// Far returns access to the host of that name, for floors between it and the server's host.
func (h *Hosts) Far(name string, at session.Listening) *floors.Far {
	return &floors.Far{
		Listen: func(ctx context.Context) (net.Listener, error) {
			return at.Ports.Listen(ctx, at.Listen.Addr().String())
		},
		Play: h.all[h.index(name)].agent.Plays,
	}
}

// index returns the index of the host of that name.
func (h *Hosts) index(name string) int {
	return slices.IndexFunc(h.all, func(host workerHost) bool { return host.name == name })
}

// hostsATurn is the number of hosts whose network floors are measured in one turn. More hosts take
// turns, because each makes a cycle longer.
const hostsATurn = 4

// Due reports whether the floors of the host of that name are measured in a turn.
func (h *Hosts) Due(name string, turn int) bool {
	turns := (len(h.all) + hostsATurn - 1) / hostsATurn
	return h.index(name)/hostsATurn == turn%turns
}
