package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/report/doc"
	"ipcbench/scratch"
	"ipcbench/tensor"
)

func (a *app) cleanCommand() *cobra.Command {
	var dirs []string
	var dry bool
	cmd := &cobra.Command{
		Use:   "clean [LEFTOVER...]",
		Short: "Remove what killed runs have left behind",
		Long: strings.TrimSpace(fmt.Sprintf(`
Remove the files, sockets and shared memory that killed runs have left behind.

  ipcbench clean --dry-run            only list them
  ipcbench clean                      remove them
  ipcbench clean /dev/shm/ipcbench-…  remove one, or say why not

It looks in %s, and where --dir says.

A directory is removed only if it surely belonged to a run that has ended: it
has the name, mode and owner that ipcbench gives, and a lock file that ipcbench
wrote and that no living process holds. What belongs to a run that is still
going on stays, and so does what somebody has mounted in there.

Locks are not seen across kernels. So a directory that another kernel made (the
host's, a virtual machine's, or this one's before the last boot) is left alone
for a week.`, strings.Join(scratch.Roots(), " and "))),
		RunE: func(cmd *cobra.Command, args []string) error {
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
	cmd.Flags().StringSliceVar(&dirs, "dir", nil, "also look in `DIR`, as given to a transport's dir= setting")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "list what would be removed, and remove nothing")
	return cmd
}

// leftovers returns those that were named, or all under the roots.
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
