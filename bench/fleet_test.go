package bench_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/place"
	"ipcbench/bench/session"
	"ipcbench/internal/agent"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/endpoint"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// gathered returns a fleet whose agents are goroutines of this process. Allowed maps each agent's name to the folders
// that it allows.
func gathered(t *testing.T, allowed map[string][]string) *agent.Fleet {
	t.Helper()
	var agents sync.WaitGroup
	fleet, err := agent.Gather(waiting.Context(t), agent.Config{Listen: loopback, Agents: len(allowed), Wait: waiting.Limit, Announce: func(l agent.Line) error {
		for name, dirs := range allowed {
			o := agent.Options{Name: name, Dirs: dirs, Wait: waiting.Limit}
			agents.Go(func() {
				check.OK(t, check.Err(agent.Join(context.Background(), l, o)), name)
			})
		}
		return nil
	}})
	check.Must(t, err)
	t.Cleanup(func() {
		check.OK(t, fleet.Close(0))
		agents.Wait()
	})
	return fleet
}

// TestFleet: processes run on the hosts where they were placed, and the result, which validates, records the hosts.
// Transport storage uses a folder that the agents allow, and leaves nothing in it.
func TestFleet(t *testing.T) {
	dir := t.TempDir()
	const size = " cnn workers=4 clients=4"
	o := options(t, short(t, 0, 1), "pickle:network=tcp:tls=mutual"+size, "storage:network=tcp:tls=mutual:dir="+dir+size, "http-shm:network=tcp:tls=mutual"+size)
	o.Listen, o.Place = loopback, place.Rule{Server: true}
	o.Fleet = gathered(t, map[string][]string{"h1": {dir}, "h2": {filepath.Dir(dir)}})
	r := check.Value(bench.Run(t.Context(), o))(t)
	check.Must(t, r.Validate())
	var names []string
	for _, h := range r.Hosts {
		names = append(names, h.Name)
		check.That(t, h.Environment.CPU == r.Environment.CPU, "%s: environment %+v", h.Name, h.Environment)
	}
	check.Equal(t, names, []string{"server", "h1", "h2"})
	check.That(t, r.Hosts[0].Server, "the server is not marked as one")
	for _, c := range r.Cells {
		at := []string{c.Launcher, c.Hosts}
		for _, p := range c.Blocks[0].Processes {
			at = append(at, p.Host)
		}
		want := []string{"agents", "server:2,h1:1,h2:1", "", "h1", "h2", ""}
		if c.Transport == "inproc" {
			want = []string{"goroutines", ""}
		}
		check.Equal(t, at, want, c.ID(), "launcher, hosts and processes")
		check.That(t, c.Proved(), "%s: not proved", c.ID())
	}
	ends := map[string]bool{}
	for _, f := range r.Floors {
		if f.Host != "" || strings.HasPrefix(f.Name, "t") {
			ends[f.Name+" "+f.Host] = true
		}
	}
	want := []string{"tcp-pingpong h1", "tcp-pingpong h2", "tcp-stream h1", "tcp-stream h2", "tls-stream h1", "tls-stream h2"}
	check.Equal(t, slices.Sorted(maps.Keys(ends)), want, "floors between hosts")
	dirty, err := os.ReadDir(dir)
	check.That(t, err == nil && len(dirty) == 0, "%v is left in the folder, %v", dirty, err)
}

// TestFolder: a host shares a folder only if its agent allows it and finds the server's nonce there. An agent reads a
// nonce in sessions' directories only.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	o := bench.Options{Fleet: gathered(t, map[string][]string{"h1": {dir}, "h2": {}})}
	hosts := check.Value(o.Hosts())(t)
	cell := "storage:network=tcp:dir=" + dir + " cnn workers=2 clients=2"
	cells := options(t, o.Plan, cell+" lanes-per-process=2", cell).Cells
	check.Must(t, hosts.Check(cells[0])) // one process, on h1
	var unfit *session.Unfit
	err := hosts.Check(cells[1])
	check.That(t, errors.As(err, &unfit), "a folder that h2 has not allowed: got error %v", err)
	check.Fails(t, err, "h2 does not share folder "+dir)
	check.Fails(t, err, "see agent --allow-dir")
	a := o.Fleet.Agents()[0]
	_, err = a.Sees(t.Context(), dir, "ipcbench-0123456789abcdef")
	check.Fails(t, err, "no such file", "a folder that is not the server's")
	check.Must(t, os.WriteFile(filepath.Join(dir, agent.NonceFile), []byte("secret"), 0o600))
	for _, folder := range []string{".", "..", "ipcbench-0123456789abcdef/..", ""} {
		text, err := a.Sees(t.Context(), dir, folder)
		check.That(t, err != nil, "%q: the agent has told %q of it", folder, text)
	}
}

// TestDial: an agent that cannot connect to the server is named in the error, with the address that it dialled.
func TestDial(t *testing.T) {
	o := bench.Options{Fleet: gathered(t, map[string][]string{"h1": nil, "h2": nil}), Listening: session.Listening{Listen: loopback}}
	hosts := check.Value(o.Hosts())(t)
	check.Must(t, hosts.Dial(t.Context(), o.Listening))
	l := check.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	o.Ports = endpoint.Ports{First: port, Last: port}
	check.Fails(t, hosts.Dial(t.Context(), o.Listening), "is free", "no free port")
	for _, a := range o.Fleet.Agents() {
		err := a.Dials(t.Context(), "127.0.0.1:2")
		check.Fails(t, err, "agent "+a.Name()+": ")
		check.Fails(t, err, "dialled 127.0.0.1:2")
	}
}
