package cli

import (
	"context"
	"fmt"
	"slices"

	"ipcbench/bench"
	"ipcbench/link"
	"ipcbench/report"
	"ipcbench/report/analysis"
)

// checkable returns an error unless there is a break-even to check.
func (f *runFlags) checkable(cells []bench.Spec) error {
	has := func(coded bool) bool {
		return slices.ContainsFunc(cells, func(s bench.Spec) bool {
			return s.Link == link.Unshaped && s.Workers == 1 && s.Clients == 1 && (s.Variant.Codec() != nil) == coded
		})
	}
	switch {
	case !f.checkBreakEven:
		return nil
	case len(f.against) > 0:
		return usagef("--check-break-even and --against are given: want one of them")
	case f.respawn:
		return usagef("--check-break-even and --respawn are given: want one of them")
	case !has(true) || !has(false):
		return hinted{usagef("--check-break-even: no cell has a break-even: it takes one with a codec and one without over TCP, with one client on one worker"),
			"for example --transport http --codec none,sparse --workers 1 --clients 1"}
	}
	return nil
}

// checkBreakEvens measures what break-evens foretell: each codec and none, at half the
// rate and at twice the rate. What it measures is added to the result.
func checkBreakEvens(ctx context.Context, o bench.Options, r *bench.Result) error {
	var cells []bench.Spec
	for _, b := range analysis.New(r).BreakEvens() {
		for _, bits := range b.CheckAt() {
			rate, err := link.Parse(fmt.Sprintf("%.1fMbit", bits/1e6))
			if err != nil {
				return err
			}
			for _, c := range []*analysis.Cell{b.Plain, b.Coded} {
				i := slices.IndexFunc(o.Cells, func(s bench.Spec) bool { return s.String() == c.ID() })
				s := o.Cells[i]
				s.Link = rate
				if !slices.ContainsFunc(cells, func(t bench.Spec) bool { return t.String() == s.String() }) {
					cells = append(cells, s)
				}
			}
		}
	}
	if len(cells) == 0 {
		return nil
	}
	o.Cells, o.Skipped, o.Doctor, o.Save, o.Canary, o.Profiling = cells, nil, nil, nil, 0, bench.Profiling{}
	later, err := bench.Run(ctx, o)
	if later != nil {
		r.Add(later)
	}
	return err
}

// sayBreakEvens prints whether break-evens were right, and returns an error if any was
// wrong.
func (a *app) sayBreakEvens(r *bench.Result) error {
	lines, wrong := report.BreakEvenChecks(r)
	for _, line := range lines {
		fmt.Fprintf(a.err, "ipcbench: %s\n", line)
	}
	if wrong > 0 {
		return fmt.Errorf("--check-break-even: %d of the answers above are wrong", wrong)
	}
	return nil
}
