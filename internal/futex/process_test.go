package futex

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// bye is the request that ends a peer.
const bye = 1<<32 - 1

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{"peer": servePeer})
	os.Exit(m.Run())
}

// servePeer is the role of a peer, whose question is the way to wait. It answers each new
// request with the same number.
func servePeer(question []byte) (any, error) {
	var mode string
	if err := json.Unmarshal(question, &mode); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(reexec.ControlFD, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	request, reply, err := channel(mem)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	for last := uint32(0); ; {
		if err := await(ctx, mode, request, last); err != nil {
			return nil, err
		}
		if last = request.Load(); last == bye {
			return nil, nil
		}
		reply.Store(last)
		if err := notify(mode, reply); err != nil {
			return nil, err
		}
	}
}

// channel returns the two words of mem, each on its own cache line.
func channel(mem []byte) (request, reply Word, err error) {
	if request, err = At(mem, 0); err != nil {
		return
	}
	reply, err = At(mem, 64)
	return
}

func await(ctx context.Context, mode string, w Word, old uint32) error {
	switch mode {
	case "spin":
		return w.Spin(ctx, old)
	case "wait":
		return w.Wait(ctx, old)
	case "unsliced": // with slices, the end of a slice would hide a lost wake-up
		return w.waitIn(ctx, old, time.Hour)
	}
	return fmt.Errorf("no such mode: %q", mode)
}

func notify(mode string, w Word) error {
	if mode == "spin" {
		return nil // no process sleeps, so there is no wake-up
	}
	return w.Wake(1)
}

// A peer is another process that answers requests.
type peer struct {
	mode           string
	request, reply Word
	last           uint32
}

func startPeer(t testing.TB, mode string) *peer {
	t.Helper()
	file := sharedFile(t)
	request, reply, err := channel(sharedMemory(t, file, unix.PROT_READ|unix.PROT_WRITE))
	check.Must(t, err)
	c := reexec.Command{Role: "peer", Question: mode, Files: []*os.File{file}}
	child := check.Value(reexec.Call(context.Background(), c))(t) // t.Context ends too early
	t.Cleanup(func() {
		request.Store(bye)
		check.OK(t, notify(mode, request))
		waiting.Do(t, "the end of the peer", func() {
			check.OK(t, child.Answer(new(any)), "peer")
		})
	})
	return &peer{mode: mode, request: request, reply: reply}
}

// exchange sends the next number and waits for the same number in reply.
func (p *peer) exchange(ctx context.Context) error {
	old := p.last
	p.last++
	p.request.Store(p.last)
	if err := notify(p.mode, p.request); err != nil {
		return err
	}
	if err := await(ctx, p.mode, p.reply, old); err != nil {
		return fmt.Errorf("exchange %d: %w", p.last, err)
	}
	if got := p.reply.Load(); got != p.last {
		return fmt.Errorf("exchange %d: got %d", p.last, got)
	}
	return nil
}

// TestTwoProcessesLoseNoWakeUp: two processes alternate strictly. After a lost wake-up,
// both would sleep for an hour.
func TestTwoProcessesLoseNoWakeUp(t *testing.T) {
	for _, mode := range []string{"unsliced", "spin"} {
		t.Run(mode, func(t *testing.T) {
			n := 10_000
			if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
				n = 300_000
			}
			p := startPeer(t, mode)
			ctx := t.Context()
			for done := 0; done < n; done += 1000 {
				check.Must(t, returns(t, func() error {
					for range 1000 {
						if err := p.exchange(ctx); err != nil {
							return err
						}
					}
					return nil
				}))
			}
		})
	}
}

// BenchmarkPingPong times exchanges between two processes: without a gap, or each after a
// gap in which this process computes and the peer sleeps. It times only the exchanges.
func BenchmarkPingPong(b *testing.B) {
	for _, mode := range []string{"wait", "spin"} {
		for _, gap := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond} {
			b.Run(fmt.Sprintf("mode=%s/gap=%v", mode, gap), func(b *testing.B) {
				p := startPeer(b, mode)
				ctx := b.Context()
				var spent time.Duration
				for b.Loop() {
					for start := time.Now(); time.Since(start) < gap; {
					}
					start := time.Now()
					check.Must(b, p.exchange(ctx))
					spent += time.Since(start)
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/exchange")
			})
		}
	}
}

// BenchmarkWakeNobody times a change of a word on which no process waits.
func BenchmarkWakeNobody(b *testing.B) {
	w := fresh(b)
	for b.Loop() {
		w.Add(1)
		check.Must(b, w.Wake(1))
	}
}
