package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/report"
	"ipcbench/scratch"
	"ipcbench/transports"
)

// runFlags are what `ipcbench run` was asked for, before it was understood.
type runFlags struct {
	cellFlags
	quick, thorough bool
	out, html       string
	printing
	quiet, dry bool
	against    []string // another build, in one layout or more
	layouts    []string // this one, in others
	canary     percent
	profile    []string

	tls      tlsFlags
	gather   gathering
	settings *settings
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	plan, err := bench.DefaultPlan(bench.Default)
	if err != nil {
		panic(err) // the default mode exists
	}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure transports and say which one to use",
		Long:  help("run"),
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.rank != nil { // first, so that an error ends all ranks
				if err := a.rank.enlist(&f, cmd.Flags().Changed); err != nil {
					return err
				}
			}
			if err := cmp.Or(f.complete(cmd), a.single(), f.choose(cmd, &plan)); err != nil {
				return err
			}
			if err := cmp.Or(f.alone(), f.gather.check(&f, cmd.Flags().Changed)); err != nil {
				return err
			}
			f.gather.crew(&f.cellFlags, cmd.Flags().Changed)
			if err := a.enter(&f, plan); err != nil {
				return err
			}
			return interruptible(func(ctx context.Context) error { return a.run(ctx, f, plan) })
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
	fs.StringSliceVar(&f.against, "against", nil, "measure another build of ipcbench in turn with this one; several `FILES` are layouts of it, of which each block takes the next")
	fs.StringSliceVar(&f.layouts, "layouts", nil, "with --against: other layouts of this build, `FILES`, which its blocks take in turn after this program")
	fs.Var(&f.canary, "canary", "check that the gate works: add a copy of a cell, and one slowed down by `SHARE`")
	fs.Lookup("canary").NoOptDefVal, fs.Lookup("canary").DefValue = "20%", ""
	fs.StringSliceVar(&f.profile, "profile", nil, "take profiles too, in extra blocks; `LIST` of "+strings.Join(kindNames(), "|"))
	offer(fs, "profile", kindNames)
	fs.BoolVar(&plan.Pin, "pin", false, "give the server and each worker processors of their own, or shared ones if there are too few")
	fs.StringVar(&plan.Verify, "verify", plan.Verify, "check every element in these rounds, which are not timed: `WHICH` is sample|all, one in eight or one in two")
	fs.DurationVar(&plan.RoundLimit, "round-limit", 0, "end the run after this `TIME` in which a round waits and nothing moves (default 1m, or 100 times the slowest round)")
	fs.Uint64Var(&plan.Seed, "seed", plan.Seed, "`NUMBER` from which data are made")
	fs.Uint64Var(&plan.OrderSeed, "order-seed", 0, "`NUMBER` from which the order of blocks is made (default one that is drawn for each run)")
	note(fs, "quick", insteadOf, "thorough")
	note(fs, "thorough", insteadOf, "quick")
	note(fs, "rounds", insteadOf, "time")
	note(fs, "time", insteadOf, "rounds")
	note(fs, "against", harmful, "runs a program")
	note(fs, "layouts", harmful, "runs a program")
	note(fs, "out", harmful, "replaces a file") // by a text that a shell may be made to read
	note(fs, "html", harmful, "replaces a file")
	f.settings = a.configurable(cmd)
	return cmd
}

