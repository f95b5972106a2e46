package main

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/rig"
	"ipcbench/phase"
	"ipcbench/transports/http/store"
)

// TestLocality (A4, A5): of two lanes of http-shm, the lane on the server's host receives and sends handles. The other
// lane, in another mount namespace, receives and sends bodies only, and nothing is created in its empty /dev/shm. Both
// are proved to have the same data.
func TestLocality(t *testing.T) {
	r := rig.New(t, "h0", "h1")
	made := map[string]func() bool{}
	for _, host := range []string{"h0", "h1"} {
		made[host] = watch(t, r.Shm(host))
	}
	c := cell(t, measure(t, r, 1, nil, small("http-shm", "--place", "server")...), "http-shm")
	check.Equal(t, c.Hosts, "server:1,h1:1", "hosts of processes")
	server, local, remote := c.Blocks[0].Server, c.Blocks[0].Processes[0], c.Blocks[0].Processes[1]
	check.Need(t, local.Host == "" && remote.Host == "h1", "processes are on %q and %q", local.Host, remote.Host)
	handles, bodies := local.Counts[phase.HandleTensors], remote.Counts[phase.BodyTensors]
	if all := int64(2 * len(c.Blocks[0].Round) * c.Model.Tensors); handles+bodies != all || handles == 0 || bodies == 0 { // a free lane takes the next client
		t.Errorf("%d handles and %d bodies, want %d of both together", handles, bodies, all)
	}
	for _, end := range []struct {
		name            string
		counts          map[string]int64
		handles, bodies int64
	}{{"server", server.Counts, handles, bodies}, {"local", local.Counts, handles, 0}, {"remote", remote.Counts, 0, bodies}} {
		for name, want := range map[string]int64{
			phase.HandleTensors: end.handles, phase.BodyTensors: end.bodies, phase.Fallback + store.Remote: end.bodies,
		} {
			check.Equal(t, end.counts[name], want, end.name, name)
		}
	}
	check.That(t, made["h0"](), "nothing was made in the /dev/shm of the server's host")
	check.That(t, !made["h1"](), "something was made in the /dev/shm of another host")
}

// watch returns a function that reports whether files have been created in dir since.
func watch(t *testing.T, dir string) func() bool {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		_, err = unix.InotifyAddWatch(fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO)
	}
	check.Must(t, err)
	return func() bool {
		defer unix.Close(fd)
		n, err := unix.Read(fd, make([]byte, 4096))
		check.That(t, err == nil || errors.Is(err, unix.EAGAIN), "%v", err)
		return n > 0
	}
}

// TestFolder: if an agent does not allow the folder of storage, or its host has another folder at that path, nothing
// starts and the error names the host.
func TestFolder(t *testing.T) {
	r := rig.New(t, "h0", "h1")
	shared := t.TempDir()
	refused := func(allowed, says string) {
		t.Helper()
		server, line := serve(t, r, 1, small("storage:dir="+shared)...)
		agent := start(t, r, "h1", line, "agent", "--join", "-", "--allow-dir", allowed)
		server.Ends(soon, 2, `h1 does not share folder `+shared+`.*`+says)
		agent.Ends(soon, 2, runFailed)
	}
	refused("/usr", `not allowed, it must be in /usr`)
	out, err := r.Command("h1", "mount", "--bind", t.TempDir(), shared).CombinedOutput()
	check.Need(t, err == nil, "%v: %s", err, out)
	refused(shared, `no such file`)
	left, err := os.ReadDir(shared)
	check.That(t, err == nil && len(left) <= 0, "left in the folder: %v, %v", left, err)
}
