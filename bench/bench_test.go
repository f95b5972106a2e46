package bench_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/benchtest"
	"ipcbench/bench/floors"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{reexec.Worker: host().Work, reexec.Floor: floors.Work})
	maybeAgent()
	var other func() error
	switch {
	case len(os.Args) == 2 && os.Args[1] == program.BlockCommand: // the other build of an interleaved run
		other = func() error { return program.Serve(context.Background(), os.Stdin, os.Stdout, host()) }
	case len(os.Args) == 4 && os.Args[1] == peerArg:
		other = func() error { return peerMain(os.Args[2], os.Args[3]) }
	default:
		os.Exit(m.Run())
	}
	if err := other(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func host() trainer.Host {
	ts := all.Transports()
	for _, t := range ts {
		if t.Name() == "pickle" {
			ts = append(ts, liars(t)...)
		}
	}
	return trainer.Host{Transports: ts, Funcs: session.Funcs()}
}

// short returns a plan with this many rounds per cell and this many blocks. With 0 rounds, a cell measures for 60 ms.
func short(t testing.TB, rounds, blocks int) result.Plan {
	t.Helper()
	p := check.Value(session.DefaultPlan(session.Quick))(t)
	p.Time, p.Rounds, p.Blocks, p.Verify = 60*time.Millisecond, rounds, blocks, session.VerifySample
	return p
}

// options returns the options of a run of the cells, which are in the notation of bench.Specs.
func options(t testing.TB, p result.Plan, cells ...string) bench.Options {
	t.Helper()
	h := host()
	control := check.Value(transports.NewVariant(h.Transports[0], nil))(t)
	return bench.Options{Cells: benchtest.Specs[session.Spec](t, h.Transports, cells...), Plan: p, Control: control, Host: h}
}

// run measures with only the named floors, checks that the result validates, and returns it.
func run(t testing.TB, o bench.Options, floors ...string) *result.Result {
	t.Helper()
	r := check.Value(bench.RunWithFloors(t.Context(), o, floors...))(t)
	check.Must(t, r.Validate())
	return r
}

func measure(t testing.TB, p result.Plan, cells ...string) *result.Result {
	t.Helper()
	return run(t, options(t, p, cells...))
}

// fails checks that a run ends with an error that contains all the texts.
func fails(t testing.TB, o bench.Options, texts ...string) {
	t.Helper()
	_, err := bench.RunWithFloors(t.Context(), o)
	for _, want := range texts {
		check.Fails(t, err, want)
	}
}

func cellOf(t testing.TB, r *result.Result, variant string) result.Cell {
	t.Helper()
	i := slices.IndexFunc(r.Cells, func(c result.Cell) bool { return c.Variant == variant })
	check.Need(t, i >= 0, "no cell of %s", variant)
	return r.Cells[i]
}

// proved checks that a cell is proved and, for pickle, that exactly the payload of its timed rounds was moved.
func proved(t testing.TB, c result.Cell) {
	t.Helper()
	check.That(t, c.Proved(), "%s, %s: not proved", c.ID(), c.Program)
	for _, b := range c.Blocks {
		if !strings.HasPrefix(c.Variant, "pickle") {
			continue
		}
		moved, want := b.Counts()[phase.BodyBytes], c.Payload()*int64(len(b.Round))
		check.That(t, moved == want, "%s, %s: %d bytes of tensors were moved in %d rounds, want %d", c.ID(), c.Program, moved, len(b.Round), want)
	}
}