// choose settles what the flags leave open: without any flag that says what to
// run or how long, a quick run of a few cells; flags that were given beat the
// mode's defaults.
func (f *runFlags) choose(cmd *cobra.Command, plan *bench.Plan) error {
	given := cmd.Flags().Changed
	if f.quick && f.thorough {
		return usagef("--quick and --thorough are given: want one of them")
	}
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
	asked := *plan
	*plan = defaults
	for name, take := range map[string]func(){
		"time":      func() { plan.Time = asked.Time },
		"rounds":    func() { plan.Rounds = asked.Rounds },
		"blocks":    func() { plan.Blocks = asked.Blocks },
		"warmup":    func() { plan.Warmup = asked.Warmup },
		"precision": func() { plan.Precision = asked.Precision },
	} {
		if given(name) {
			take()
		}
	}
	if plan.Rounds > 0 && !given("blocks") {
		plan.Blocks = max(1, min(plan.Blocks, plan.Rounds)) // a block has at least one
	}
	if len(f.against) > 0 && !given("blocks") {
		plan.Blocks = max(plan.Blocks, bench.InterleavedBlocks, min(len(f.against), 1+len(f.layouts)))
	}
	if len(f.against)+len(f.layouts) > 1 && !given("precision") {
		plan.Precision = 0 // more blocks would share layouts
	}
	plan.Seed, plan.OrderSeed, plan.Verify, plan.Pin = asked.Seed, asked.OrderSeed, asked.Verify, asked.Pin
	plan.RoundLimit = asked.RoundLimit
	if given("warmup") && plan.Warmup == 0 {
		plan.WarmTime = 0
	}
	if given("precision") && plan.Precision == 0 {
		return usagef("--precision 0: want a positive number")
	}
	if given("rounds") && plan.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", plan.Rounds)
	}
	f.quick, f.thorough = mode == bench.Quick, mode == bench.Thorough
	return nil
}

// enter goes where the links of a run are, if it has any and asks for nothing wrong.
func (a *app) enter(f *runFlags, plan bench.Plan) error {
	if !f.onLink() {
		return nil
	}
	if _, err := a.cells(f.cellFlags); err != nil || f.dry {
		return err
	}
	return f.cellFlags.enter()
}

