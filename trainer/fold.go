package trainer

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// Roster returns n clients. Their weights differ, as those of clients with more and
// less data do.
func Roster(n int) []Client {
	all := make([]Client, n)
	for id := range all {
		all[id] = Client{ID: id, Weight: float64(1 + id%3), Device: "cpu"}
	}
	return all
}

// A Fold makes the next model of a round's updates: their average, or, where they
// have a layout of their own, the model changed by a digest of that
// ([tensor.Advance]). It keeps its memory from round to round.
type Fold struct {
	average     *tensor.Average
	mean        *tensor.Package // the average, where it is not the next model
	model, next *tensor.Package
}

// NewFold returns a Fold for models and updates of these layouts.
func NewFold(down, up *tensor.Layout) *Fold {
	f := &Fold{average: tensor.NewAverage(up)}
	if up != down {
		f.mean = tensor.Alloc(up)
	}
	return f
}

// begin starts a round in which clients train model, and that makes next.
func (f *Fold) begin(next, model *tensor.Package, clients []Client) error {
	total := 0.0
	for _, c := range clients {
		total += c.Weight
	}
	f.model, f.next = model, next
	if f.mean != nil {
		next = f.mean
	}
	return f.average.Begin(next, total)
}

// finish completes the next model.
func (f *Fold) finish() error {
	if err := f.average.Finish(); err != nil || f.mean == nil {
		return err
	}
	return tensor.Advance(f.next, f.model, f.mean, tensor.Change{})
}

// Fold runs a round in which clients train model, which was published, and folds
// their updates into next. see, unless it is nil, gets every update before that.
func (s *Session) Fold(ctx context.Context, r Round, f *Fold, next, model *tensor.Package, see func(c Client, update *tensor.Package) error) error {
	n, clients := r.Number, r.Clients
	if err := f.begin(next, model, clients); err != nil {
		return err
	}
	r.Each = func(u Update) error {
		defer u.Release()
		c := clients[u.Index]
		if see != nil {
			if err := see(c, u.Package); err != nil {
				return err
			}
		}
		defer s.rec.Begin(phase.Fold, phase.ID{Lane: -1, Round: n, Client: c.ID}).End()
		return f.average.Fold(u.Package, c.Weight)
	}
	if err := s.Round(ctx, r); err != nil {
		return err
	}
	defer s.rec.Begin(phase.Fold, phase.Whole(n)).End()
	return f.finish()
}

// A Reference does the rounds of a session without one: the same arithmetic, by
// direct calls.
type Reference struct {
	Model *tensor.Package // the current one, whose first values are the caller's to write

	next, update *tensor.Package
	fold         *Fold
	seed         uint64
	round        int
}

// NewReference returns a Reference of these layouts, whose clients train with the
// seed.
func NewReference(down, up *tensor.Layout, seed uint64) *Reference {
	return &Reference{Model: tensor.Alloc(down), next: tensor.Alloc(down), update: tensor.Alloc(up), fold: NewFold(down, up), seed: seed}
}

// Round does the next round.
func (r *Reference) Round(ctx context.Context, clients []Client) error {
	if err := r.fold.begin(r.next, r.Model, clients); err != nil {
		return err
	}
	for _, c := range clients {
		if ctx.Err() != nil { // a round of many clients takes long
			return ctx.Err()
		}
		if err := tensor.Train(r.update, r.Model, tensor.Key{Seed: r.seed, Round: r.round, Client: c.ID}); err != nil {
			return err
		}
		if err := r.fold.average.Fold(r.update, c.Weight); err != nil {
			return err
		}
	}
	if err := r.fold.finish(); err != nil {
		return err
	}
	r.Model, r.next = r.next, r.Model
	r.round++
	return nil
}
