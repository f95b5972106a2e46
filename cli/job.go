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

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/scratch"
	"ipcbench/report"
	"ipcbench/transports"
)

// A job is a run of measurements, step by step.
type job struct {
	*app
	f        *runFlags
	format   report.Format
	asked    []bench.Spec // before those are left out that cannot be measured
	o        bench.Options
	out      string // path of the result
	progress *progress
	forget   func() // removes what workers in Python run
}

// check settles what was asked for, and reports mistakes in it. It goes where the links of
// the run are, if it has any.
func (j *job) check(cmd *cobra.Command) (err error) {
	f := j.f
	if j.rank != nil { // first, so that an error ends all ranks
		if err := j.rank.enlist(f, cmd.Flags().Changed); err != nil {
			return err
		}
	}
	has := given(cmd.Flags()) // before choose settles the mode
	if err := cmp.Or(f.complete(cmd), j.single(), j.choose(cmd)); err != nil {
		return err
	}
	if f.gather.Agents < 0 {
		return usagef("--agents must be at least 1, not %d", f.gather.Agents)
	}
	f.gather.crew(&f.cellFlags, cmd.Flags().Changed)
	if j.format, err = j.app.format(f.printing); err != nil {
		return err
	}
	if j.asked, err = j.cells(f.cellFlags); err != nil {
		return err
	}
	if err := conflicts(has, j.asked); err != nil {
		return err
	}
	if err := bench.CheckPlan(j.o.Plan); err != nil {
		return usageError{err}
	}
	if err := capture.Check(j.o.Profiling.Kinds...); err != nil {
		return usagef("--profile: %w", err)
	}
	if f.dry {
		return nil
	}
	return enter(j.asked)
}

// run does all that a signal may interrupt.
func (j *job) run(ctx context.Context) (err error) {
	if err := j.plan(ctx); err != nil {
		return err
	}
	defer j.forget()
	if j.f.dry {
		return misfit(j.dryRun(ctx, j.f.settings, j.o))
	}
	if err := j.files(); err != nil {
		return err
	}
	defer os.Remove(j.o.Profiling.Dir) // if nothing was profiled: a folder that is not empty stays
	if j.f.gather.Agents > 0 {
		whole := ctx
		if j.o.Fleet, err = j.gather(ctx, j.f, j.o.Listen); err != nil {
			return err
		}
		defer func() { err = j.dismiss(whole, err) }()
		if j.rank != nil {
			j.rank.joined(j.o.Fleet)
		}
		var cancel context.CancelFunc
		ctx, cancel = j.o.Fleet.Context(ctx)
		defer cancel()
		j.o.Listen = netip.AddrPortFrom(j.o.Listen.Addr(), 0) // at whose port the agents have joined
		if err := placed(ctx, &j.o, j.asked, j.f.parts != nil); err != nil {
			return err
		}
	}
	r, err := j.measure(ctx)
	defer j.progress.clear()
	if r == nil {
		return misfit(err)
	}
	return j.present(ctx, r, err)
}

// plan settles the options of the run: which cells can be measured, and what they need.
func (j *job) plan(ctx context.Context) (err error) {
	f, o := j.f, &j.o
	if o.Control, err = transports.NewVariant(j.host.Transports[0], nil); err != nil {
		return err
	}
	if o.Listen, err = f.listens(); err != nil {
		return err
	}
	o.Cells, o.Host, o.Command = j.asked, j.host, f.settings.command(os.Args[1:])
	o.Ports, o.Agents, o.Place, o.Hurried, o.Insecure = f.gather.ports.Ports, f.gather.Agents, f.gather.place.Place, j.rank != nil, f.insecure
	if o.Cells, o.Skipped, err = fitting(j.asked, f.parts != nil, *o); err != nil {
		return usageError{err}
	}
	if o.Files, err = f.tls.files(o.Cells); err != nil {
		return err
	}
	if o.Python.Interpreter, err = f.findPython(ctx, o.Cells); err != nil {
		return err
	}
	if err := scratch.Try(os.TempDir()); err != nil { // where sessions make their directories
		return hinted{usageError{err}, "set TMPDIR to a directory that can be written to, with a short name"}
	}
	j.forget, err = unpack(ctx, o, f.dry)
	return err
}

// files tries whether all files of the run can be written.
func (j *job) files() (err error) {
	f := j.f
	if j.out, err = outFile(f.out); err != nil {
		return err
	}
	if f.html == "-" {
		return hinted{usagef("--html -: the page goes to a file"), "--format html prints it"}
	}
	if f.html != "" {
		if f.html, err = writable("--html", f.html); err != nil {
			return err
		}
		if same(f.html, j.out) {
			return hinted{usagef("--html %s: the result goes there", f.html), "choose another file with --html"}
		}
	}
	if len(j.o.Profiling.Kinds) > 0 {
		j.o.Profiling.Dir, err = profileFolder(j.out)
	}
	return err
}

// dismiss ends the agents of a run that ends with err.
func (j *job) dismiss(ctx context.Context, err error) error {
	why := err
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(interrupted)) { // whatever broke on the way out
		why = cause
	}
	return errors.Join(err, j.o.Fleet.Close(j.code(why)))
}

// measure runs all blocks.
func (j *job) measure(ctx context.Context) (*bench.Result, error) {
	j.o.Doctor = j.examine(bench.Needs(j.asked))
	if j.progress = newProgress(j.app.err, j.f.quiet); j.progress != nil {
		j.o.Progress = j.progress.show
	}
	j.o.Save = func(r *bench.Result) error { return r.WriteFile(j.out) }
	return bench.Run(ctx, j.o)
}

// present writes what a run has found. The table comes even if the file cannot be written,
// and the other way round: what was measured is not thrown away.
func (j *job) present(ctx context.Context, r *bench.Result, runErr error) error {
	if len(r.Cells) > 0 {
		j.progress.step("writing the result")
		err := r.WriteFile(j.out)
		j.progress.step("making the report")
		var text bytes.Buffer
		formatErr := j.format.Write(&text, r, report.Options{Views: j.f.views, File: j.out, Call: called(os.Args[0]), Text: j.terminal()})
		j.progress.clear()
		j.forget() // whoever reads the answer may be gone, which ends this process
		if err == nil && !j.f.quiet {
			fmt.Fprintf(j.app.err, "ipcbench: wrote %s\n", j.out)
		}
		_, writeErr := j.app.out.Write(text.Bytes())
		runErr = errors.Join(runErr, err, formatErr, writeErr, j.page(r), plausible(r))
	}
	if r.Partial != "" && runErr == nil {
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
func (j *job) page(r *bench.Result) error {
	f := j.f
	if f.html == "" {
		return nil
	}
	html, _ := report.FormatNamed("html") // there is one
	if err := result.ReplaceFile(f.html, func(w io.Writer) error { return html.Write(w, r, report.Options{}) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if !f.quiet {
		fmt.Fprintf(j.app.err, "ipcbench: wrote %s\n", f.html)
	}
	return nil
}