// run measures and presents.
func (a *app) run(ctx context.Context, f runFlags, plan bench.Plan) (err error) {
	format, err := f.check()
	if err := errors.Join(err, a.readable(f.format)); err != nil {
		return err
	}
	asked, err := a.cells(f.cellFlags)
	if err != nil {
		return err
	}
	at, err := f.listens()
	if err != nil {
		return err
	}
	if err := bench.CheckPlan(plan); err != nil {
		return usageError{err}
	}
	control, err := transports.NewVariant(a.host.Transports[0], nil)
	if err != nil {
		return err
	}
	o := bench.Options{
		Cells: asked, Plan: plan, Control: control, Host: a.host, Command: f.settings.command(os.Args[1:]),
		Listen: at, Ports: f.gather.ports.Ports, Agents: f.gather.agents, Place: f.gather.place.Place, Hurried: a.rank != nil, Insecure: f.insecure, Against: f.against, Layouts: f.layouts, Canary: float64(f.canary), Profiling: bench.Profiling{Kinds: f.profile},
	}
	if err := o.CheckPeers(); err != nil {
		return usageError{err}
	}
	if o.Cells, o.Skipped, err = fitting(asked, f.parts != nil, o); err != nil {
		return usageError{err}
	}
	if err := o.Profiling.Check(o); err != nil {
		return usageError{err}
	}
	if len(f.against) > 0 && !f.tls.Zero() {
		return usagef("--tls-ca and --against are given: want one of them") // which holds for all of --tls-*
	}
	if len(f.layouts) > 0 && len(f.against) == 0 {
		return usagef("--layouts %s: these are of a run beside another build: want --against, too", strings.Join(f.layouts, ","))
	}
	if o.Files, err = f.tls.files(o.Cells); err != nil {
		return err
	}
	if err := o.CheckPython(); err != nil {
		return usageError{err}
	}
	if bench.HasPython(o.Cells) {
		if o.Python.Interpreter, err = f.findPython(ctx, o.Cells); err != nil {
			return err
		}
	}
	if err := privateFolder(); err != nil {
		return err
	}
	remove, err := unpack(ctx, &o, f.dry)
	if err != nil {
		return err
	}
	defer remove()
	if f.dry {
		return misfit(a.dryRun(ctx, f.settings, o))
	}
	out, err := outFile(f.out)
	if err != nil {
		return err
	}
	if f.html == "-" {
		return hinted{usagef("--html -: the page goes to a file"), "--format html prints it"}
	}
	if f.html != "" {
		if f.html, err = writable("--html", f.html); err != nil {
			return err
		}
		if same(f.html, out.path) {
			return hinted{usagef("--html %s: the result goes there", f.html), "choose another file with --html"}
		}
	}
	if len(f.profile) > 0 {
		if o.Profiling.Dir, err = profileFolder(out); err != nil {
			return err
		}
		defer os.Remove(o.Profiling.Dir) // if nothing was profiled: a folder that is not empty stays
	}
	if f.gather.agents > 0 {
		if o.Fleet, err = a.gather(ctx, &f, at); err != nil {
			return err
		}
		whole := ctx
		defer func() {
			why := err
			if cause := context.Cause(whole); err != nil && errors.As(cause, new(interrupted)) { // whatever broke on the way out
				why = cause
			}
			err = errors.Join(err, o.Fleet.Close(a.code(why)))
		}()
		var cancel context.CancelFunc
		ctx, cancel = o.Fleet.Context(ctx)
		defer cancel()
		o.Listen = netip.AddrPortFrom(at.Addr(), 0) // at whose port the agents have joined
		if err := placed(ctx, &o, asked, f.parts != nil); err != nil {
			return err
		}
	}
	o.Doctor = a.examine(bench.Needs(asked))

	p := newProgress(a.err, f.quiet)
	if p != nil {
		o.Progress = p.show
	}
	o.Save = out.keep
	result, runErr := bench.Run(ctx, o)
	defer p.clear()
	if result == nil {
		return misfit(runErr)
	}
	if len(result.Cells) > 0 {
		// The table comes even if the file cannot be written, and the other way
		// round: what was measured is not thrown away.
		p.step("writing the result")
		err := out.keep(result)
		p.step("making the report")
		var text bytes.Buffer
		formatErr := format.Write(&text, result, report.Options{Views: f.views, File: out.path, Call: called(os.Args[0]), Text: a.terminal()})
		p.clear()
		remove() // whoever reads the answer may be gone, which ends this process
		if err == nil && !f.quiet {
			fmt.Fprintf(a.err, "ipcbench: wrote %s\n", out.path)
		}
		_, writeErr := a.out.Write(text.Bytes())
		runErr = errors.Join(runErr, err, formatErr, writeErr, a.page(f, result), plausible(result))
	}
	if result.Partial != "" && runErr == nil {
		runErr = context.Cause(ctx)
	}
	return runErr
}

// misfit is the error of a run that did not begin: that a cell does not fit is the
// user's to change. It may be the control, which is always measured, or what a peer
// refuses. So is a file that is no build of ipcbench.
func misfit(err error) error {
	if unfit := (*bench.Unfit)(nil); errors.As(err, &unfit) {
		return usageError{err}
	}
	if build := (*bench.BuildError)(nil); errors.As(err, &build) {
		return hinted{usageError{err}, "go build -ldflags=-randlayout=N -o FILE ./cmd/ipcbench makes a layout, in a checkout of the commit"}
	}
	return err
}

// page writes the page of a result if one was asked for.
func (a *app) page(f runFlags, r *bench.Result) error {
	if f.html == "" {
		return nil
	}
	html, _ := report.FormatNamed("html") // there is one
	err := result.ReplaceFile(f.html, func(w io.Writer) error { return html.Write(w, r, report.Options{}) })
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if !f.quiet {
		fmt.Fprintf(a.err, "ipcbench: wrote %s\n", f.html)
	}
	return nil
}

// privateFolder tries whether sessions can make their directories.
func privateFolder() error {
	if err := scratch.Try(os.TempDir()); err != nil {
		return hinted{usageError{err}, "set TMPDIR to a directory that can be written to, with a short name"}
	}
	return nil
}
