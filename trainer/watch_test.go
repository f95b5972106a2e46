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
	"testing/synctest"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/inproc"
	"ipcbench/transports/pickle"
)

// freeze stops its own process at the point that its configuration names: when the worker
// function is made, or when it runs.
func freeze(config []byte) (trainer.Train, error) {
	stop := func(where string) error {
		if string(config) == where {
			return stopSelf()
		}
		return nil
	}
	return func(*trainer.Job) error { return stop("round") }, stop("start")
}

// stopSelf sends SIGSTOP to this process and never returns.
func stopSelf() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	waiting.Forever()
	return nil
}

// linger is a worker function that waits for the duration in its configuration.
func linger(config []byte) (trainer.Train, error) {
	d, err := time.ParseDuration(string(config))
	return func(*trainer.Job) error {
		waiting.Pause(d)
		return nil
	}, err
}

// slow is a transport whose workers need 24 s to submit an update. If moves is set, they
// count bytes during that time; if freezes is set, a worker stops its process when it is
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

func (s slow) Dial(ctx context.Context, e *endpoint.Endpoint, lane int, o driver.Options) (driver.Worker, error) {
	w, err := s.Transport.Dial(ctx, e, lane, o)
	return slowWorker{w, s, o.Rec.Counter(phase.WireSent)}, err
}

type slowWorker struct {
	driver.Worker
	slow
	sent *phase.Counter
}

func (w slowWorker) Name() string               { return w.slow.name }
func (w slowWorker) Ping(context.Context) error { return stopSelf() }

func (w slowWorker) Submit(ctx context.Context, p *tensor.Package) error {
	for range 240 {
		if ctx.Err() != nil {
			break
		}
		waiting.Pause(100 * time.Millisecond)
		if w.moves {
			w.sent.Add(1)
		}
	}
	return w.Worker.Submit(ctx, p)
}

// stop stops a process and waits until all its threads have stopped.
func stop(t *testing.T, pid int) {
	t.Helper()
	check.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
	waiting.Until(t, "a process that is stopped", func() bool {
		running := 0
		threads := check.Value(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid)))(t)
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
		check.Fails(t, err, word)
	}
}

// TestFrozenWorker: a stopped worker process keeps its sockets open, but the session still
// ends, in whichever step it waits for that process. Later steps do not wait for it again.
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
					p, err = open(t, transport.Name(), trainer.NewProcesses(), func(c *trainer.Config) {
						c.RoundLimit, c.Func, c.FuncConfig = limit, "freeze", []byte(where)
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
					check.Must(t, round(t.Context(), p, 0, 4, nil))
					stop(t, p.Places()[1].PID)
				}
				waiting.Do(t, where, func() {
					switch where {
					case "round":
						contains(t, round(t.Context(), p, 7, 4, nil), "round 7, client ", "process ", "lane ", "was given its job", "is stopped (T)")
					case "mark":
						contains(t, p.Enter(t.Context(), trainer.Timed, 1), "mark", "process 1 has not answered", "is stopped (T)")
					case "close":
						_, err = p.Close()
						contains(t, err, "close", "process 1 has sent no report", "is stopped (T)")
					}
				})
				if where != "close" {
					waiting.Do(t, "close", func() { _, _ = p.Close() })
				}
			})
		}
	}
}

// TestInterrupt: a stopped worker does not delay the end of a context, in a round or in a
// mark.
func TestInterrupt(t *testing.T) {
	for _, where := range []string{"round", "mark"} {
		t.Run(where, func(t *testing.T) {
			p := mustOpen(t, "pickle", trainer.NewProcesses(), func(c *trainer.Config) { c.Workers = 1 }) // a second worker could train all clients
			var err error
			check.Must(t, round(t.Context(), p, 0, 4, nil))
			stop(t, p.Places()[0].PID)
			ctx, cancel := context.WithCancelCause(t.Context())
			waiting.Later(t, 100*time.Millisecond, func() { cancel(errors.New("enough")) })
			waiting.Do(t, "end and close", func() {
				if where == "round" {
					err = round(ctx, p, 1, 4, nil)
				} else {
					err = p.Enter(ctx, trainer.Timed, 1)
				}
				_, _ = p.Close()
			})
			contains(t, err, "enough")
		})
	}
}

// TestSlowIsNotStuck: bytes sent count as progress, and so does training, unless the worker
// function is foreign. Without progress the session ends, and the error says what each lane
// was doing. It also ends if its user keeps updates so that no lane can continue.
func TestSlowIsNotStuck(t *testing.T) {
	for name, c := range map[string]struct {
		transport, lingers string
		foreign, keeps     bool
		want               []string
	}{
		"trains":     {"inproc", "24s", false, false, nil},
		"moves":      {"slow-moves", "0s", false, false, nil},
		"does not":   {"slow", "0s", false, false, []string{"has made no progress", "submitting in round 0, client"}},
		"is foreign": {"inproc", "24s", true, false, []string{"has made no progress", "and linger has not returned for "}},
		"keeps":      {"inproc", "0s", false, true, []string{"round 0", "updates were not released"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := mustOpen(t, c.transport, trainer.NewGoroutines(host()), func(cfg *trainer.Config) {
					cfg.RoundLimit, cfg.FuncConfig, cfg.UserCode, cfg.Depth = 16*time.Second, []byte(c.lingers), c.foreign, 1
				})
				var kept []trainer.Update
				err := round(t.Context(), p, 0, 4, func(u trainer.Update) error {
					if kept = append(kept, u); !c.keeps {
						u.Release()
					}
					return nil
				})
				contains(t, err, c.want...)
				check.That(t, err == nil || c.want != nil, "ended: %v", err)
				for _, u := range kept {
					if c.keeps {
						u.Release()
					}
				}
				closes(t, p)
			})
		})
	}
}
