package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/scratch"
	"ipcbench/tensor"
)

func (a *app) cleanCommand() *cobra.Command {
	var dirs []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove what killed runs have left behind",
		Long: strings.TrimSpace(fmt.Sprintf(`
Removes the private directories of runs that were killed: sockets, files and
shared-memory segments. A directory is removed only if no living process holds
the lock in it, so runs that are going on are not disturbed.

Looks in %s, and where --dir says.`, strings.Join(scratch.Roots(), " and "))),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			left, err := scratch.Leftovers(append(scratch.Roots(), dirs...)...)
			for _, l := range left {
				verb := "removed"
				if dry {
					verb = "would remove"
				} else if e := l.Remove(); e != nil {
					err = errors.Join(err, e)
					continue
				}
				fmt.Fprintf(a.out, "%s %s: %s (%s)\n", verb, l.Path, tensor.FormatBytes(int(l.Bytes)), l.Owner)
			}
			if len(left) == 0 && err == nil {
				fmt.Fprintln(a.out, "nothing to clean")
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&dirs, "dir", nil, "also look in this directory, as given to a transport's dir= setting")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "say what would be removed and remove nothing")
	return cmd
}

// mentionLeftovers says in one line that earlier runs have left something.
func (a *app) mentionLeftovers() {
	left, _ := scratch.Leftovers(scratch.Roots()...) // a root that cannot be read is no news for this run
	if len(left) == 0 {
		return
	}
	var bytes int64
	for _, l := range left {
		bytes += l.Bytes
	}
	runs := "a killed run has"
	if len(left) > 1 {
		runs = fmt.Sprintf("%d killed runs have", len(left))
	}
	fmt.Fprintf(a.err, "ipcbench: %s left %s behind; ipcbench clean removes it\n", runs, tensor.FormatBytes(int(bytes)))
}
