package cli

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
)

// runFlags are what `ipcbench run` was asked for, before it was understood.
type runFlags struct {
	cellFlags
	quick, thorough bool
	out, html       string
	printing
	quiet, dry bool

	tls      tlsFlags
	gather   gathering
	settings *settings
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	j := &job{app: a, f: &f}
	o, plan := &j.o, &j.o.Plan
	var err error
	if *plan, err = bench.DefaultPlan(bench.Default); err != nil {
		panic(err) // the default mode exists
	}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure transports and say which one to use",
		Long:  help("run"),
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.check(cmd); err != nil {
				return err
			}
			return interruptible(j.run)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false // what to measure comes first
	f.cellFlags.add(fs)
	f.tls.add(fs)
	f.gather.add(fs)
	fs.BoolVar(&f.quick, "quick", false, "a first answer: six short blocks of each cell")
	fs.BoolVar(&f.thorough, "thorough", false, "a precise answer: more and longer blocks")
	fs.DurationVar(&plan.Time, "time", plan.Time, "spend `TIME` on the timed rounds of each cell; the cells of one table pool it and end together")
	fs.IntVar(&plan.Rounds, "rounds", 0, "time `N` rounds of each cell, rounded up to whole blocks, instead of --time")
	fs.IntVar(&plan.Blocks, "blocks", plan.Blocks, "at least `N` blocks of each cell; a block is one session of fresh processes")
	fs.IntVar(&plan.Warmup, "warmup", plan.Warmup, "leave out `N` rounds after the first two of a block; without --rounds, all that is left out takes 50ms at least, unless N is given as 0")
	fs.Var((*percent)(&plan.Precision), "precision", "a cell may end early once its median round is known to this `SHARE`")
	f.printing.add(fs, slices.DeleteFunc(formatNames(), func(n string) bool { return n == perfetto })...)
	fs.StringVar(&f.out, "out", "", "write the result to `FILE`, compressed if it ends in .gz (default ipcbench-TIME.json)")
	fs.StringVar(&f.html, "html", "", "write a page with pictures to `FILE` too, for a browser")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress, and no line that names the result")
	fs.BoolVar(&f.dry, "dry-run", false, "print all settings, what would be measured, and how long it may take, and end")
	fs.StringSliceVar(&o.Against, "against", nil, "measure another build of ipcbench in turn with this one; several `FILES` are layouts of it, of which each block takes the next")
	fs.StringSliceVar(&o.Layouts, "layouts", nil, "with --against: other layouts of this build, `FILES`, which its blocks take in turn after this program")
	fs.Var((*percent)(&o.Canary), "canary", "check that the gate works: add a copy of a cell, and one slowed down by `SHARE`")
	fs.Lookup("canary").NoOptDefVal, fs.Lookup("canary").DefValue = "20%", ""
	fs.StringSliceVar(&o.Profiling.Kinds, "profile", nil, "take profiles too, in extra blocks; `LIST` of "+strings.Join(kindNames(), "|"))
	offer(fs, "profile", kindNames)
	fs.BoolVar(&plan.Pin, "pin", false, "give the server and each worker processors of their own, or shared ones if there are too few")
	fs.StringVar(&plan.Verify, "verify", plan.Verify, "check every element in these rounds, which are not timed: `WHICH` is sample|all, one in eight or one in two")
	fs.DurationVar(&plan.RoundLimit, "round-limit", 0, "end the run after this `TIME` in which a round waits and nothing moves (default 1m, or 100 times the slowest round)")
	fs.Uint64Var(&plan.Seed, "seed", plan.Seed, "`NUMBER` from which data are made")
	fs.Uint64Var(&plan.OrderSeed, "order-seed", 0, "`NUMBER` from which the order of blocks is made (default one that is drawn for each run)")
	note(fs, insteadOf, "thorough", "quick")
	note(fs, insteadOf, "quick", "thorough")
	note(fs, insteadOf, "time", "rounds")
	note(fs, insteadOf, "rounds", "time")
	note(fs, harmful, "runs a program", "against", "layouts")
	note(fs, harmful, "replaces a file", "out", "html") // by a text that a shell may be made to read
	note(fs, ownLine, "", "dry-run")
	f.settings = a.configurable(cmd)
	return cmd
}

// choose settles what the flags leave open: without any flag that says what to
// run or how long, a quick run of a few cells; flags that were given beat the
// mode's defaults.
func (j *job) choose(cmd *cobra.Command) error {
	f, plan, given := j.f, &j.o.Plan, cmd.Flags().Changed
	choice := !chosen(cmd)
	mode := bench.Default
	switch {
	case f.thorough:
		mode = bench.Thorough
	case f.quick, choice && !given("quick") && !given("time") && !given("rounds") && !given("precision"):
		mode = bench.Quick
	}
	if mode == bench.Quick && choice {
		f.firstCells()
	}
	defaults, err := bench.DefaultPlan(mode)
	if err != nil {
		return err
	}
	plan.Mode, plan.Least = mode, defaults.Least
	if !given("time") {
		plan.Time = defaults.Time
	}
	if !given("warmup") {
		plan.Warmup = defaults.Warmup
	} else if plan.Warmup == 0 {
		plan.WarmTime = 0
	}
	if !given("blocks") {
		plan.Blocks = defaults.Blocks
		if plan.Rounds > 0 {
			plan.Blocks = max(1, min(plan.Blocks, plan.Rounds)) // a block has at least one
		}
		if len(j.o.Against) > 0 {
			plan.Blocks = max(plan.Blocks, bench.InterleavedBlocks, min(len(j.o.Against), 1+len(j.o.Layouts)))
		}
	}
	if !given("precision") {
		plan.Precision = defaults.Precision
		if len(j.o.Against)+len(j.o.Layouts) > 1 {
			plan.Precision = 0 // more blocks would share layouts
		}
	} else if plan.Precision == 0 {
		return usagef("--precision 0: want a positive number")
	}
	if given("rounds") && plan.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", plan.Rounds)
	}
	f.quick, f.thorough = mode == bench.Quick, mode == bench.Thorough
	return nil
}

// blockCommand is what another build of ipcbench calls, not a user: see
// run --against.
func (a *app) blockCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.BlockCommand,
		Short:  "Run one block that another build asks for on stdin",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(func(ctx context.Context) error { return bench.ServeBlock(ctx, os.Stdin, a.out, a.host) })
		},
	}
}
