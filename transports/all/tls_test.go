package all_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// families holds one transport for each way of moving bytes through a socket.
var families = []string{"pickle", "grpc-stream", "http"}

// A refused is a peer that must be refused, and the errors expected at both ends.
type refused struct {
	name          string
	tls           string // the server's setting: off, on or mutual, or files for mutual with certificate files
	try           func(p *party) error
	hears, server string // expected error of the peer and of the server; alternatives are separated by |
}

// TestRefused: O4, "wrong receiver / federation / sender / CN → rejected with distinct
// status"; O21, "wrong CN or unknown collaborator refused".
//
// A peer without the right certificate for its lane is refused. It gets the reason, and so
// does the server's wait for the lane. Other workers continue.
func TestRefused(t *testing.T) {
	zoo := newZoo(t)
	for _, family := range families {
		for _, c := range everybody(zoo) {
			t.Run(family+"/"+c.tls+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				p := zoo.party(t, family, c.tls, c.name == "silence")
				waits := p.waits()
				err := c.try(p)
				heard(t, "the peer", err, c.hears)
				waiting.Until(t, "a refusal that is counted", func() bool { return p.Options.Rec.Counts()[phase.Refused] > 0 })
				heard(t, "the server", waits(), c.server)
				p.end()
			})
		}
	}
}

// TestHalfOpen: O21. A thousand half-finished handshakes hold few descriptors and little
// memory of the server, and end without help. They do not disturb rounds, and a worker that
// comes meanwhile joins.
func TestHalfOpen(t *testing.T) {
	const most = 64 << 20
	conns, fewer := 1000, 500 // a gate lets 264 in, and a busy machine closes those that it has ended later
	if testing.Short() {
		conns, fewer = 400, 300
	}
	zoo := newZoo(t)
	for _, family := range families {
		t.Run(family, func(t *testing.T) {
			p := zoo.party(t, family, "mutual", true)
			hello, files, memory := clientHello(p.config(nil)), proc.Descriptors(os.Getpid()), inUse()
			held, peak, worker := 0, 0, make(chan error, 1)
			var all []net.Conn
			for i := range conns {
				c := p.raw()
				check.Must(t, check.Err(c.Write(hello[:len(hello)/(1+i%2)])))
				if all = append(all, c); i == conns/2 {
					go func() { worker <- p.comes() }()
				}
				if i%100 == 99 {
					held, peak = max(held, proc.Descriptors(os.Getpid())-files-len(all)), max(peak, inUse()-memory)
				}
			}
			for i, c := range all {
				heard(t, "half a handshake", ends(c), over)
				if i%100 == 99 {
					held, peak = max(held, proc.Descriptors(os.Getpid())-files-conns), max(peak, inUse()-memory)
				}
			}
			if held > fewer || peak > most {
				t.Errorf("%d half handshakes made the server hold %d descriptors and %d bytes, want %d and %d at most", conns, held, peak, fewer, most)
			}
			check.OK(t, <-worker, "a worker that came meanwhile")
			p.end()
		})
	}
}

// comes joins lane 1 with the right certificate, and leaves. It tries again, because a busy
// machine may be too slow for the server.
func (p *party) comes() error {
	ctx := waiting.Context(p.T)
	e, err := p.Endpoint.Worker(1)
	for err == nil {
		w, failed := transports.Dial(ctx, p.Variant, e, 1, p.Options)
		if failed == nil {
			return w.Close()
		}
		p.T.Log(failed)
		err = context.Cause(ctx)
	}
	return err
}

// inUse returns the bytes of Go's heap and stacks, without the race detector's.
func inUse() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapInuse + m.StackInuse)
}

// heard checks that err contains one of the reasons.
func heard(t *testing.T, who string, err error, reasons string) {
	t.Helper()
	check.That(t, says(err, reasons), "%s: got error %v, want one with %q", who, err, reasons)
}

