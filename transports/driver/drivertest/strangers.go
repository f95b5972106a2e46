package drivertest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// networks calls f with tr's default settings, then with TCP, and then with TLS over TCP if
// tr has them.
func networks(t *testing.T, tr driver.Transport, f func(t *testing.T, v transports.Variant)) {
	if Inside(t, tr) {
		t.Skip("nothing to connect to: the transport does not leave this process")
	}
	t.Run("default", func(t *testing.T) { f(t, variant(t, tr)) })
	if testing.Short() {
		return
	}
	with := func(name string, s driver.Settings) {
		t.Run(name, func(t *testing.T) {
			v := check.Value(transports.NewVariant(tr, s))(t)
			f(t, v)
		})
	}
	if has(tr, "network") {
		with("network=tcp", driver.Settings{"network": "tcp"})
	}
	if has(tr, "tls") {
		with("tls=mutual", driver.Settings{"network": "tcp", "tls": "mutual"})
	}
}

// testCrowd: silent strangers, 40 more than the server accepts, keep a worker from joining no
// longer than their deadline (O21). Those who are still connected do not delay Shutdown.
func testCrowd(t *testing.T, tr driver.Transport) {
	networks(t, tr, func(t *testing.T, v transports.Variant) {
		l, dir := small(t), t.TempDir()
		e := endpoint.New(dir)
		e.Patience = 2 * time.Second
		s := ListenAt(t, v, e, dir, driver.Options{Down: l, Up: l})
		silent := endpoint.At(e.Addr(), "")
		for range 256 + 4 + 40 {
			c := check.Value(silent.Dial(waiting.Context(t), nil))(t)
			defer c.Close()
		}
		waiting.Promise(t, "O21", e.Patience+2*time.Second, func() { s.Dial(0) })
		s.Publish(1)
		s.Prove(0, driver.Job{})
		check.Must(t, s.Workers[0].Close())
		check.OK(t, s.Server.Shutdown(waiting.Context(t)), "shutdown with silent strangers")
	})
}

// testStrangers: during a job, peers that do not belong to the session are refused, and no
// error reveals the secret. A peer with the secret but without a free lane gets the reason
// (O4, O21). The job continues, and the free lane can still be joined.
func testStrangers(t *testing.T, tr driver.Transport) {
	const free = 1 // lane without a worker
	l := small(t)
	s := Listen(t, variant(t, tr), driver.Options{Down: l, Up: l, Lanes: 2})
	s.Dial(0)
	s.Publish(1)
	p := s.ExchangeBy(0, driver.Job{}, func(j driver.Job, model, update *tensor.Package) error {
		strange(t, s, free)
		return Stock(j, model, update)
	})
	check.Must(t, tensor.Prove(p, s.Model, Key(driver.Job{})))
	p.Release()
	s.Dial(free)
	s.Exchange(free, driver.Job{}).Release()
}

// strange tries to join s in all ways that must fail.
func strange(t *testing.T, s *Session, free int) {
	other := s.Options
	other.Down = Layout(t, tensor.Spec{Name: "other", DType: tensor.F32, Shape: []int{5}})
	other.Up = other.Down
	wrong := strings.Repeat("A", len(s.Endpoint.Secret()))
	for _, c := range []struct {
		name string
		at   *endpoint.Endpoint
		lane int
		o    driver.Options
	}{
		{"no server there", endpoint.At(s.Endpoint.Addr()+"x", "x"+s.Endpoint.Secret()), free, s.Options},
		{"no secret", endpoint.At(s.Endpoint.Addr(), ""), free, s.Options},
		{"a wrong secret", endpoint.At(s.Endpoint.Addr(), wrong), free, s.Options},
		{"half the secret", endpoint.At(s.Endpoint.Addr(), s.Endpoint.Secret()[:10]), free, s.Options},
		{"lane beyond the last", s.At(0), 9, s.Options},
		{"negative lane", s.At(0), -1, s.Options},
		{"lane that is taken", s.At(0), 0, s.Options},
		{"another model", s.At(free), free, other},
		{"another update", s.At(free), free, func() driver.Options { o := s.Options; o.Up = other.Up; return o }()},
	} {
		ctx := waiting.Context(t)
		w, err := transports.Dial(ctx, s.Variant, c.at, c.lane, c.o)
		if err == nil { // some transports notice at the first call
			_, _, err = w.Receive(ctx)
			_ = w.Close() // its error does not matter
		}
		if err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), s.Endpoint.Secret()) {
			t.Errorf("%s: got error %v, want a refusal", c.name, err)
		}
	}
}

