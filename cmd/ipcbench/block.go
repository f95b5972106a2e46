package main

import (
	"os"

	"github.com/spf13/cobra"

	"ipcbench/bench"
)

// blockCommand is what another build of ipcbench calls, not a user: see
// run --against.
func (a *app) blockCommand() *cobra.Command {
	return &cobra.Command{
		Use:    bench.BlockCommand,
		Short:  "Run one block that another build asks for on stdin",
		Hidden: true,
		Args:   noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return bench.ServeBlock(cmd.Context(), os.Stdin, a.out, a.host)
		},
	}
}