// says reports whether err contains one of the reasons and is not a timeout of the test's
// own.
func says(err error, reasons string) bool {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	return slices.ContainsFunc(strings.Split(reasons, "|"), func(r string) bool { return strings.Contains(err.Error(), r) })
}

// A zoo is a user's own authority with the certificates that it has signed.
type zoo struct {
	*authority
	stranger *authority // an authority that no process trusts
	files    identity.Files
}

func newZoo(t *testing.T) *zoo {
	z := &zoo{authority: newAuthority(t), stranger: newAuthority(t)}
	z.files.CA = z.file("ca.pem", "CERTIFICATE", z.cert.Raw)
	for _, name := range []string{"aggregator.example", "col0", "col1"} {
		z.add(&z.files, name, z.issue(name, nil))
	}
	z.files.Names = []string{"col0", "col1"}
	return z
}

// add writes a certificate and its key, and appends their paths to f.
func (z *zoo) add(f *identity.Files, name string, c *tls.Certificate) {
	cert, key := z.write(name, c)
	f.Cert, f.Key = append(f.Cert, cert), append(f.Key, key)
}

// party starts a session of a family, with its worker on lane 0. If hurries is set, the
// server's patience is short.
func (z *zoo) party(t *testing.T, family, kind string, hurries bool) *party {
	t.Helper()
	setting := kind
	if kind == "files" {
		setting = "mutual"
	}
	p := listen(t, family+":network=tcp:tls="+setting, func(e *endpoint.Endpoint) {
		if kind == "files" {
			e.Files = &z.files
		}
		if hurries {
			e.Patience = impatient
		}
	})
	w := check.Value(p.Endpoint.Worker(0))(t)
	p.begin(w)
	return p
}

func everybody(z *zoo) []refused {
	shows := func(c *tls.Certificate) func(*party) error {
		return func(p *party) error { return p.shakes(p.config(c)) }
	}
	return []refused{
		{"wrong CA", "mutual", func(p *party) error {
			return p.shakes(p.config(z.stranger.issue("lane 1", speaksFor(p.Endpoint.Name(), "1"))))
		}, "unknown certificate authority", "signed by unknown authority"},
		{"another session's certificate", "mutual", func(p *party) error {
			other, err := identity.NewAuthority(p.Endpoint.Name()) // the same name, but a different key
			check.Must(p.T, err)
			w := check.Value(identity.NewWorker(other.Certificate()))(p.T)
			request := check.Value(w.Request())(p.T)
			der, err := other.Sign(request, identity.Lanes{First: 1, Last: 1})
			check.Must(p.T, errors.Join(err, w.Certify(der)))
			c := w.Config()
			c.RootCAs = p.config(nil).RootCAs
			return p.shakes(c)
		}, "unknown certificate authority|bad certificate", "signed by unknown authority"},
		{"server of another CA", "mutual", func(p *party) error {
			trust := p.Endpoint.Trust()
			trust.Authority = z.stranger.cert.Raw
			trust.Mutual = false
			return p.joins(p.Variant, p.with(trust, 1, nil))
		}, "signed by unknown authority", "unknown certificate authority|bad certificate"},
		{"server of another CA", "on", func(p *party) error {
			trust := p.Endpoint.Trust()
			trust.Authority = z.stranger.cert.Raw
			return p.joins(p.Variant, p.with(trust, 1, nil))
		}, "signed by unknown authority", "unknown certificate authority|bad certificate"},
		{"wrong CA", "files", shows(z.stranger.issue("col1", nil)), "unknown certificate authority", "signed by unknown authority"},
		{"expired", "files", shows(z.issue("col1", from(-2*time.Hour, -time.Hour))), "expired certificate", "expired"},
		{"not yet valid", "files", shows(z.issue("col1", from(time.Hour, 2*time.Hour))), "expired certificate", "not yet valid"},
		{"a server's certificate", "files", shows(z.issue("col1", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})), "bad certificate", "key usage"},
		{"wrong common name", "files", func(p *party) error { return p.joins(p.Variant, p.with(z.trust(p, "col2"), 1, nil)) },
			"col2", "col2"},
		{"lane of another process", "files", func(p *party) error { return p.joins(p.Variant, p.with(p.Endpoint.Trust(), 0, nil)) },
			"col0", "col0"},
		{"lane of another process", "mutual", func(p *party) error {
			w := check.Value(p.Endpoint.Worker(0))(p.T)
			return p.joins(p.Variant, w)
		}, "the certificate is for lanes 0, and this is lane 1", "the certificate is for lanes 0, and this is lane 1"},
		{"no certificate", "mutual", func(p *party) error {
			trust := p.Endpoint.Trust()
			trust.Mutual = false
			return p.joins(p.Variant, p.with(trust, 1, nil)) // the client's side of the handshake ends before the server refuses
		},
			"certificate required", "didn't provide a certificate"},
		{"no certificate", "files", func(p *party) error { return p.shakes(p.config(nil)) },
			"certificate required", "didn't provide a certificate"},
		{"TLS 1.2", "mutual", func(p *party) error { return p.shakes(old(p.config(p.signed(1)))) },
			"protocol version not supported", "unsupported versions"},
		{"TLS 1.2", "on", func(p *party) error { return p.shakes(old(p.config(nil))) },
			"protocol version not supported", "unsupported versions"},
		{"plain client", "mutual", plain, over, "first record does not look like a TLS handshake"},
		{"plain client", "on", plain, over, "first record does not look like a TLS handshake"},
		{"silence", "mutual", silence(
			func(p *party) error { return ends(p.raw()) },
			func(p *party) error {
				c, hello := p.raw(), clientHello(p.config(nil))
				_, err := c.Write(hello[:len(hello)/2])
				return errors.Join(err, ends(c))
			},
			func(p *party) error {
				c := p.raw()
				_, err := c.Write(clientHello(p.config(nil)))
				return errors.Join(err, ends(c))
			},
			func(p *party) error { return p.shakes(p.config(p.signed(1))) },
			func(p *party) error { // sends an endless request, byte by byte
				c := tls.Client(p.raw(), p.config(p.signed(1)))
				for {
					if _, err := c.Write([]byte("P")); err != nil {
						return err
					}
					waiting.Pause(time.Millisecond)
				}
			},
		), over, "the secret within"},
		{"silence", "off", silence(func(p *party) error { return ends(p.raw()) }), over, "the secret within"},
	}
}

