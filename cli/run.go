package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/report"
	"ipcbench/scratch"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// runFlags are what `ipcbench run` was asked for, before it was understood.
type runFlags struct {
	transports, models []string
	ups                []string
	workers, clients   []string
	perProcess, depth  int
	quick, thorough    bool
	out, format        string
	quiet, dry         bool
	against            string // another build
	canary             percent
	profile            []string
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	plan, err := bench.DefaultPlan(bench.Default)
	if err != nil {
		panic(err) // the default mode exists
	}
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure transports and print a table",
		Long: strings.TrimSpace(`
Starts a server and worker processes for every combination of transport, model,
workers and clients, has them exchange models and updates, proves the data, and
prints what a round costs. The raw samples go to a JSON file, from which
ipcbench report makes every other format.

Comma-separated lists make a matrix. A transport takes settings after colons:
  --transport shm-slab,shm-slab:wait=spin,pickle:elems=on
A minus takes one out: --transport all,-shm-tensor. Of several transports, those
that a model does not fit are skipped, and the result says why.
A model is a name (ipcbench list models), uniform:SIZE/COUNT, or a file:
  --model resnet18,uniform:64MiB/20,path/to/model.safetensors
Clients send back what they got, trained. --up says what else: lora, adapters of
rank 8 of every matrix in the model, lora:RANK, or any other model's shapes:
  --model gpt2 --up model,lora,lora:64,uniform:64KiB/1

The transport inproc, which never leaves the process, is always measured too:
overhead is what a round costs beyond the same round there.

Unless a flag says what to run or for how long, all transports are measured with
one worker and one client in --quick mode, in under a minute. The defaults below
are those of the default mode; --quick takes 3 blocks and 600ms a cell, and
--thorough 12 blocks, 30s and ±2 %.`),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.choose(cmd, &plan); err != nil {
				return err
			}
			return interruptible(func(ctx context.Context) error { return a.run(ctx, f, plan) })
		},
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.transports, "transport", []string{"all"}, "transports with their settings, or all; -NAME takes one out")
	fs.StringSliceVar(&f.models, "model", []string{"cnn", "histology"}, "models")
	fs.StringSliceVar(&f.ups, "up", []string{"model"}, "what clients send back: model (tensors like the model's), lora[:RANK], or a model")
	fs.StringSliceVar(&f.workers, "workers", []string{"2"}, "workers that train at the same time")
	fs.StringSliceVar(&f.clients, "clients", []string{"4"}, "clients a round, shared out among the workers")
	fs.IntVar(&f.perProcess, "lanes-per-process", 1, "workers that one process hosts")
	fs.IntVar(&f.depth, "depth", trainer.DefaultDepth, "updates of a worker that may wait to be folded, the one in the making included")
	fs.BoolVar(&f.quick, "quick", false, "a rough answer: few short blocks")
	fs.BoolVar(&f.thorough, "thorough", false, "a sure answer: many long blocks")
	fs.DurationVar(&plan.Time, "time", plan.Time, "timed rounds of a cell take so long in all, averaged over the cells of one table, which end together")
	fs.IntVar(&plan.Rounds, "rounds", 0, "timed rounds of each cell, instead of --time, rounded up to whole blocks")
	fs.IntVar(&plan.Blocks, "blocks", plan.Blocks, "the fewest blocks of each cell: sessions of fresh processes")
	fs.IntVar(&plan.Warmup, "warmup", plan.Warmup, "rounds of a block that do not count, besides the first two; without --rounds, at least what takes 50ms; 0 is none")
	fs.Float64Var(&plan.Precision, "precision", plan.Precision, "stop a cell when its median round is known this well (0.05 is ±5 %)")
	fs.Uint64Var(&plan.Seed, "seed", plan.Seed, "seed of the data and of the order of blocks")
	fs.StringVar(&plan.Verify, "verify", plan.Verify, "which rounds are checked element by element, and not timed: sample (every eighth) or all (every second)")
	fs.IntVar(&plan.TrainMS, "train-ms", 0, "CPU time in milliseconds that every client's training burns")
	fs.DurationVar(&plan.RoundLimit, "round-limit", 0, "end the run when a round waits and nothing moves for so long; training does not count (default 1m, or 100 times the slowest round)")
	fs.BoolVar(&plan.Respawn, "respawn", false, "start fresh processes for every round, and count that")
	fs.BoolVar(&plan.Pin, "pin", false, "give server and workers processors of their own; they share them in turn if there are too few")
	fs.StringVar(&f.against, "against", "", "another build of ipcbench, whose blocks are run between those of this one")
	fs.Var(&f.canary, "canary", "try the gate too: copy a cell as it is, and slowed down by so much")
	fs.Lookup("canary").NoOptDefVal, fs.Lookup("canary").DefValue = "20%", ""
	fs.BoolVar(&f.dry, "dry-run", false, "say what would be run and how long that may take, and run nothing")
	fs.StringSliceVar(&f.profile, "profile", nil, "profile too, in blocks of their own: "+kindNames(allKinds))
	fs.StringVar(&f.out, "out", "", "the result's file (default ipcbench-TIME.json)")
	fs.StringVar(&f.format, "format", "text", "what is printed: "+formatNames())
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "no progress")
	return cmd
}

