package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/profile"
	"ipcbench/profile/capture"
	"ipcbench/report"
)

// profileFlags are what `ipcbench profile` was asked for.
type profileFlags struct {
	kind       string
	transports []string
	models     []string
	format     string
	functions  int // of each phase
	changes    int
	out        string
	http       string
}

func (a *app) profileCommand() *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "profile top|diff|flame|web|timeline RESULT|FILE",
		Short: "Show which code a profiled run spent its time in",
		Long: strings.TrimSpace(`
Show which code the server and all workers spent their time in.

  ipcbench run --transport http,shm-slab --profile cpu,allocs --out r.json
  ipcbench profile top r.json
  ipcbench profile diff r.json --transport shm-slab,http --model histology

Profiles cover exactly the rounds of the profiled blocks, and nothing between
them. RESULT is the file of a run with --profile; the folder r.profiles has to
stay beside r.json. FILE is one of the profiles in there, or one that
go test -bench -cpuprofile has written.

The files are ordinary profiles with the labels transport, model, process and
phase: go tool pprof -tagroot process,phase FILE shows them too.`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hinted{usagef("profile: no view is named: want top, diff, flame, web or timeline"), cmd.CommandPath() + " --help explains them"}
			}
			return hinted{usagef("profile: unknown view %q: want top, diff, flame, web or timeline", args[0]), cmd.CommandPath() + " --help explains them"}
		},
		RunE: func(cmd *cobra.Command, args []string) error { return nil }, // Args never agrees
	}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.kind, "kind", capture.CPU, "the `KIND` of profile of a RESULT: "+kindNames(mergeable))
	flags.StringSliceVar(&f.transports, "transport", nil, "take only cells of a RESULT with a transport of this `LIST`")
	flags.StringSliceVar(&f.models, "model", nil, "take only cells of a RESULT with a model of this `LIST`")

	top := a.profileView("top", "RESULT|FILE", 1, 1, "List the phases of a round and the heaviest functions of each", func(args []string) error {
		return a.profileTop(f, args[0])
	})
	diff := a.profileView("diff", "A [B]", 1, 2, "Say what differs between two transports or two builds", func(args []string) error {
		return a.profileDiff(f, args)
	})
	for _, c := range []*cobra.Command{top, diff} {
		c.Flags().StringVar(&f.format, "format", "text", "print as `FORMAT`: text|md")
	}
	top.Flags().IntVarP(&f.functions, "functions", "n", 5, "show `N` functions of each phase")
	diff.Flags().IntVarP(&f.changes, "functions", "n", 15, "show the `N` functions that differ most")
	diff.Long = strings.TrimSpace(`
Say what each phase and function takes, for every GB that is delivered, in the
one profile and in the other.

  ipcbench profile diff r.json --transport pickle,shm-slab --model cnn
  ipcbench profile diff base.json head.json --transport http --model cnn

A and B are profiles, or results. --transport and --model have to leave one cell
of each result; if only A is given, two cells of it.`)

	flame := a.profileView("flame", "RESULT|FILE", 1, 1, "Write pprof's flame graph to an HTML file", func(args []string) error {
		return a.profileFlame(f, args[0])
	})
	flame.Flags().StringVar(&f.out, "out", "", "the HTML `FILE` (default: the profile's name with .html)")
	web := a.profileView("web", "RESULT|FILE", 1, 1, "Serve pprof's web pages on this machine", func(args []string) error {
		return interruptible(func(ctx context.Context) error { return a.profileWeb(ctx, f, args[0]) })
	})
	web.Flags().StringVar(&f.http, "http", "localhost:0", "serve at this loopback `ADDRESS`; port 0 is any free one")
	timeline := a.profileView("timeline", "RESULT", 1, 1, "Write who did what when in some rounds, for Perfetto", func(args []string) error {
		return a.profileTimeline(f, args[0])
	})
	timeline.Flags().StringVar(&f.out, "out", "", "the trace's `FILE` (default: the result's name with .trace.json)")
	cmd.AddCommand(top, diff, flame, web, timeline)
	return cmd
}

