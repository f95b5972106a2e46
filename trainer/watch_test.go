package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/inproc"
	"ipcbench/transports/pickle"
)

// freeze stops its own process for good, where its configuration says: when the
// worker function is made, or when it runs.
func freeze(config []byte) (trainer.Train, error) {
	stop := func(where string) error {
		if string(config) == where {
			return stopSelf()
		}
		return nil
	}
	return func(*trainer.Job) error { return stop("round") }, stop("start")
}

// stopSelf stops this process, and waits for that to happen.
func stopSelf() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	waiting.Forever()
	return nil
}

// linger is a worker function that does nothing for a while.
func linger(config []byte) (trainer.Train, error) {
	d, err := time.ParseDuration(string(config))
	return func(*trainer.Job) error {
		waiting.Pause(d)
		return nil
	}, err
}

// slow is a transport whose workers take 2.5 s for every update. One that
// moves counts bytes meanwhile, one that freezes stops its process when it is
// pinged.
type slow struct {
	driver.Transport
	name           string
	moves, freezes bool
}

func slows() []driver.Transport {
	return []driver.Transport{
		slow{Transport: inproc.New(), name: "slow"}, slow{Transport: inproc.New(), name: "slow-moves", moves: true},
		slow{Transport: pickle.New(), name: "slow-ping", freezes: true},
	}
}

func (s slow) Name() string { return s.name }

func (s slow) Traits(settings driver.Settings) driver.Traits {
	t := s.Transport.Traits(settings)
	t.Calls = s.freezes
	return t
}

func (s slow) Dial(ctx context.Context, e *driver.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := s.Transport.Dial(ctx, e, lane, o)
	return slowWorker{w, s, o.Rec.Counter(phase.WireSent)}, err
}

type slowWorker struct {
	driver.Worker
	slow
	sent *phase.Counter
}

func (w slowWorker) Name() string { return w.slow.name }

func (w slowWorker) Submit(ctx context.Context, p *tensor.Package) error {
	for range 50 {
		if w.freezes || ctx.Err() != nil {
			break
		}
		waiting.Pause(50 * time.Millisecond)
		if w.moves {
			w.sent.Add(1)
		}
	}
	return w.Worker.Submit(ctx, p)
}

func (w slowWorker) Ping(context.Context) error {
	return stopSelf()
}

// openSession opens a session of two workers with a small model.
func openSession(t *testing.T, transport driver.Transport, l trainer.Launcher, change func(*trainer.Config)) (*trainer.Session, error) {
	t.Helper()
	v, err := transports.NewVariant(transport, nil)
	check.Must(t, err)
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	check.Must(t, err)
	cfg := trainer.Config{Variant: v, Down: layout, Up: layout, Workers: 2, Clients: 4, Func: "freeze", Launcher: l, Samples: 1000}
	change(&cfg)
	return trainer.Open(t.Context(), cfg)
}

// round publishes a model and runs a round of four clients.
func round(ctx context.Context, p *trainer.Session, n int) error {
	model, err := p.Reserve(n)
	if err != nil {
		return err
	}
	tensor.Fill(model, 1)
	if _, err := p.Publish(ctx, n, model); err != nil {
		return err
	}
	return p.Round(ctx, trainer.Round{Number: n, Clients: []trainer.Client{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}, Each: func(u trainer.Update) error {
		u.Release()
		return nil
	}})
}

// stop stops all threads of a process.
func stop(t *testing.T, pid int) {
	t.Helper()
	check.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
	waiting.Until(t, "a process that is stopped", func() bool {
		running := 0
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		check.Must(t, err)
		for _, path := range threads {
			if stat, err := os.ReadFile(path); err == nil && !strings.Contains(string(stat), ") T ") {
				running++
			}
		}
		return running == 0
	})
}

func contains(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("got error %v, want one with %q", err, word)
			return
		}
	}
}

