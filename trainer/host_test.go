package trainer_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/pickle"
)

func TestMain(m *testing.M) {
	host().MaybeWorker()
	maybeLimited()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func host() trainer.Host {
	return trainer.Host{Transports: append(all.Transports(), slows()...), Funcs: map[string]trainer.Func{
		"burn":    burn,
		"diverge": diverge,
		"stumble": stumble,
		"freeze":  freeze,
		"linger":  linger,
		"fork":    fork,
	}}
}

// TestOpenFails: a session that cannot start says why, and leaves nothing.
func TestOpenFails(t *testing.T) {
	h := host()
	v, err := transports.Parse("pickle", h.Transports)
	check.Must(t, err)
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	check.Must(t, err)
	launcher := trainer.NewProcesses()
	good := trainer.Config{Variant: v, Down: l, Up: l, Workers: 1, Clients: 1, Func: "linger", FuncConfig: []byte("0s"), Launcher: launcher}
	for name, c := range map[string]struct {
		change func(*trainer.Config)
		want   string
	}{
		"no workers":               {func(c *trainer.Config) { c.Workers = 0 }, "0 workers"},
		"unknown function":         {func(c *trainer.Config) { c.Func = "nonsense" }, `no worker function "nonsense"`},
		"function's config":        {func(c *trainer.Config) { c.FuncConfig = []byte("rubbish") }, "worker function linger: time: invalid duration"},
		"negative lanes a process": {func(c *trainer.Config) { c.PerProcess = -1 }, "-1 lanes"},
	} {
		cfg := good
		c.change(&cfg)
		p, err := trainer.Open(context.Background(), cfg)
		if err == nil {
			_, _ = p.Close()
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

// TestChildrenOfWorkers: what a worker function starts is no worker.
func TestChildrenOfWorkers(t *testing.T) {
	p, err := openSession(t, pickle.New(), trainer.NewProcesses(), func(c *trainer.Config) { c.Func = "fork" })
	check.Must(t, err)
	check.Must(t, round(t.Context(), p, 0))
	_, err = p.Close()
	check.Must(t, err)
}
