package cli

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/bench/result"
)

// resume reads the interrupted run of --resume. Without flags that say what to measure, the flags are taken from the file,
// unless one of them could harm: a result may be from anywhere.
func (j *job) resume(cmd *cobra.Command) error {
	f, fs := j.f, cmd.Flags()
	if f.resume == "" {
		return nil
	}
	if fs.Changed("out") {
		return usagef("--resume %s: the result is written to this file: remove --out", f.resume)
	}
	old, err := result.ReadFile(f.resume)
	if err != nil {
		return usagef("--resume %w", err)
	}
	j.o.Resume, f.out = old, f.resume
	others := 0
	fs.Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"resume", "quiet", "format", "view", "html"}, f.Name) {
			others++
		}
	})
	if others == 0 {
		scratch := newApp(io.Discard, io.Discard, j.host.Transports).runCommand()
		words := old.Command[min(2, len(old.Command)):] // after ipcbench run
		typed := "ipcbench run --resume " + f.resume + " " + strings.Join(words, " ")
		if err := scratch.ParseFlags(words); err != nil {
			return hinted{usagef("--resume %s: its command: %w", f.resume, err), "give the flags of the run: " + typed}
		}
		harm := ""
		scratch.Flags().Visit(func(to *pflag.Flag) {
			if why := harmful[to.Name]; why != "" && to.Name != "out" {
				harm = "--" + to.Name + " " + why
			}
		})
		if harm != "" || scratch.Flags().NArg() > 0 {
			return hinted{usagef("--resume %s: its flags are not taken from the file, since %s", f.resume, cmp.Or(harm, "it has other words")), "if you trust it: " + typed}
		}
		if err := cmd.ParseFlags(words); err != nil {
			return usageError{err}
		}
		f.out = f.resume
	}
	if !fs.Changed("order-seed") {
		j.o.Plan.OrderSeed = old.Plan.OrderSeed
	}
	return nil
}