func formatNames() string {
	var names []string
	for _, f := range report.Formats() {
		names = append(names, f.Name)
	}
	return strings.Join(names, "|")
}

// choose settles what the flags leave open: without any flag that says what to
// run or how long, a quick run of a few cells; flags that were given beat the
// mode's defaults.
func (f *runFlags) choose(cmd *cobra.Command, plan *bench.Plan) error {
	given := cmd.Flags().Changed
	if f.quick && f.thorough {
		return usagef("--quick and --thorough: choose one")
	}
	choice := !given("transport") && !given("model") && !given("up") && !given("workers") && !given("clients") // of cells: ours
	mode := bench.Default
	switch {
	case f.thorough:
		mode = bench.Thorough
	case f.quick, choice && !given("time") && !given("rounds"):
		mode = bench.Quick
	}
	if mode == bench.Quick && choice { // one of each, so that bandwidths and floors are shown too
		f.workers, f.clients = []string{"1"}, []string{"1"}
	}
	defaults, err := bench.DefaultPlan(mode)
	if err != nil {
		return err
	}
	asked := *plan
	*plan = defaults
	if mode == bench.Quick && choice {
		plan.Budget = bench.QuickBudget
	}
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
	if f.against != "" && !given("blocks") {
		plan.Blocks = max(plan.Blocks, bench.InterleavedBlocks)
	}
	plan.Seed, plan.Verify, plan.TrainMS, plan.Respawn, plan.Pin = asked.Seed, asked.Verify, asked.TrainMS, asked.Respawn, asked.Pin
	plan.RoundLimit = asked.RoundLimit
	if given("rounds") && plan.Rounds < 1 {
		return usagef("--rounds %d: want at least 1", plan.Rounds)
	}
	return nil
}

// run measures and presents.
func (a *app) run(ctx context.Context, f runFlags, plan bench.Plan) error {
	format, err := findFormat(f.format)
	if err != nil {
		return err
	}
	cells, err := a.cells(f)
	if err != nil {
		return err
	}
	if err := plan.Validate(); err != nil {
		return usageError{err}
	}
	cells, skipped, err := fitting(cells, plan)
	if err != nil {
		return usageError{err}
	}
	control, err := transports.NewVariant(a.host.Transports[0], nil)
	if err != nil {
		return err
	}
	o := bench.Options{
		Cells: cells, Skipped: skipped, Plan: plan, Control: control, Host: a.host, Command: append([]string{"ipcbench"}, os.Args[1:]...), // not by what path it was called
		Against: f.against, Canary: float64(f.canary), Profiling: bench.Profiling{Kinds: f.profile},
	}
	if err := errors.Join(o.Profiling.Check(o), o.CheckSize()); err != nil {
		return usageError{err}
	}
	if f.against != "" {
		if err := bench.ProbeBuild(ctx, f.against); err != nil {
			return hinted{usagef("--against: %w", err), "go build -o FILE ./cmd/ipcbench makes one, in a checkout of the other commit"}
		}
	}
	if err := privateFolder(); err != nil {
		return err
	}
	if f.dry {
		return a.dryRun(ctx, o)
	}
	out, err := outFile(f.out)
	if err != nil {
		return err
	}
	if len(f.profile) > 0 {
		if o.Profiling.Dir, err = profileFolder(out); err != nil {
			return err
		}
		defer os.Remove(o.Profiling.Dir) // if nothing was profiled: a folder that is not empty stays
	}
	a.mentionLeftovers()

	p := newProgress(a.err, f.quiet)
	if p != nil {
		o.Progress = p.show
	}
	o.Save = out.keep
	result, runErr := bench.Run(ctx, o)
	p.end()
	if unfit := (*bench.Unfit)(nil); result == nil && errors.As(runErr, &unfit) { // the control that is always measured
		return usageError{runErr}
	}
	if result == nil {
		return runErr
	}
	if len(result.Cells) > 0 {
		// The table comes even if the file cannot be written, and the other way
		// round: what was measured is not thrown away.
		err := out.keep(result)
		if err == nil {
			fmt.Fprintf(a.err, "ipcbench: wrote %s\n", out.path)
		}
		runErr = errors.Join(runErr, err, format.Write(a.out, result), plausible(result))
	}
	if result.Partial != "" && runErr == nil {
		runErr = context.Cause(ctx)
	}
	return runErr
}

