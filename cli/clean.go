package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"ipcbench/internal/scratch"
	"ipcbench/report/doc"
	"ipcbench/tensor"
)

func (a *app) cleanCommand() *cobra.Command {
	var dirs []string
	var dry bool
	cmd := &cobra.Command{
		Use: "clean [LEFTOVER...]",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && len(dirs) > 0 {
				return usagef("clean: --dir and LEFTOVER cannot be combined: what you name is not searched for")
			}
			left, err := leftovers(args, append(scratch.Roots(), dirs...))
			for _, l := range left {
				verb := "removed"
				if dry {
					verb = "would remove"
				} else if e := l.Remove(); e != nil {
					err = errors.Join(err, e)
					continue
				}
				fmt.Fprintf(a.out, "%s %s: %s (%s)\n", verb, doc.Lines(l.Path), tensor.FormatBytes(int(l.Bytes)), doc.Lines(l.Owner))
			}
			if len(left) == 0 && err == nil {
				fmt.Fprintln(a.out, "nothing to clean")
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&dirs, "dir", nil, "also search `DIR`, as in a transport's setting dir=DIR")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only list what would be removed")
	return cmd
}

// leftovers returns the named leftovers, or all below the roots if none is named.
func leftovers(named, roots []string) (left []scratch.Leftover, err error) {
	if len(named) == 0 {
		return scratch.Leftovers(roots...)
	}
	for _, path := range named {
		l, e := scratch.Inspect(path)
		if e != nil {
			err = errors.Join(err, usageError{e})
			continue
		}
		left = append(left, l)
	}
	return left, err
}