// profileView makes one of the subcommands, which takes least to most files.
func (a *app) profileView(name, args string, least, most int, short string, run func(args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " " + args, Short: short,
		Args: func(cmd *cobra.Command, files []string) error {
			if len(files) < least || len(files) > most {
				return hinted{usagef("profile %s: %d files: want %s", name, len(files), args), "ipcbench run --profile writes them"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return run(args) },
	}
}

// mergeable are kinds of which there is one file a cell.
func mergeable(k capture.Kind) bool { return k.Name != capture.Trace }

func allKinds(capture.Kind) bool { return true }

func kindNames(which func(capture.Kind) bool) string {
	var names []string
	for _, k := range capture.Kinds() {
		if which(k) {
			names = append(names, k.Name)
		}
	}
	return strings.Join(names, "|")
}

func (f profileFlags) markdown() (bool, error) {
	switch f.format {
	case "text":
		return false, nil
	case "md":
		return true, nil
	}
	return false, usagef("--format %s: want text|md", f.format)
}

func (a *app) profileTop(f profileFlags, path string) error {
	md, err := f.markdown()
	if err != nil {
		return err
	}
	profiles, err := f.read(path)
	if err != nil {
		return err
	}
	for _, p := range profiles {
		if err := report.WriteProfile(a.out, md, a.terminal(), profile.Summarize(p.Profile, f.functions)); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) profileDiff(f profileFlags, paths []string) error {
	md, err := f.markdown()
	if err != nil {
		return err
	}
	var both []found
	for _, path := range paths {
		profiles, err := f.read(path)
		if err != nil {
			return err
		}
		if len(paths) == 2 && len(profiles) > 1 {
			return tooMany(path, profiles)
		}
		both = append(both, profiles...)
	}
	switch {
	case len(both) > 2:
		return tooMany(paths[0], both)
	case len(both) < 2:
		return hinted{usagef("profile diff: %s holds one profile, %s: want two", paths[0], both[0].Title()), "name a second file"}
	}
	if len(f.transports) == 2 && len(paths) == 1 && both[0].Transport == f.transports[1] { // in the order that was asked for
		slices.Reverse(both)
	}
	d, err := profile.Compare(both[0].Profile, both[1].Profile)
	if err != nil {
		return usageError{err}
	}
	return report.WriteDifference(a.out, md, a.terminal(), d, f.changes)
}

func (a *app) profileFlame(f profileFlags, path string) error {
	p, err := f.readOne(path)
	if err != nil {
		return err
	}
	out := cmp.Or(f.out, strings.TrimSuffix(p.path, ".pb.gz")+".html")
	return a.write(out, "", func(w io.Writer) error { return profile.WriteFlame(w, p.Profile) })
}

// write writes a file and says so, with what to do with it.
func (a *app) write(path, use string, write func(w io.Writer) error) error {
	if err := bench.ReplaceFile(path, write); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "ipcbench: wrote %s%s\n", path, use)
	return nil
}

func (a *app) profileWeb(ctx context.Context, f profileFlags, path string) error {
	p, err := f.readOne(path)
	if err != nil {
		return err
	}
	err = profile.Serve(ctx, f.http, p.Profile, func(url string) {
		fmt.Fprintf(a.err, "ipcbench: %s at %s until Ctrl-C\n", p.Title(), url)
	})
	if err != nil {
		return hinted{usageError{err}, "--http localhost:0 takes any free port"}
	}
	return nil
}

func (a *app) profileTimeline(f profileFlags, path string) error {
	if is, err := isResult(path); err != nil {
		return err
	} else if !is {
		return usagef("profile timeline: %s is not a result: want one, since a profile has no times", path)
	}
	r, err := bench.ReadFile(path)
	if err != nil {
		return usageError{err}
	}
	cells := slices.DeleteFunc(slices.Clone(r.Cells), func(c bench.Cell) bool {
		return !f.wants(c) || !slices.ContainsFunc(c.Blocks, func(b bench.Block) bool { return b.Timeline != nil })
	})
	if len(cells) == 0 {
		return hinted{usagef("%s: no cell that --transport and --model choose has a timeline", path), "ipcbench run --profile cpu keeps the spans of a few rounds"}
	}
	out := cmp.Or(f.out, bench.Stem(path)+".trace.json")
	return a.write(out, "; open it at ui.perfetto.dev", func(w io.Writer) error { return report.WriteTimeline(w, cells...) })
}

// wants reports whether the flags ask for the cell.
func (f profileFlags) wants(c bench.Cell) bool {
	return (len(f.transports) == 0 || slices.Contains(f.transports, c.Variant)) && (len(f.models) == 0 || slices.Contains(f.models, c.Model.Name))
}

// found is a profile and the file that it is in.
type found struct {
	*profile.Profile
	path string
}

// read returns the profiles that path and the flags name: one, or those of all
// cells of a result.
func (f profileFlags) read(path string) ([]found, error) {
	is, err := isResult(path)
	if err != nil {
		return nil, err
	}
	if !is {
		p, err := profile.ReadFile(path)
		if err != nil {
			return nil, usageError{err}
		}
		return []found{{p, path}}, nil
	}
	r, err := bench.ReadFile(path)
	if err != nil {
		return nil, usageError{err}
	}
	if err := capture.Check(f.kind); err != nil {
		return nil, usagef("--kind: %w", err)
	}
	if f.kind == capture.Trace {
		return nil, hinted{usagef("--kind trace: an execution trace is not a profile: want %s", kindNames(mergeable)), "go tool trace shows the files that the result names"}
	}
	var profiles []found
	have := map[string]bool{}
	for _, c := range r.Cells {
		for _, p := range c.Profiles {
			have[p.Kind] = true
			if p.Kind != f.kind || !f.wants(c) {
				continue
			}
			file := filepath.Join(filepath.Dir(path), p.Files[0])
			read, err := profile.ReadFile(file)
			if errors.Is(err, fs.ErrNotExist) {
				return nil, hinted{usageError{err}, "the folder of a result's profiles stays beside the result"}
			}
			if err != nil {
				return nil, usageError{err}
			}
			profiles = append(profiles, found{read, file})
		}
	}
	switch {
	case len(profiles) > 0:
		return profiles, nil
	case len(have) == 0:
		return nil, hinted{usagef("%s: the run was not profiled", path), "ipcbench run --profile cpu"}
	case !have[f.kind]:
		return nil, usagef("%s: no profile of kind %s: the run has %s", path, f.kind, kindNames(func(k capture.Kind) bool { return have[k.Name] }))
	}
	return nil, hinted{usagef("%s: no profiled cell matches --transport and --model", path), "ipcbench profile top " + path + " lists all"}
}

// readOne is read where one profile is wanted.
func (f profileFlags) readOne(path string) (found, error) {
	profiles, err := f.read(path)
	if err != nil {
		return found{}, err
	}
	if len(profiles) > 1 {
		return found{}, tooMany(path, profiles)
	}
	return profiles[0], nil
}

func tooMany(path string, profiles []found) error {
	var titles []string
	for _, p := range profiles {
		titles = append(titles, "\n\t"+p.Title())
	}
	return hinted{usagef("%s holds %d profiles:%s", path, len(profiles), strings.Join(titles, "")), "choose with --transport and --model"}
}

// isResult reports whether a file is a result, and not a profile.
func isResult(path string) (bool, error) {
	head, err := bench.Peek(path)
	if err != nil {
		return false, usageError{err}
	}
	if bytes.HasPrefix(head, []byte("go 1.")) && bytes.Contains(head, []byte("trace")) {
		return false, hinted{usagef("%s: an execution trace", path), "go tool trace " + path}
	}
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")), nil
}

// profileFolder makes the folder for the profiles of the result out, before
// anything is measured.
func profileFolder(out *resultFile) (string, error) {
	err := os.Mkdir(out.profiles(), 0o755)
	for out.stem != "" && errors.Is(err, fs.ErrExist) { // another run was faster
		out.next()
		err = os.Mkdir(out.profiles(), 0o755)
	}
	dir := out.profiles()
	if err == nil || errors.Is(err, fs.ErrExist) {
		var try *os.File
		if try, err = os.CreateTemp(dir, "try"); err == nil {
			err = errors.Join(try.Close(), os.Remove(try.Name()))
		}
	}
	if err != nil {
		return "", hinted{usagef("--profile: %w", err), "the profiles go beside the result: choose another place with --out"}
	}
	return dir, nil
}
