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
	"ipcbench/internal/agent"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// gathered returns a fleet whose agents are goroutines of this process. Each has the
// folders that it allows, by its name.
func gathered(t *testing.T, allowed map[string][]string) *agent.Fleet {
	t.Helper()
	var agents sync.WaitGroup
	rank := 0
	fleet, err := agent.Gather(waiting.Context(t), agent.Config{Listen: loopback, Agents: len(allowed), Wait: waiting.Limit, Announce: func(l agent.Line) error {
		for name, dirs := range allowed {
			rank++
			o := agent.Options{Name: name, Dirs: dirs, Wait: waiting.Limit}
			agents.Go(func() {
				_, err := agent.Join(context.Background(), l, o)
				check.That(t, err == nil, "%s: %v", name, err)
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

// TestFleet: processes are where they were placed, the result says so, and is one that is
// read again; files of storage go through a folder that the agents have allowed.
func TestFleet(t *testing.T) {
	h, dir := host(), t.TempDir()
	control, err := transports.NewVariant(h.Transports[0], nil)
	check.Must(t, err)
	o := bench.Options{
		Plan: quick(t), Control: control, Host: h, Listen: loopback, Place: bench.Place{Server: true},
		Fleet: gathered(t, map[string][]string{"h1": {dir}, "h2": {filepath.Dir(dir)}}),
	}
	o.Plan.Blocks = 1
	cell := spec(t, h, "pickle:network=tcp:tls=mutual", "cnn", 4, 4)
	for _, text := range []string{"pickle:network=tcp:tls=mutual", "storage:network=tcp:dir=" + dir, "http-shm:network=tcp"} {
		cell.Variant, err = transports.Parse(text, h.Transports)
		check.Must(t, err)
		o.Cells = append(o.Cells, cell)
	}
	r, err := bench.Run(t.Context(), o)
	check.Must(t, err)
	check.Must(t, r.Validate())
	var names []string
	for _, h := range r.Hosts {
		names = append(names, h.Name)
		check.That(t, h.Environment.CPU == r.Environment.CPU, "%s: environment %+v", h.Name, h.Environment)
	}
	if got := strings.Join(names, " "); got != "server h1 h2" || !r.Hosts[0].Server {
		t.Errorf("hosts are %s", got)
	}
	for _, c := range r.Cells {
		var at []string
		for _, p := range c.Blocks[0].Processes {
			at = append(at, p.Host)
		}
		want, launcher, hosts := ",h1,h2,", "agents", "server:2,h1:1,h2:1"
		if c.Transport == "inproc" {
			want, launcher, hosts = "", "goroutines", ""
		}
		if got := strings.Join(at, ","); got != want || c.Launcher != launcher || c.Hosts != hosts || !c.Proved() {
			t.Errorf("%s: processes are on %q, launched by %s, hosts say %q", c.ID(), got, c.Launcher, c.Hosts)
		}
	}
	ends := map[string]bool{}
	for _, f := range r.Floors {
		if f.Host != "" || strings.HasPrefix(f.Name, "t") {
			ends[f.Name+" "+f.Host] = true
		}
	}
	want := []string{"tcp-pingpong h1", "tcp-pingpong h2", "tcp-stream h1", "tcp-stream h2", "tls-stream h1", "tls-stream h2"}
	check.That(t, slices.Equal(slices.Sorted(maps.Keys(ends)), want), "floors between hosts are %v, want %v", ends, want)
	if dirty, err := os.ReadDir(dir); err != nil || len(dirty) > 0 {
		t.Errorf("%v is left in the folder, %v", dirty, err)
	}
}

// TestFolder: files are shared only where a nonce proves it: the agent has to have allowed
// the folder, and to see the very same there.
func TestFolder(t *testing.T) {
	h, dir := host(), t.TempDir()
	o := bench.Options{Fleet: gathered(t, map[string][]string{"h1": {dir}, "h2": {}})}
	hosts, err := o.Hosts()
	check.Must(t, err)
	cell := spec(t, h, "storage:network=tcp:dir="+dir, "cnn", 2, 2)
	cell.PerProcess = 2
	check.Must(t, hosts.Check(cell)) // it has one process, on h1
	cell.PerProcess = 1
	var unfit *bench.Unfit
	err = hosts.Check(cell)
	if !errors.As(err, &unfit) || !strings.Contains(err.Error(), "h2 does not have the folder "+dir) || !strings.Contains(err.Error(), "see agent --allow-dir") {
		t.Errorf("a folder that h2 has not allowed: got error %v", err)
	}
	a := o.Fleet.Agents()[0]
	if _, err := a.Sees(t.Context(), dir, "ipcbench-0123456789abcdef"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a folder that is not the server's: got error %v", err)
	}
	check.Must(t, os.WriteFile(filepath.Join(dir, agent.NonceFile), []byte("secret"), 0o600))
	for _, session := range []string{".", "..", "ipcbench-0123456789abcdef/..", ""} {
		if text, err := a.Sees(t.Context(), dir, session); err == nil {
			t.Errorf("%q: the agent has told %q of it", session, text)
		}
	}
}

// TestDial: an agent that does not get to the server is named, with what it has dialled.
func TestDial(t *testing.T) {
	o := bench.Options{Fleet: gathered(t, map[string][]string{"h1": nil, "h2": nil}), Listen: loopback}
	hosts, err := o.Hosts()
	check.Must(t, err)
	check.Must(t, hosts.Dial(t.Context(), o))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer l.Close()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	o.Ports = driver.Ports{First: port, Last: port}
	check.Fails(t, hosts.Dial(t.Context(), o), "is free", "no free port")
	for _, a := range o.Fleet.Agents() {
		if err := a.Dials(t.Context(), "127.0.0.1:2"); err == nil || !strings.Contains(err.Error(), "agent "+a.Name()+": ") || !strings.Contains(err.Error(), "dialled 127.0.0.1:2") {
			t.Errorf("nobody is there: got error %v", err)
		}
	}
}
