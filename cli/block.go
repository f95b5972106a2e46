package cli

import (
	"context"
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
			return interruptible(func(ctx context.Context) error { return bench.ServeBlock(ctx, os.Stdin, a.out, a.host) })
		},
	}
}
