package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
	"ipcbench/profile/capture"
	"ipcbench/report"
)

// profileFlags are what `ipcbench profile timeline` was asked for.
type profileFlags struct {
	transports []string
	models     []string
	out        string
}

func (a *app) profileCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profile timeline RESULT",
		Short: "Write who did what when in a profiled run",
		Long: strings.TrimSpace(`
Write what each process of a profiled run did at what time, on one clock.

  ipcbench run --transport http,shm-slab --profile cpu --out r.json
  ipcbench profile timeline r.json

ipcbench pprof shows which code the time was spent in.`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hinted{usagef("profile: no view is named: want timeline"), cmd.CommandPath() + " --help explains it"}
			}
			return hinted{usagef("profile: unknown view %q: want timeline", args[0]), pprofHint}
		},
		RunE: func(cmd *cobra.Command, args []string) error { return nil }, // Args never agrees
	}
	cmd.AddCommand(a.timelineCommand())
	return cmd
}

func (a *app) timelineCommand() *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "timeline RESULT",
		Short: "Write who did what when in some rounds, for Perfetto",
		Args: func(cmd *cobra.Command, files []string) error {
			if len(files) != 1 {
				return hinted{usagef("profile timeline: %d files: want RESULT", len(files)), "ipcbench run --profile writes it"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return a.profileTimeline(f, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.transports, "transport", nil, "take only cells with a transport of this `LIST`")
	flags.StringSliceVar(&f.models, "model", nil, "take only cells with a model of this `LIST`")
	flags.StringVar(&f.out, "out", "", "the trace's `FILE` (default: the result's name with .trace.json)")
	return cmd
}

func kindNames() (names []string) {
	for _, k := range capture.Kinds() {
		names = append(names, k.Name)
	}
	return names
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
	if err := bench.ReplaceFile(out, func(w io.Writer) error { return report.WriteTimeline(w, cells...) }); err != nil {
		return err
	}
	fmt.Fprintf(a.err, "ipcbench: wrote %s; open it at ui.perfetto.dev\n", out)
	return nil
}

// wants reports whether the flags ask for the cell.
func (f profileFlags) wants(c bench.Cell) bool {
	return (len(f.transports) == 0 || slices.Contains(f.transports, c.Variant)) && (len(f.models) == 0 || slices.Contains(f.models, c.Model.Name))
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
