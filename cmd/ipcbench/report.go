package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"ipcbench/bench"
)

func (a *app) reportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report FILE...",
		Short: "Present results again, in any format",
		Long: strings.TrimSpace(`
Presents the results in FILE..., each of which ipcbench run has written, one
after another. Nothing is measured.`),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return hinted{usagef("report: no result file"), "ipcbench run writes one"}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := findFormat(format)
			if err != nil {
				return err
			}
			for _, path := range args {
				result, err := bench.ReadFile(path)
				if err != nil {
					return usageError{err}
				}
				if err := f.Write(a.out, result); err != nil {
					return errors.Join(fmt.Errorf("report %s", path), err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "how it is presented: "+formatNames())
	return cmd
}
