package bench

import (
	"context"
	"errors"
	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"slices"
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
		if err := r.addCells(program.Fitting(specs, refused), p); err != nil {
			return err
		}
	}
	if len(r.Builds) > 0 {
		return nil
	}
	refused, err := r.askPeers(ctx)
	if err != nil {
		return err
	}
	var unfit error
	for i, s := range r.Cells {
		if refused[i] != "" {
			u := &session.Unfit{Spec: s, Err: errors.New(refused[i])}
			unfit = errors.Join(unfit, u)
			r.result.Skipped = append(r.result.Skipped, u.Skipped())
		}
	}
	known := program.Fitting(r.Cells, refused)
	if len(known) == 0 {
		return unfit
	}
	return r.addCells(withControls(known, r.Control), nil)
}

// askPeers asks each peer which of its cells it can run. It returns the reason for each refused cell
// of the run; empty for others.
func (r *run) askPeers(ctx context.Context) ([]string, error) {
	refused, asked := make([]string, len(r.Cells)), map[*program.Program]bool{}
	for _, s := range r.Cells {
		p := program.Of(s)
		if p == nil || asked[p] {
			continue
		}
		asked[p] = true
		var at []int // indices of its cells
		var specs []session.Spec
		for i, s := range r.Cells {
			if program.Of(s) == p {
				at, specs = append(at, i), append(specs, s)
			}
		}
		why, err := r.ask(ctx, p, specs)
		if err != nil {
			return nil, err
		}
		for k, i := range at {
			refused[i] = why[k]
		}
	}
	return refused, nil
}

// ask asks a program which of the cells it can run, and adds it to the result.
func (r *run) ask(ctx context.Context, p *program.Program, specs []session.Spec) (refused []string, err error) {
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
