package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"ipcbench/internal/machine"
)

// versions says in one line what this program was made from.
func versions() string {
	e := machine.Read()
	if e.Dirty {
		e.Commit += " with changes"
	}
	return fmt.Sprintf("%s, commit %s, %s %s/%s", machine.Version(), e.Commit, e.Go, runtime.GOOS, runtime.GOARCH)
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{Use: "version", Args: noArgs, Run: func(cmd *cobra.Command, _ []string) {
		fmt.Fprintln(a.out, "ipcbench version "+cmd.Root().Version)
	}}
}
