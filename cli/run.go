package cli

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/program"
	"ipcbench/bench/session"
)

// runFlags are the flags of ipcbench run, as given.
type runFlags struct {
	cellFlags
	quick, thorough bool
	out, html       string
	resume          string
	printing
	quiet, dry bool

	against, layouts []string // executables of another build, and of this one

	tls      tlsFlags
	gather   gathering
	settings *settings
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	j := &job{app: a, f: &f}
	o, plan := &j.o, &j.o.Plan
	var err error
	if *plan, err = session.DefaultPlan(session.Default); err != nil {
		panic(err) // the default mode exists
	}
	cmd := &cobra.Command{
		Use: "run",
		Args: func(cmd *cobra.Command, args []string) error {
			c := cmd.Flags().Lookup("canary") // pflag takes its optional value after = only
			if len(args) == 1 && c.Changed && c.Value.Set(args[0]) == nil {
				return nil
			}
			return noArgs(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := j.check(cmd); err != nil {
				return err
			}
			return interruptible(j.run)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false // flags are listed in this order
	f.cellFlags.add(fs)
	f.tls.add(fs)
	f.gather.add(fs)
	fs.BoolVar(&f.quick, "quick", false, "a first answer: six short blocks per cell")
	fs.BoolVar(&f.thorough, "thorough", false, "a precise answer: more and longer blocks")
	fs.DurationVar(&plan.Time, "time", plan.Time, "spend `TIME` on the timed rounds of each cell")
	fs.IntVar(&plan.Rounds, "rounds", 0, "measure `N` rounds per cell instead of for --time")
	fs.IntVar(&plan.Blocks, "blocks", plan.Blocks, "at least `N` blocks per cell; each has fresh processes")
	fs.DurationVar(&plan.Spread, "spread", 0, "spread the blocks over `TIME`: one cycle of all cells in each part of it")
	fs.IntVar(&plan.Warmup, "warmup", plan.Warmup, "`N` untimed rounds per block, after the first two")
	fs.Var((*percent)(&plan.Precision), "precision", "end a cell early if its median is known to this `SHARE`")
	f.printing.add(fs, slices.DeleteFunc(formatNames(), func(n string) bool { return n == perfetto })...)
	fs.StringVar(&f.out, "out", "", "write the result to `FILE` (default ipcbench-TIME.json)")
	fs.StringVar(&f.resume, "resume", "", "go on with an interrupted run: its result, `FILE`, is completed")
	fs.StringVar(&f.html, "html", "", "also write a page with charts to `FILE`")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress, and no names of written files")
	fs.BoolVar(&f.dry, "dry-run", false, "print settings and plan; measure nothing")
	fs.StringSliceVar(&f.against, "against", nil, "measure another build in turn: `FILES` are its layouts")
	fs.StringSliceVar(&f.layouts, "layouts", nil, "more layouts of this build: `FILES`, for --against")
	fs.StringVar(&plan.Baseline, "baseline", "", "compare all other peers with this one: `NAME` of --peer")
	fs.Var((*percent)(&o.Canary), "canary", "test the gate with a copy of a cell slowed down by `SHARE`")
	fs.Lookup("canary").NoOptDefVal, fs.Lookup("canary").DefValue = "20%", ""
	fs.StringSliceVar(&o.Profiling.Kinds, "profile", nil, "take profiles in extra blocks: `LIST` of "+strings.Join(kindNames(), "|"))
	offer(fs, "profile", kindNames)
	fs.BoolVar(&plan.Pin, "pin", false, "give the server and each worker their own processors")
	fs.IntVar(&plan.ServerCPUs, "server-cpus", 0, "give the server `N` processors, and all others to the workers")
	fs.StringVar(&plan.Verify, "verify", plan.Verify, "check data in `WHICH` rounds: last, sample (1 in 8), all (1 in 2)")
	fs.DurationVar(&plan.RoundLimit, "round-limit", 0, "end the run after `TIME` without progress in a round (default 1m, or 100 times the slowest round)")
	fs.Uint64Var(&plan.Seed, "seed", plan.Seed, "`NUMBER` that determines the data")
	fs.Uint64Var(&plan.OrderSeed, "order-seed", 0, "`NUMBER` that determines the order of blocks (default random)")
	onlyOnLine(fs, "dry-run", "resume")
	f.settings = a.configurable(cmd)
	return cmd
}

// choose sets the mode and its defaults for flags that are not given. Without a flag that says
// what to measure or for how long, the run is quick, with one worker and one client.
func (j *job) choose(cmd *cobra.Command) error {
	f, plan, given := j.f, &j.o.Plan, cmd.Flags().Changed
	choice := !chosen(cmd)
	mode := session.Default
	switch {
	case f.thorough:
		mode = session.Thorough
	case f.quick, choice && !slices.ContainsFunc([]string{"quick", "time", "rounds", "precision"}, given):
		mode = session.Quick
	}
	if mode == session.Quick && choice {
		f.firstCells()
	}
	defaults, err := session.DefaultPlan(mode)
	if err != nil {
		return err
	}
	plan.Mode = mode
	if !given("rounds") && !given("blocks") && !given("spread") {
		plan.Least, plan.Settle, plan.Starts = defaults.Least, defaults.Settle, defaults.Starts
	}
	if !given("verify") {
		plan.Verify = defaults.Verify
	}
	if !given("time") {
		plan.Time = defaults.Time
	}
	if !given("warmup") {
		plan.Warmup = defaults.Warmup
	} else if plan.Settle = 0; plan.Warmup == 0 {
		plan.WarmTime = 0
	}
	if !given("blocks") {
		plan.Blocks = defaults.Blocks
		if plan.Rounds > 0 {
			plan.Blocks = max(1, min(plan.Blocks, plan.Rounds)) // each block needs a round
		}
		if len(f.against) > 0 || plan.Baseline != "" {
			plan.Blocks = max(plan.Blocks, bench.InterleavedBlocks, min(len(f.against), 1+len(f.layouts)))
		}
	}
	if !given("precision") {
		plan.Precision = defaults.Precision
		if plan.Rounds > 0 || plan.Spread > 0 || len(f.against)+len(f.layouts) > 1 {
			plan.Precision = 0 // --rounds ends a cell, or additional blocks would use a layout twice
		}
	} else if plan.Precision == 0 {
		return usagef("--precision must be positive, not 0")
	}
	if given("rounds") && plan.Rounds < 1 {
		return usagef("--rounds must be at least 1, not %d", plan.Rounds)
	}
	if plan.Spread < 0 || given("spread") && plan.Spread == 0 {
		return usagef("--spread must be positive, not %v", plan.Spread)
	}
	if given("order-seed") && plan.OrderSeed == 0 {
		return usagef("--order-seed must be at least 1, not 0: without it, the order is random")
	}
	f.quick, f.thorough = mode == session.Quick, mode == session.Thorough
	return nil
}

// blockCommand runs one block for another build of ipcbench, which calls it: see run
// --against.
func (a *app) blockCommand() *cobra.Command {
	return &cobra.Command{
		Use:    program.BlockCommand,
		Short:  "Run one block that another build asks for on stdin",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return interruptible(func(ctx context.Context) error { return program.Serve(ctx, os.Stdin, a.out, a.host) })
		},
	}
}
