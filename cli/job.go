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
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/doctor"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/scratch"
	"ipcbench/report"
	"ipcbench/report/doc"
	"ipcbench/transports"
)

// A job is one execution of ipcbench run.
type job struct {
	*app
	f        *runFlags
	format   report.Format
	asked    []session.Spec // all requested cells, also if they will be skipped
	o        bench.Options
	out      string // path of the result
	progress *progress
	forget   func() // removes the unpacked Python files
}

// check validates the flags and stores the requested cells. If cells use links, it continues
// in the namespaces of the links: see enter.
func (j *job) check(cmd *cobra.Command) (err error) {
	f := j.f
	if j.rank != nil { // first, so that an error ends all ranks
		if err := j.rank.setUp(f, cmd.Flags().Changed); err != nil {
			return err
		}
	}
	if err := j.resume(cmd); err != nil {
		return err
	}
	has := given(cmd.Flags()) // before choose sets defaults of the mode
	if err := cmp.Or(f.complete(cmd), j.checkSingle(), j.choose(cmd)); err != nil {
		return err
	}
	if f.gather.Agents < 0 {
		return usagef("--agents must be at least 1, not %d", f.gather.Agents)
	}
	f.gather.defaultCounts(&f.cellFlags, cmd.Flags().Changed)
	if j.format, err = j.app.format(f.printing); err != nil {
		return err
	}
	if j.o.Plan.Baseline != "" && !cmd.Flags().Changed("transport") { // then only peers
		f.transports = doc.Each(f.peers, func(text string) string { name, _, _ := strings.Cut(text, "="); return name })
	}
	if j.asked, err = j.cells(f.cellFlags); err != nil {
		return err
	}
	if err := cmp.Or(conflicts(has, j.asked), comparesPeers(j.o.Plan.Baseline, j.asked)); err != nil {
		return err
	}
	if err := session.CheckPlan(j.o.Plan); err != nil {
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

// run executes the job; a signal ends ctx.
func (j *job) run(ctx context.Context) (err error) {
	if err := j.plan(ctx); err != nil {
		return err
	}
	defer j.forget()
	if j.f.dry {
		return asUsageError(j.dryRun(ctx, j.f.settings, j.o))
	}
	if err := j.files(); err != nil {
		return err
	}
	defer os.Remove(j.o.Profiling.Dir) // removes an empty folder only
	if j.f.gather.Agents > 0 {
		outer := ctx
		if j.o.Fleet, err = j.gather(ctx, j.f, j.o.Listen); err != nil {
			return err
		}
		defer func() { err = j.dismiss(outer, err) }()
		if j.rank != nil {
			j.rank.joined(j.o.Fleet)
		}
		var cancel context.CancelFunc
		ctx, cancel = j.o.Fleet.Context(ctx)
		defer cancel()
		j.o.Listen = netip.AddrPortFrom(j.o.Listen.Addr(), 0) // its port was for agents; servers choose their own
		if err := placeWorkers(ctx, &j.o, j.asked, j.f.parts != nil); err != nil {
			return err
		}
	}
	r, err := j.measure(ctx)
	defer j.progress.clear()
	if r == nil {
		return asUsageError(err)
	}
	return j.present(ctx, r, err)
}

// plan completes the options of the run: the cells to measure or skip, and the files and
// programs that they need.
func (j *job) plan(ctx context.Context) (err error) {
	f, o := j.f, &j.o
	if o.Control, err = transports.NewVariant(j.host.Transports[0], nil); err != nil {
		return err
	}
	if o.Listen, err = f.listens(); err != nil {
		return err
	}
	if len(f.against) > 0 {
		o.Builds = program.Builds(f.against, f.layouts)
	}
	o.Questions = f.asked
	o.Cells, o.Host, o.Command = j.asked, j.host, f.settings.command(os.Args[1:])
	if o.Resume != nil {
		o.Command = o.Resume.Command
	}
	o.Ports, o.Agents, o.Place, o.EndAtOnce, o.Insecure = f.gather.ports.Ports, f.gather.Agents, f.gather.place.Rule, j.rank != nil, f.insecure
	if o.Cells, o.Skipped, err = fitting(j.asked, f.parts != nil, *o); err != nil {
		return usageError{err}
	}
	if o.Files, err = f.tls.files(o.Cells); err != nil {
		return err
	}
	if o.Python.Interpreter, err = f.findPython(ctx, o.Cells); err != nil && f.parts != nil {
		err = withoutPython(o, err) // a question has other cells to offer
	}
	if err != nil {
		return err
	}
	if err := doctor.Proc(); err != nil {
		return hinted{usageError{err}, "mount -t proc proc /proc"}
	}
	if err := scratch.Try(os.TempDir()); err != nil { // sessions create their directories there
		return hinted{usageError{err}, "set TMPDIR to a writable directory with a short name"}
	}
	j.forget, err = unpack(ctx, o, f.dry)
	return err
}

// files checks that all output files of the run can be written.
func (j *job) files() (err error) {
	f := j.f
	if j.out, err = outFile(f.out); err != nil {
		return err
	}
	if f.html == "-" {
		return hinted{usagef("--html must be a file, not -"), "--format html prints it"}
	}
	if f.html != "" {
		if f.html, err = writable("--html", f.html); err != nil {
			return err
		}
		if same(f.html, j.out) {
			return hinted{usagef("--html %s: that is the file of the result", f.html), "choose another file with --html"}
		}
	}
	if len(j.o.Profiling.Kinds) > 0 {
		j.o.Profiling.Dir, err = profileFolder(j.out)
	}
	return err
}

// dismiss ends the agents of the run with the exit code of err, and returns err with errors of
// closing.
func (j *job) dismiss(ctx context.Context, err error) error {
	why := err
	if cause := context.Cause(ctx); err != nil && errors.As(cause, new(interrupted)) { // the signal is the cause, whichever error followed
		why = cause
	}
	return errors.Join(err, j.o.Fleet.Close(j.code(why)))
}

// measure runs the checks of the machine and then all blocks.
func (j *job) measure(ctx context.Context) (*result.Result, error) {
	j.o.Doctor = j.examine(bench.Needs(j.asked))
	if j.progress = newProgress(j.app.err, j.f.quiet); j.progress != nil {
		j.o.Progress = j.progress.show
	}
	j.o.Save = func(r *result.Result) error { return r.WriteFile(j.out) }
	return bench.Run(ctx, j.o)
}

// present writes the result file and prints the report. Each is done even if the other fails,
// so that measurements are not lost.
func (j *job) present(ctx context.Context, r *result.Result, runErr error) error {
	if len(r.Cells) > 0 {
		j.progress.step("writing the result")
		file, err := keep(r, j.out)
		j.progress.step("making the report")
		var text bytes.Buffer
		formatErr := j.format.Write(&text, r, report.Options{Views: j.f.views, File: file, Call: called(os.Args[0]), Text: j.terminal()})
		j.progress.clear()
		j.forget() // before writing to stdout: a closed pipe ends this process
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

// asUsageError turns an error before the first block into a usageError if the user can fix it: a
// cell that cannot run (also the control, or one that a peer rejects), or an --against file
// that is not a build of ipcbench.
func asUsageError(err error) error {
	if errors.As(err, new(*session.Unfit)) || errors.As(err, new(*bench.Unlike)) {
		return usageError{err}
	}
	if errors.As(err, new(*program.BuildError)) {
		return hinted{usageError{err}, "go build -ldflags=-randlayout=N -o FILE ./cmd/ipcbench makes a layout, in a checkout of the commit"}
	}
	return err
}

// page writes the file of --html, if given.
func (j *job) page(r *result.Result) error {
	f := j.f
	if f.html == "" {
		return nil
	}
	html, _ := report.FormatNamed("html") // html always exists
	if err := result.ReplaceFile(f.html, func(w io.Writer) error { return html.Write(w, r, report.Options{}) }); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if !f.quiet {
		fmt.Fprintf(j.app.err, "ipcbench: wrote %s\n", f.html)
	}
	return nil
}
