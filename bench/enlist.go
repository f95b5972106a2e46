package bench

import (
	"context"
	"errors"
	"slices"

	"ipcbench/bench/program"
	"ipcbench/bench/session"
)

// enlist adds all cells. With two builds, each runs all cells and controls that it can run. Else
// peers run their own cells, and this process the others; the cells that a peer refuses are
// skipped, and it is an error if no cell is left.
func (r *run) enlist(ctx context.Context) error {
	for _, p := range r.Builds {
		specs := withControls(r.Cells, r.Control)
		refused, err := r.ask(ctx, p, specs)
		if err != nil {
			return err
		}
		specs = slices.DeleteFunc(specs, func(s session.Spec) bool { return refused[s.String()] != "" })
		if err := r.addCells(specs, p); err != nil {
			return err
		}
	}
	if len(r.Builds) > 0 {
		return nil
	}
	answers := map[*program.Program]map[string]string{nil: nil} // the cells that each peer refuses, and why
	var known []session.Spec
	var unfit error
	for _, s := range r.Cells {
		p := program.Of(s)
		if _, asked := answers[p]; !asked {
			specs := slices.DeleteFunc(slices.Clone(r.Cells), func(s session.Spec) bool { return program.Of(s) != p })
			var err error
			if answers[p], err = r.ask(ctx, p, specs); err != nil {
				return err
			}
		}
		if why := answers[p][s.String()]; why != "" {
			u := &session.Unfit{Spec: s, Err: errors.New(why)}
			unfit = errors.Join(unfit, u)
			r.result.Skipped = append(r.result.Skipped, u.Skipped())
			continue
		}
		known = append(known, s)
	}
	if len(known) == 0 {
		return unfit
	}
	return r.addCells(withControls(known, r.Control), nil)
}

// ask asks a program which of the cells it can run, and adds it to the result. It returns the
// reasons for the refused ones, by cell.
func (r *run) ask(ctx context.Context, p *program.Program, specs []session.Spec) (map[string]string, error) {
	under := program.Conditions{Environment: r.result.Environment, Dir: r.Python.Dir, RoundLimit: r.Plan.RoundLimit}
	if slices.ContainsFunc(specs, func(s session.Spec) bool { return s.Variant.String() == r.Plan.Baseline }) {
		under.Canary = r.Canary
	}
	a, err := p.Ask(ctx, specs, under)
	if err != nil {
		return nil, err
	}
	r.burns = r.burns || a.Burns
	r.result.Programs = append(r.result.Programs, a.Entry)
	return a.Refused, nil
}