// TestFrozenWorker: a worker process that is stopped keeps its sockets, and ends
// the session all the same, wherever the session waits for it. What follows does
// not wait for it again.
func TestFrozenWorker(t *testing.T) {
	const limit = 2 * time.Second
	h := host()
	everywhere := []string{"start", "round", "mark", "close"}
	for _, transport := range h.Transports {
		if testing.Short() && transport.Name() != "pickle" {
			continue
		}
		places := map[string][]string{"slow-ping": {"ping"}, "pickle": everywhere, "shm-slab": everywhere, "grpc-stream": {"mark"}}[transport.Name()]
		if places == nil && !drivertest.Inside(t, transport) && !strings.HasPrefix(transport.Name(), "slow") {
			places = []string{"round"}
		}
		for _, where := range places {
			t.Run(transport.Name()+"/"+where, func(t *testing.T) {
				t.Parallel()
				var p *trainer.Session
				var err error
				waiting.Do(t, "open", func() {
					p, err = openSession(t, transport, trainer.NewProcesses(), func(c *trainer.Config) {
						c.RoundLimit, c.FuncConfig = limit, []byte(where)
						if where == "ping" {
							c.Pings = 1
						}
					})
				})
				if where == "start" || where == "ping" {
					contains(t, err, where, "process ", "is stopped (T)")
					return
				}
				check.Must(t, err)
				if where != "round" {
					check.Must(t, round(t.Context(), p, 0))
					stop(t, p.Places()[1].PID)
				}
				waiting.Do(t, where, func() {
					switch where {
					case "round":
						contains(t, round(t.Context(), p, 7), "round 7, client ", "process ", "lane ", "was given its job", "is stopped (T)")
					case "mark":
						contains(t, p.Enter(t.Context(), trainer.Timed, 1), "mark", "process 1 has not answered", "is stopped (T)")
					case "close":
						_, err = p.Close()
						contains(t, err, "close", "process 1 has sent no report", "is stopped (T)")
					}
				})
				if where != "close" {
					waiting.Do(t, "close", func() { _, _ = p.Close() }) // the session has failed
				}
			})
		}
	}
}

// TestInterrupt: a context that ends is not held up by a worker that is stopped,
// in a round as in a mark.
func TestInterrupt(t *testing.T) {
	for _, where := range []string{"round", "mark"} {
		t.Run(where, func(t *testing.T) {
			p, err := openSession(t, pickle.New(), trainer.NewProcesses(), func(c *trainer.Config) { c.Workers = 1 }) // another one might take all clients
			check.Must(t, err)
			check.Must(t, round(t.Context(), p, 0))
			stop(t, p.Places()[0].PID)
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting.Later(t, 100*time.Millisecond, func() { cancel(errors.New("enough")) })
			waiting.Do(t, "end and close", func() {
				if where == "round" {
					err = round(ctx, p, 1)
				} else {
					err = p.Enter(ctx, trainer.Timed, 1)
				}
				_, _ = p.Close() // it has failed
			})
			contains(t, err, "enough")
		})
	}
}

// TestSlowIsNotStuck: training counts as progress, unless the worker function is a
// user's, and so do bytes; a session in which neither goes on is ended, and says who
// does what.
func TestSlowIsNotStuck(t *testing.T) {
	skip.Long(t)
	h := host()
	for name, want := range map[string]string{
		"inproc": "", "slow-moves": "", "slow": "submitting in round 0, client", "foreign": "and linger has not returned, for ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport, trains := name, name == "inproc" || name == "foreign"
			if trains {
				transport = "inproc"
			}
			v, err := transports.Parse(transport, h.Transports)
			check.Must(t, err)
			p, err := openSession(t, v.Transport, trainer.NewGoroutines(h), func(c *trainer.Config) {
				c.RoundLimit, c.Func, c.FuncConfig = time.Second, "linger", []byte("0s")
				if trains {
					c.FuncConfig, c.Foreign = []byte("2500ms"), name == "foreign"
				}
			})
			check.Must(t, err)
			err = round(t.Context(), p, 0)
			if want != "" {
				contains(t, err, "has moved no byte", want)
			} else {
				check.Must(t, err)
			}
			if _, err := p.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNotReleased: updates that their user keeps, so that no lane can go on, end
// the session too.
func TestNotReleased(t *testing.T) {
	h := host()
	v, err := transports.Parse("inproc", h.Transports)
	check.Must(t, err)
	p, err := openSession(t, v.Transport, trainer.NewGoroutines(h), func(c *trainer.Config) {
		c.RoundLimit, c.Func, c.FuncConfig, c.Depth = 200*time.Millisecond, "linger", []byte("0s"), 1
	})
	check.Must(t, err)
	model, err := p.Reserve(0)
	check.Must(t, err)
	tensor.Fill(model, 1)
	_, err = p.Publish(t.Context(), 0, model)
	check.Must(t, err)
	var kept []trainer.Update
	err = p.Round(t.Context(), trainer.Round{Clients: []trainer.Client{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}, Each: func(u trainer.Update) error {
		kept = append(kept, u)
		return nil
	}})
	contains(t, err, "round 0", "updates were not released")
	for _, u := range kept {
		u.Release()
	}
	_, err = p.Close()
	check.Must(t, err)
}
