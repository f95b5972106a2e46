package trainer

import (
	"context"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
)

// Roster returns n clients with IDs from 0. Their weights differ (1, 2, 3, 1, …), as if some
// had more data than others.
func Roster(n int) []Client {
	all := make([]Client, n)
	for id := range all {
		all[id] = Client{ID: id, Weight: float64(1 + id%3), Device: "cpu"}
	}
	return all
}

// A Fold computes the next model from a round's updates. Usually that is their average. With
// a Change, clients change only a part of the model, and the next model has the average of
// their changes. If updates have a layout of their own, or Sync is set, the server changes
// the model itself, using a digest of the average ([tensor.Advance]). A Fold reuses its
// memory in every round.
type Fold struct {
	Change tensor.Change
	Sync   bool
	Pages  pages.Size // of memory that the Fold needs for itself

	average       *tensor.Average
	up            *tensor.Layout
	mean          *tensor.Package // the average, if the server changes the model itself
	trained, next *tensor.Package
	own           *tensor.Package // the server's own model; nil if clients get the same one
}

// NewFold returns a Fold for models of layout down and updates of layout up.
func NewFold(down, up *tensor.Layout) *Fold {
	return &Fold{average: tensor.NewAverage(up), up: up}
}

// advances reports whether the server itself changes models of layout l.
func (f *Fold) advances(l *tensor.Layout) bool { return f.Sync || f.up != l }

// Keep copies the first model. It must be called if clients get a different model because
// a codec loses something: a server that changes its model itself continues from this copy.
func (f *Fold) Keep(model *tensor.Package) {
	if f.advances(model.Layout()) {
		f.own = tensor.AllocIn(model.Layout(), f.Pages)
		f.own.CopyFrom(model)
	}
}

// begin starts a round in which clients train on trained. Its result is written to next.
func (f *Fold) begin(next, trained *tensor.Package, clients []Client) error {
	total := 0.0
	for _, c := range clients {
		total += c.Weight
	}
	f.trained, f.next = trained, next
	switch {
	case f.advances(next.Layout()):
		if f.mean == nil {
			f.mean = tensor.AllocIn(f.up, f.Pages)
		}
		return f.average.Begin(f.mean, total)
	case f.Change != tensor.Change{}:
		return f.average.BeginFrom(next, trained, total)
	}
	return f.average.Begin(next, total)
}

// finish completes the next model.
func (f *Fold) finish() error {
	if err := f.average.Finish(); err != nil || f.mean == nil {
		return err
	}
	if f.own == nil {
		return tensor.Advance(f.next, f.trained, f.mean, f.Change)
	}
	if err := tensor.Advance(f.own, f.own, f.mean, f.Change); err != nil {
		return err
	}
	f.next.CopyFrom(f.own)
	return nil
}

// Fold runs a round in which clients train on trained, which Publish returned, and folds
// their updates into next. It sets r.Each. see, if not nil, is called with every update
// before that is folded.
func (s *Session) Fold(ctx context.Context, r Round, f *Fold, next, trained *tensor.Package, see func(c Client, update *tensor.Package) error) error {
	n, clients := r.Number, r.Clients
	if err := f.begin(next, trained, clients); err != nil {
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
	defer s.rec.Begin(phase.Fold, phase.OfRound(n)).End()
	return f.finish()
}
