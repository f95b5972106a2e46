package trainer

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/http"
	"ipcbench/transports/pickle"
	"ipcbench/transports/shm"
)

// told returns the answer of a confined worker process to an assignment.
func told(t *testing.T, dirs []string, a assignment) string {
	t.Helper()
	p := check.Value(NewConfined(Confinement{dirs, netip.MustParseAddr("127.0.0.1")}).Launch(0))(t)
	defer func() {
		check.OK(t, p.Stop())
	}()
	c := &control{conn: p.Conn(), timeout: time.Minute, limit: longMessage}
	for _, m := range []message{{Hello: newHello()}, {Assign: &a}} {
		check.Must(t, c.send(m))
	}
	for {
		m, err := c.receive()
		if err != nil {
			return err.Error()
		}
		if m.Failure != nil {
			return m.Failure.Text
		}
	}
}

// TestConfined: a worker for a server on another host opens no local socket, and no local
// file outside an allowed folder, whatever the server names.
func TestConfined(t *testing.T) {
	allowed := t.TempDir()
	outside := t.TempDir()
	check.Must(t, os.Symlink(outside, filepath.Join(allowed, "out")))
	closed := "tcp:127.0.0.1:1" // no listener on this port
	tcp := driver.Settings{"network": "tcp"}
	storage := func(dir string) driver.Settings { return driver.Settings{"network": "tcp", "dir": dir} }
	for name, c := range map[string]struct {
		of    driver.Transport
		given driver.Settings
		addr  string
		files *identity.Files
		want  string
	}{
		"what it does":          {pickle.New(), tcp, closed, nil, "connection refused"},
		"in an allowed folder":  {pickle.Storage(), storage(allowed), closed, nil, "connection refused"},
		"a socket":              {pickle.New(), tcp, "unix:/run/docker.sock", nil, `address "unix:/run/docker.sock" must be tcp:IP:PORT`},
		"a name":                {pickle.New(), tcp, "tcp:localhost:80", nil, `address "localhost:80" must be IP:PORT`},
		"this host alone":       {pickle.New(), tcp, "tcp:127.0.0.2:6379", nil, "address 127.0.0.2:6379 is valid on one host or link only, and the server was reached at 127.0.0.1"},
		"one link alone":        {pickle.New(), tcp, "tcp:169.254.169.254:80", nil, "is valid on one host or link only"},
		"as IPv6":               {pickle.New(), tcp, "tcp:[::ffff:127.0.0.2]:80", nil, "is valid on one host or link only"},
		"no address":            {pickle.New(), tcp, "", nil, `address "" must be`},
		"a Unix socket":         {pickle.New(), nil, closed, nil, "pickle shares memory or files of one host"},
		"shared memory":         {shm.Slab(), nil, closed, nil, "shm-slab shares memory"},
		"certificates":          {http.New(), tcp, closed, &identity.Files{CA: "/etc/shadow"}, "certificates in files"},
		"a temporary folder":    {pickle.Storage(), tcp, closed, nil, "storage:network=tcp shares memory or files"},
		"a folder of this host": {pickle.Storage(), storage(outside), closed, nil, "is not allowed, it must be in " + allowed + ": see agent --allow-dir"},
		"the folder above":      {pickle.Storage(), storage(allowed + "/.."), closed, nil, "is not allowed"},
		"a link out":            {pickle.Storage(), storage(allowed + "/out"), closed, nil, "path escapes from parent"},
		"an odd setting":        {pickle.New(), driver.Settings{"network": "tcp", "tls": "sudo"}, closed, nil, "tls=sudo: must be off|on|mutual"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := assignment{
				Transport: c.of.Name(), Settings: c.given, Lanes: []int{0}, TotalLanes: 1, Clients: 1, Depth: 1, Func: "diverge", Addr: c.addr,
				Trust: driver.Trust{Files: c.files}, Down: []tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}},
			}
			a.Up = a.Down
			if v, err := transports.NewVariant(c.of, c.given); err == nil { // adds the defaults of settings that the test leaves out
				a.Settings = v.Settings
			}
			got := told(t, []string{allowed}, a)
			check.That(t, strings.Contains(got, c.want), "got  %s\nwant %s", got, c.want)
		})
	}
}
