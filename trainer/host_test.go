package trainer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

func TestMain(m *testing.M) {
	host().MaybeWorker()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// host returns the same transports each time, because workers of inproc find their server
// by its transport.
var host = sync.OnceValue(func() trainer.Host {
	return trainer.Host{Transports: append(all.Transports(), slows()...), Funcs: map[string]trainer.Func{
		"burn":    burn,
		"diverge": diverge,
		"stumble": stumble,
		"freeze":  freeze,
		"linger":  linger,
		"fork":    fork,
	}}
})

// layoutOf returns the layout of a model of one F32 tensor with n elements.
func layoutOf(t testing.TB, n int) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{n}}}))(t)
}

// open opens a session of two workers, four clients and a model of three elements. Its
// worker function does nothing, unless change replaces it.
func open(t testing.TB, transport string, l trainer.Launcher, change func(*trainer.Config)) (*trainer.Session, error) {
	t.Helper()
	v := check.Value(transports.Parse(transport, host().Transports))(t)
	cfg := trainer.Config{
		Variant: v, Down: layoutOf(t, 3), Workers: 2, Clients: 4, Launcher: l, Samples: 1000,
		Func: "linger", FuncConfig: []byte("0s"),
	}
	if change != nil {
		change(&cfg)
	}
	cfg.Up = cfg.Down
	return trainer.Open(t.Context(), cfg)
}

func mustOpen(t testing.TB, transport string, l trainer.Launcher, change func(*trainer.Config)) *trainer.Session {
	t.Helper()
	return check.Value(open(t, transport, l, change))(t)
}

// round publishes model n and runs round n. A nil each only releases the updates.
func round(ctx context.Context, s *trainer.Session, n, clients int, each func(trainer.Update) error) error {
	model, err := s.Reserve(n)
	if err != nil {
		return err
	}
	tensor.Fill(model, 1)
	if _, err := s.Publish(ctx, n, model); err != nil {
		return err
	}
	if each == nil {
		each = func(u trainer.Update) error { u.Release(); return nil }
	}
	return s.Round(ctx, trainer.Round{Number: n, Clients: trainer.Roster(clients), Each: each})
}

// closes checks that Close succeeds once, and fails the second time.
func closes(t testing.TB, s *trainer.Session) trainer.Report {
	t.Helper()
	report, err := s.Close()
	check.OK(t, err, "close")
	check.Fails(t, check.Err(s.Close()), "the session is closed")
	return report
}

// TestOpenFails: a session that cannot start returns the reason and leaves nothing behind.
func TestOpenFails(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*trainer.Config)
		want   string
	}{
		"no workers":               {func(c *trainer.Config) { c.Workers = 0 }, "Workers is 0"},
		"unknown function":         {func(c *trainer.Config) { c.Func = "nonsense" }, `no worker function "nonsense"`},
		"function's config":        {func(c *trainer.Config) { c.FuncConfig = []byte("rubbish") }, "worker function linger: time: invalid duration"},
		"negative lanes a process": {func(c *trainer.Config) { c.PerProcess = -1 }, "PerProcess is -1"},
		"unknown kind of profile": {func(c *trainer.Config) {
			c.Profiling = &trainer.Profiling{Kinds: []string{"goroutine"}}
		}, `unknown kind of profile "goroutine"`},
	} {
		s, err := open(t, "pickle", trainer.NewProcesses(), c.change)
		if err == nil {
			_, _ = s.Close()
		}
		check.Fails(t, err, c.want, name)
	}
}

// fork is a worker function that runs this program again.
func fork([]byte) (trainer.Train, error) {
	return func(*trainer.Job) error {
		out, err := exec.Command("/proc/self/exe", "-test.run", "^$").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}, nil
}

// TestChildrenOfWorkers: a program that a worker function starts does not become a worker
// process.
func TestChildrenOfWorkers(t *testing.T) {
	s := mustOpen(t, "pickle", trainer.NewProcesses(), func(c *trainer.Config) { c.Func = "fork" })
	check.Must(t, round(t.Context(), s, 0, 4, nil))
	closes(t, s)
}
