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

// A Fold makes the next model of a round's updates. It is their average; or, where a
// Change says that clients change a part of the model, the average of what they have
// changed. Where updates have a layout of their own, or Sync says so, it is the model,
// changed by the server and a digest of the average ([tensor.Advance]). A Fold keeps its
// memory from round to round.
type Fold struct {
	Change tensor.Change
	Sync   bool

	average       *tensor.Average
	up            *tensor.Layout
	mean          *tensor.Package // the average, where it is not the next model
	trained, next *tensor.Package
	own           *tensor.Package // the model as the server has it; nil if clients have the same
}

// NewFold returns a Fold for models and updates of these layouts.
func NewFold(down, up *tensor.Layout) *Fold {
	return &Fold{average: tensor.NewAverage(up), up: up}
}

// advances reports whether the server changes models of layout l itself.
func (f *Fold) advances(l *tensor.Layout) bool { return f.Sync || f.up != l }

// Keep makes f remember the first model, where clients get another one because a codec
// loses something: a server that changes its model itself goes on from its own.
func (f *Fold) Keep(model *tensor.Package) {
	if f.advances(model.Layout()) {
		f.own = tensor.Alloc(model.Layout())
		f.own.CopyFrom(model)
	}
}

// begin starts a round in which clients train a model, and that makes next.
func (f *Fold) begin(next, trained *tensor.Package, clients []Client) error {
	total := 0.0
	for _, c := range clients {
		total += c.Weight
	}
	f.trained, f.next = trained, next
	switch {
	case f.advances(next.Layout()):
		if f.mean == nil {
			f.mean = tensor.Alloc(f.up)
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

// Fold runs a round in which clients train what Publish returned, and folds their
// updates into next. see, unless it is nil, gets every update before that.
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
	defer s.rec.Begin(phase.Fold, phase.Whole(n)).End()
	return f.finish()
}
