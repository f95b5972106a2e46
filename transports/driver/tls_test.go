package driver_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// encrypted returns the endpoint of a session of two lanes that lets workers in.
func encrypted(t *testing.T, network, tls string) (*driver.Endpoint, *driver.Lanes, driver.Options) {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	if err != nil {
		t.Fatal(err)
	}
	e := driver.NewEndpoint(t.TempDir())
	o := driver.Options{Down: l, Up: l, Lanes: 2, Settings: driver.Settings{"network": network, "tls": tls}, Rec: phase.NewRecorder(1)}
	lanes, err := e.ListenLanes(t.Context(), network, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), bound)
		defer cancel()
		if err := lanes.Shutdown(ctx, func(int, *driver.Conn) error { return io.EOF }); err != nil {
			t.Error(err)
		}
	})
	return e, lanes, o
}

// Workers of a session with TLS are let in, what they say arrives, and more crosses the
// wire than they say.
func TestTLS(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		for _, mode := range []string{"off", "on", "mutual"} {
			t.Run(network+"/"+mode, func(t *testing.T) {
				e, lanes, o := encrypted(t, network, mode)
				w, err := e.Worker(1)
				if err != nil {
					t.Fatal(err)
				}
				o.Rec = phase.NewRecorder(1)
				c, err := w.DialLane(t.Context(), 1, o)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				s, err := lanes.Conn(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				before := o.Rec.Counts()[phase.WireReceived]
				const size = 100_000
				go s.Write(make([]byte, size))
				if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
					t.Fatal(err)
				}
				// RFC 8446: a record of 16 KiB has a head of 5 bytes, its type and a tag of 16.
				want := int64(size)
				counts := o.Rec.Counts()
				n, took := counts[phase.Handshakes], counts[phase.HandshakeTime]
				if mode != "off" {
					want += (size + 16<<10 - 1) / (16 << 10) * 22
				}
				if got := o.Rec.Counts()[phase.WireReceived] - before; got != want {
					t.Errorf("got %d bytes for %d, want %d", got, size, want)
				}
				if with := mode != "off"; with != (n == 1) || with != (took > 0) || with != strings.HasPrefix(w.Cipher(), "TLS_") {
					t.Errorf("got %d handshakes in %v ns with cipher %q", n, took, w.Cipher())
				}
			})
		}
	}
}

// O4, O21: whoever does not speak TLS, or may not speak for the lane, is refused, and
// both ends know why.
func TestWhoIsRefused(t *testing.T) {
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			e, lanes, o := encrypted(t, network, "mutual")
			other, _, _ := encrypted(t, network, "mutual")
			plain, _, _ := encrypted(t, network, "off")
			one := func(of *driver.Endpoint, at *driver.Endpoint, lane int) *driver.Endpoint {
				w := driver.EndpointAt(at.Addr(), at.Secret())
				if err := w.Join(of.Trust(), lane, func(request []byte) ([]byte, error) { return of.Sign(request, []int{lane}) }); err != nil {
					t.Fatal(err)
				}
				return w
			}
			nobody := driver.EndpointAt(e.Addr(), e.Secret())
			trust := e.Trust()
			trust.Mutual = false
			if err := nobody.Join(trust, 0, nil); err != nil {
				t.Fatal(err)
			}
			for name, c := range map[string]struct {
				w           *driver.Endpoint
				here, there string
			}{
				"no TLS":          {driver.EndpointAt(e.Addr(), e.Secret()), "this session speaks TLS, and this connection does not", "first record does not look like a TLS handshake"},
				"no certificate":  {nobody, "certificate required", "didn't provide a certificate"},
				"another's lane":  {one(e, e, 1), "the certificate is for lanes 1, and this is lane 0", "the certificate is for lanes 1, and this is lane 0"},
				"another session": {one(other, e, 0), "unknown authority", "bad certificate"},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), bound)
				if _, err := c.w.DialLane(ctx, 0, o); err == nil || !strings.Contains(err.Error(), c.here) {
					t.Errorf("%s: got %v, want %q in it", name, err, c.here)
				}
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				if _, err := lanes.Conn(ctx, 0); err == nil || !strings.Contains(err.Error(), c.there) {
					t.Errorf("%s: at the server, got %v, want %q in it", name, err, c.there)
				}
				cancel()
			}
			if _, err := one(e, plain, 0).DialLane(t.Context(), 0, o); err == nil || !strings.Contains(err.Error(), "the server speaks no TLS") {
				t.Errorf("TLS where there is none: got %v", err)
			}
		})
	}
}

// A worker that reads nothing any more holds up the end of a session with TLS no longer
// than without.
func TestShutdownWithTLS(t *testing.T) {
	e, lanes, o := encrypted(t, "unix", "on")
	w, err := e.Worker(0)
	if err != nil {
		t.Fatal(err)
	}
	c, err := w.DialLane(t.Context(), 0, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = lanes.Shutdown(ctx, func(_ int, c *driver.Conn) error { // more than a socket holds
		return driver.During(ctx, c, func() error { _, err := c.Write(make([]byte, 64<<20)); return err })
	})
	if took := time.Since(start); err != nil || took > 2*time.Second {
		t.Errorf("got %v after %v", err, took)
	}
}
