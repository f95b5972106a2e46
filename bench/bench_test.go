package bench_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/floors"
	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

func TestMain(m *testing.M) {
	reexec.MaybeKeeper()
	floors.MaybePeer()
	host().MaybeWorker()
	maybeAgent()
	if len(os.Args) == 2 && os.Args[1] == bench.BlockCommand { // the other build of an interleaved run
		if err := bench.ServeBlock(context.Background(), os.Stdin, os.Stdout, host()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) == 4 && os.Args[1] == peerArg {
		if err := peerMain(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func host() trainer.Host {
	ts := all.Transports()
	for _, t := range ts {
		if t.Name() == "pickle" {
			ts = append(append(ts, liars(t)...), late{t})
		}
	}
	return trainer.Host{Transports: ts, Funcs: bench.Funcs()}
}

// spec returns a cell of the variant that text names.
func spec(t testing.TB, h trainer.Host, text, model string, workers, clients int) bench.Spec {
	t.Helper()
	v, err := transports.Parse(text, h.Transports)
	check.Must(t, err)
	m, err := models.Parse(model)
	check.Must(t, err)
	return bench.Spec{Variant: v, Model: m, Workers: workers, Clients: clients, PerProcess: 1, Depth: trainer.DefaultDepth}
}

func quick(t testing.TB) bench.Plan {
	t.Helper()
	p, err := bench.DefaultPlan(bench.Quick)
	check.Must(t, err)
	p.Time, p.Blocks = 60*time.Millisecond, 2
	return p
}

// TestRun: a run holds proved cells, their control, floors and consistent
// samples.
func TestRun(t *testing.T) {
	h := host()
	control, err := transports.NewVariant(h.Transports[0], nil)
	check.Must(t, err)
	r, err := bench.Run(t.Context(), bench.Options{
		Cells: []bench.Spec{spec(t, h, "pickle", "cnn", 2, 3)}, Plan: quick(t), Control: control, Host: h,
	})
	check.Must(t, err)
	if len(r.Cells) != 2 || r.Cells[0].Variant != "inproc" || r.Cells[1].Variant != "pickle" {
		t.Fatalf("got %d cells, want the control and pickle", len(r.Cells))
	}
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s: not proved", c.ID())
		for _, b := range c.Blocks {
			rounds := len(b.Round)
			if rounds < 1 { // how many there are in so much time is up to the machine
				t.Errorf("%s: block without timed rounds", c.ID())
			}
			for name, per := range map[string]struct{ got, want int }{
				"train": {len(b.Train), 3 * rounds}, "rtt": {len(b.RTT), 3 * rounds},
				"down": {len(b.Down), 3 * rounds}, "up": {len(b.Up), 3 * rounds},
			} {
				check.That(t, per.got == per.want, "%s: %d samples of %s, want %d", c.ID(), per.got, name, per.want)
			}
			for i, ns := range b.RTT {
				check.That(t, b.Down[i] > 0 && b.Up[i] > 0 && b.Train[i] > 0 && b.Down[i]+b.Up[i] <= ns,
					"%s: job %d: down %d, train %d, up %d, rtt %d ns", c.ID(), i, b.Down[i], b.Train[i], b.Up[i], ns)
			}
		}
	}
	names := map[string]bool{}
	for _, f := range r.Floors {
		names[f.Name] = true
	}
	for _, want := range []string{"copy", "first-touch", "unix-stream", "unix-pingpong", "futex", "work"} {
		check.That(t, names[want], "floor %s is missing", want)
	}
}
