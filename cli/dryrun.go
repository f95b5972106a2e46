package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/report/doc"
)

// dryRun prints all settings and the plan, measuring nothing. The output is a valid settings file.
func (a *app) dryRun(ctx context.Context, s *settings, o bench.Options) error {
	plan, err := bench.Describe(ctx, o)
	if err != nil {
		return err
	}
	if err := s.write(a.out); err != nil {
		return err
	}
	var text strings.Builder
	describe(&text, o, plan)
	plain := doc.Lines(text.String())
	if width := a.width(); width > 0 {
		plain = doc.Fold(plain, width-len("# "))
	}
	for line := range strings.Lines("\n" + plain) {
		fmt.Fprint(a.out, strings.Replace("# "+line, "# \n", "#\n", 1))
	}
	return nil
}

func describe(out io.Writer, o bench.Options, plan *bench.Outline) {
	order := "random order"
	if o.Plan.OrderSeed != 0 {
		order = fmt.Sprintf("the order of seed %d", o.Plan.OrderSeed)
	}
	fmt.Fprintf(out, "%s mode, data of seed %d: blocks, sessions of fresh processes, of all cells in %s\n\n", o.Plan.Mode, o.Plan.Seed, order)
	width, orMore := 0, " or more"
	if o.Plan.Precision == 0 {
		orMore = ""
	}
	for _, c := range plan.Cells {
		width = max(width, len(c.Name))
	}
	for _, c := range plan.Cells {
		on := ""
		if c.Hosts != "" {
			on = ", on " + c.Hosts
		}
		fmt.Fprintf(out, "  %-*s  %d%s blocks, %s%s\n", width, c.Name, o.Plan.Blocks, orMore, megabytes(c.Memory), on)
	}
	for _, s := range plan.Skipped {
		fmt.Fprintf(out, "  %s  skipped: %s\n", s.ID(), s.Why)
	}
	fmt.Fprintf(out, "\nbetween them, the floors %s\n", strings.Join(plan.Floors, ", "))
	fmt.Fprintf(out, "a cell ends %s\n", ends(o.Plan))
	fmt.Fprintf(out, "%d cells, %d%s blocks\n", len(plan.Cells), len(plan.Cells)*o.Plan.Blocks, orMore)
	memory := "memory of the largest cell: about " + megabytes(plan.Memory)
	if limit, source := machine.MemoryLimit(); limit > 0 {
		memory += fmt.Sprintf("; %s has %s", source, megabytes(limit))
	}
	fmt.Fprintln(out, memory)
}

func megabytes(n int64) string { return fmt.Sprintf("%d MB", (n+500_000)/1_000_000) }

// ends describes when a cell needs no more blocks.
func ends(p result.Plan) string {
	if p.Rounds > 0 {
		return fmt.Sprintf("after %d timed rounds in %d blocks", p.Rounds, p.Blocks)
	}
	if p.Precision == 0 {
		return fmt.Sprintf("after %d blocks", p.Blocks)
	}
	return fmt.Sprintf("when its median round is known to ±%.3g %%, or after %v of timed rounds each; not before %d blocks", p.Precision*100, p.Time, p.Blocks)
}
