package trainer_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/trainer"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// assassins kills worker process 1 some time after its start.
type assassins struct {
	trainer.Launcher
	t     *testing.T
	after time.Duration
	mu    sync.Mutex
	done  bool // guarded by mu, held during the kill: after an error, done is up to date
}

func (a *assassins) Launch(n int) (trainer.Process, error) {
	p, err := a.Launcher.Launch(n)
	if err == nil && n == 1 {
		waiting.Later(a.t, a.after, func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.done = syscall.Kill(p.Place().PID, syscall.SIGKILL) == nil
		})
	}
	return p, err
}

// TestDeath: if a worker process is killed, the error names it and the cause. It may die
// before its assignment, while it connects, before the first round, in a round, or in a
// mark.
func TestDeath(t *testing.T) {
	seed, tries := uint64(1), 30
	if testing.Short() {
		tries = 10
	}
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		seed, tries = uint64(time.Now().UnixNano()), 500
	}
	random := rand.New(rand.NewPCG(seed, 0))
	candidates := all.Transports()
	for n := range tries {
		transport := candidates[n%len(candidates)]
		if drivertest.Inside(t, transport) {
			continue
		}
		t.Run(transport.Name()+"/"+strconv.Itoa(n), func(t *testing.T) {
			a := &assassins{Launcher: trainer.NewProcesses(), t: t, after: time.Duration(random.IntN(60_000)) * time.Microsecond}
			p, err := open(t, transport.Name(), a, func(c *trainer.Config) { c.FuncConfig, c.Pings = []byte("1ms"), 10 })
			for r := 0; err == nil && r < 10_000; r++ {
				if err = p.Enter(t.Context(), trainer.Timed, r); err == nil {
					err = round(t.Context(), p, r, 4, nil)
				}
				if err == nil {
					err = p.Enter(t.Context(), trainer.Outside, r+1)
				}
			}
			if p != nil {
				waiting.Do(t, "close", func() { _, _ = p.Close() })
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			check.Need(t, a.done, "failed before the worker was killed: %v", err)
			contains(t, err, "process 1 exited: signal: killed")
		})
	}
}