// fitting returns the cells that can be measured here, and the others. One that
// was named alone has to fit, and at least one of several.
func fitting(cells []bench.Spec, plan bench.Plan) (fit []bench.Spec, skipped []bench.Skipped, err error) {
	seen := map[string]bool{}
	alone := !slices.ContainsFunc(cells, func(c bench.Spec) bool { return c.Variant.String() != cells[0].Variant.String() })
	for _, c := range cells {
		if seen[c.String()] {
			return nil, nil, fmt.Errorf("%s is asked for twice", c)
		}
		seen[c.String()] = true
		e := c.Check(plan)
		var unfit *bench.Unfit
		switch {
		case e == nil:
			fit = append(fit, c)
		case alone || !errors.As(e, &unfit):
			return nil, nil, e
		default:
			err = errors.Join(err, e)
			skipped = append(skipped, unfit.Skipped())
		}
	}
	if len(fit) == 0 {
		return nil, nil, err
	}
	return fit, skipped, nil
}

// privateFolder tries whether sessions can make their directories.
func privateFolder() error {
	dir, err := scratch.New(os.TempDir())
	if err == nil {
		err = dir.Close()
	}
	if err != nil {
		return hinted{usageError{err}, "set TMPDIR to a directory that can be written to, with a short name"}
	}
	return nil
}

func findFormat(name string) (report.Format, error) {
	for _, f := range report.Formats() {
		if f.Name == name {
			return f, nil
		}
	}
	return report.Format{}, usagef("--format %s: want %s", name, formatNames())
}

// cells returns the matrix that the flags ask for.
func (a *app) cells(f runFlags) ([]bench.Spec, error) {
	for flag, list := range map[string][]string{
		"--transport": f.transports, "--model": f.models, "--up": f.ups, "--workers": f.workers, "--clients": f.clients,
	} {
		if len(list) == 0 || slices.Contains(list, "") {
			return nil, usagef("%s: a list of at least one, with nothing empty in it", flag)
		}
	}
	variants, err := a.variants(f.transports)
	if err != nil {
		return nil, err
	}
	workers, err := numbers("--workers", f.workers)
	if err != nil {
		return nil, err
	}
	clients, err := numbers("--clients", f.clients)
	if err != nil {
		return nil, err
	}
	var cells []bench.Spec
	for _, text := range f.models {
		model, err := models.Parse(text)
		if err != nil {
			return nil, namedModel("--model", text, err)
		}
		for _, text := range f.ups {
			up, err := models.Update(text, model)
			if err != nil {
				return nil, namedModel("--up", text, err)
			}
			for _, w := range workers {
				for _, c := range clients {
					for _, v := range variants {
						cells = append(cells, bench.Spec{
							Variant: v, Model: model, Up: up, Workers: w, Clients: c, PerProcess: f.perProcess, Depth: f.depth,
						})
					}
				}
			}
		}
	}
	return cells, nil
}

// namedModel is the error of a flag whose text names no model.
func namedModel(flag, text string, err error) error {
	err = usagef("%s: %w", flag, err)
	if !strings.HasSuffix(text, ".safetensors") { // whose errors say what is wrong with the file
		err = hinted{err, "ipcbench list models"}
	}
	return err
}

// variants returns those that texts name, without those that stand there with a
// minus; all, if there is nothing else.
func (a *app) variants(texts []string) ([]transports.Variant, error) {
	without := slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return !strings.HasPrefix(t, "-") })
	variants, err := a.named(slices.DeleteFunc(slices.Clone(texts), func(t string) bool { return strings.HasPrefix(t, "-") }))
	if err != nil {
		return nil, err
	}
	for _, text := range without {
		v, err := a.parse(text[1:])
		if err != nil {
			return nil, err
		}
		n := len(variants)
		variants = slices.DeleteFunc(variants, func(w transports.Variant) bool {
			return w.String() == v.String() || text[1:] == w.Transport.Name() // with all settings
		})
		if len(variants) == n {
			return nil, usagef("--transport %s: takes nothing away", text)
		}
	}
	if len(variants) == 0 {
		return nil, usagef("--transport %s: nothing is left", strings.Join(texts, ","))
	}
	return variants, nil
}

func (a *app) parse(text string) (transports.Variant, error) {
	v, err := transports.Parse(text, a.host.Transports)
	if err != nil {
		return v, hinted{usagef("--transport: %w", err), "ipcbench list transports"}
	}
	return v, nil
}

func (a *app) named(texts []string) ([]transports.Variant, error) {
	if len(texts) == 0 {
		texts = []string{"all"}
	}
	var variants []transports.Variant
	seen := map[string]bool{}
	add := func(v transports.Variant) {
		if !seen[v.String()] {
			seen[v.String()] = true
			variants = append(variants, v)
		}
	}
	for _, text := range texts {
		if text == "all" {
			for _, t := range a.host.Transports {
				v, err := transports.NewVariant(t, nil)
				if err != nil {
					return nil, err
				}
				add(v)
			}
			continue
		}
		v, err := a.parse(text)
		if err != nil {
			return nil, err
		}
		add(v)
	}
	return variants, nil
}

func numbers(flag string, texts []string) ([]int, error) {
	var all []int
	for _, text := range texts {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, usagef("%s %s: want whole numbers of at least 1", flag, text)
		}
		all = append(all, n)
	}
	return all, nil
}