// silence runs several peers at once that never complete a request.
func silence(peers ...func(*party) error) func(*party) error {
	return func(p *party) error {
		errs := make(chan error, len(peers))
		for _, peer := range peers {
			go func() {
				err := errors.New("the test has failed before its end")
				defer func() { errs <- err }()
				err = peer(p)
			}()
		}
		for range peers {
			if err := <-errs; !says(err, over) {
				return err
			}
		}
		return io.EOF
	}
}

// over lists the errors of a connection that the server closes without an answer.
const over = "EOF|connection reset by peer|broken pipe"

// impatient is a short limit for silent peers, but enough for a worker to join on a busy
// machine.
const impatient = time.Second

// trust returns the trust of a process whose certificate has the given common name.
func (z *zoo) trust(p *party, name string) endpoint.Trust {
	trust := p.Endpoint.Trust()
	files := identity.Files{CA: z.files.CA, Cert: slices.Clone(z.files.Cert[:1]), Key: slices.Clone(z.files.Key[:1]), Names: []string{name}}
	z.add(&files, name, z.issue(name, nil))
	trust.Files = &files
	return trust
}

func old(c *tls.Config) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

// plain joins as a worker of the family without TLS.
func plain(p *party) error {
	return p.joins(p.tls("off"), endpoint.At(p.Endpoint.Addr(), p.Endpoint.Secret()))
}

// tls returns the party's variant with another tls setting.
func (p *party) tls(setting string) transports.Variant {
	p.T.Helper()
	return check.Value(transports.NewVariant(p.Variant.Subject, driver.Settings{"network": "tcp", "tls": setting}))(p.T)
}
