package trainer

import (
	"crypto/rand"
	"errors"
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
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http"
	"ipcbench/transports/pickle"
	"ipcbench/transports/shm"
)

// answerTo returns the answer of a confined worker process to an assignment. authority signs
// its certificate.
func answerTo(t *testing.T, authority *identity.Authority, c Confinement, a assignment) error {
	t.Helper()
	p := check.Value(NewConfined(c).Launch(0))(t)
	defer func() { check.OK(t, p.Stop()) }()
	s := &control{conn: p.Conn(), timeout: time.Minute, limit: longMessage}
	for _, m := range []message{{Hello: newHello()}, {Assign: &a}} {
		check.Must(t, s.send(m))
	}
	for {
		m, err := s.receive()
		if err != nil {
			return err
		}
		if m.Sign != nil {
			check.Must(t, s.send(message{Signed: &signed{check.Value(authority.Sign(m.Sign.Request, identity.Lanes{}))(t)}}))
		}
		if m.Failure != nil {
			return errors.New(m.Failure.Text)
		}
	}
}

// TestConfined: a worker for a server on another host opens no local socket, and no local
// file outside an allowed folder, whatever the server names. It dials only the host at which
// the server was reached, with mutual TLS, and sends no secret that may be a command.
func TestConfined(t *testing.T) {
	allowed := t.TempDir()
	outside := t.TempDir()
	check.Must(t, os.Symlink(outside, filepath.Join(allowed, "out")))
	closed := "tcp:127.0.0.1:1" // no listener on this port
	authority := check.Value(identity.NewAuthority("confined"))(t)
	tcp, plain := driver.Settings{"network": "tcp", "tls": "mutual"}, driver.Settings{"network": "tcp"}
	storage := func(dir string) driver.Settings {
		return driver.Settings{"network": "tcp", "tls": "mutual", "dir": dir}
	}
	const server = "192.0.2.1"
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
		"this host alone":       {pickle.New(), tcp, "tcp:127.0.0.2:6379", nil, "address 127.0.0.2:6379 must be on the server's host, which was reached at 127.0.0.1"},
		"one link alone":        {pickle.New(), tcp, "tcp:169.254.169.254:80", nil, "must be on the server's host"},
		"as IPv6":               {pickle.New(), tcp, "tcp:[::ffff:127.0.0.2]:80", nil, "must be on the server's host"},
		"no address":            {pickle.New(), tcp, "", nil, `address "" must be`},
		"a Unix socket":         {pickle.New(), nil, closed, nil, "pickle shares memory or files of one host"},
		"shared memory":         {shm.Slab(), nil, closed, nil, "shm-slab shares memory"},
		"certificates":          {http.New(), tcp, closed, &identity.Files{CA: "/etc/shadow"}, "certificates in files"},
		"a temporary folder":    {pickle.Storage(), tcp, closed, nil, "shares memory or files"},
		"a folder of this host": {pickle.Storage(), storage(outside), closed, nil, "is not allowed, it must be in " + allowed + ": see agent --allow-dir"},
		"the folder above":      {pickle.Storage(), storage(allowed + "/.."), closed, nil, "is not allowed"},
		"a link out":            {pickle.Storage(), storage(allowed + "/out"), closed, nil, "path escapes from parent"},
		"another host":          {pickle.New(), tcp, "tcp:192.0.2.7:6379", nil, "must be on the server's host"},
		"no TLS":                {pickle.New(), plain, closed, nil, "on the loopback interface, other services could be reached without TLS"},
		"no TLS, far away":      {pickle.New(), plain, "tcp:" + server + ":1", nil, "it requires tls=mutual, unless ipcbench agent is started with --insecure-network"},
		"a command":             {pickle.New(), tcp, closed, nil, "the session's secret must be 26 characters"},
		"an odd setting":        {pickle.New(), driver.Settings{"network": "tcp", "tls": "sudo"}, closed, nil, "tls=sudo: must be off|on|mutual"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			confined := Confinement{Dirs: []string{allowed}, Server: netip.MustParseAddr("127.0.0.1")}
			if strings.Contains(c.addr, server) {
				confined.Server = netip.MustParseAddr(server)
			}
			a := assignment{
				Secret: rand.Text(), Transport: c.of.Name(), Settings: c.given, Lanes: []int{0}, TotalLanes: 1, Clients: 1, Depth: 1, Func: "diverge", Addr: c.addr,
				Trust: endpoint.Trust{Files: c.files, Authority: authority.Certificate(), Mutual: c.given["tls"] == "mutual"}, Down: []tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}},
			}
			a.Up = a.Down
			if v, err := transports.NewVariant(c.of, c.given); err == nil { // adds the defaults of settings that the test leaves out
				a.Settings = v.Settings
			}
			if name == "a command" {
				a.Secret = "FLUSHALL\r\nSET pwned 1\r\n"
			}
			check.Fails(t, answerTo(t, authority, confined, a), c.want)
		})
	}
}