// nonsense returns messages of strangers: nothing, garbage, the beginnings of our protocols
// and of others, and hellos that are nearly right.
func nonsense(secret string) []string {
	wrong := strings.Repeat("A", len(secret))
	return []string{
		"", "\x00", strings.Repeat("\xff", 4000), secret[:10], wrong, wrong + "\xff\xff", wrong + "\x00\x02{}",
		"GET / HT", "GET /v1/stats HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /v1/results/0 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\nAuthorization: Bearer " + wrong + "\r\n\r\n" + wrong,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x7f\xff\xff\x01\x04\x00\x00\x00\x01half a frame",
		"\x16\x03\x01\x02\x00\x01", // TLS
	}
}

// testIntruders: a thousand strangers, a hundred of which stay connected after an
// incomplete message, do not disturb running rounds. Neither do workers with the secret for
// a lane that is taken. Every update is proved, and the process does not grow.
func testIntruders(t *testing.T, tr driver.Transport) {
	networks(t, tr, func(t *testing.T, v transports.Variant) {
		const most = 128 << 20 // 128 KiB for each stranger, because on a busy machine all may be connected at once
		intruders, staying := 1000, 100
		if raceDetector || testing.Short() {
			intruders, staying = 200, 20
		}
		l := Layout(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{200, 1000}}, tensor.Spec{Name: "n", DType: tensor.I64})
		s := Open(t, v, l, 2)
		round := 0
		rounds := func() {
			s.Publish(uint64(round))
			s.turns(round)
			round++
		}
		for range 20 {
			rounds() // now the session has all memory that it needs
		}
		debug.FreeOSMemory()
		before, peak := check.Value(proc.Resident(os.Getpid()))(t), 0

		network, where, _ := strings.Cut(s.Endpoint.Addr(), ":")
		said := nonsense(s.Endpoint.Secret())
		var group sync.WaitGroup
		over := make(chan struct{})
		for k := range 4 {
			group.Go(func() {
				for i := k; i < intruders; i += 4 {
					c, err := net.DialTimeout(network, where, waiting.Limit)
					if err != nil {
						continue // the queue of a Unix socket is full, so there are enough strangers
					}
					waiting.Conn(t, c)
					_, _ = c.Write([]byte(said[i%len(said)])) // the server may have closed it
					if i%(intruders/staying) == 0 {
						defer c.Close()
						continue
					}
					c.Close()
				}
				<-over
			})
		}
		group.Go(func() { // a peer with the secret
			defer close(over)
			for range 20 {
				ctx := waiting.Context(t)
				w, err := transports.Dial(ctx, v, s.At(1), 1, s.Options)
				if err == nil { // some transports notice at the first call
					_, _, err = w.Receive(ctx)
					_ = w.Close() // another worker has the lane
				}
				check.That(t, err != nil && !errors.Is(err, io.EOF),
					"a worker for a lane that is taken: got error %v, want a refusal", err)
			}
		})
		for done := false; !done; {
			select {
			case <-over:
				done = true
			default:
			}
			rounds()
			peak = max(peak, check.Value(proc.Resident(os.Getpid()))(t))
		}
		group.Wait()
		rounds()
		if grown := peak - before; grown > most && !raceDetector {
			t.Errorf("the process has grown by %d bytes in %d rounds, want %d at most", grown, round, most)
		}
	})
}

// turns carries out and proves one job on each lane.
func (s *Session) turns(round int) {
	s.T.Helper()
	for lane := range s.Options.Lanes {
		s.Prove(lane, driver.Job{Round: round, Client: lane})
	}
}
