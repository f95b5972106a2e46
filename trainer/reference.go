package trainer

import (
	"context"
	"slices"

	"ipcbench/codec"
	"ipcbench/tensor"
)

// A Reference does the rounds of a session without one: the same arithmetic, by
// direct calls, and what a codec that loses something makes of models and updates.
type Reference struct {
	Model *tensor.Package // the current one, whose first values are the caller's to write
	Fold  *Fold           // whose Change and Sync are the caller's to set

	// See, unless it is nil, gets what is sent, down or up, with what came before it: the
	// version before, or the model of an update. That is nil if there is none, or if it is
	// of another layout. And it gets what arrives.
	See func(up bool, base, sent, arrived *tensor.Package)

	next, update *tensor.Package
	down         [2]*Arrivals // of this round and the one before, in turn
	up           *Arrivals
	alone        bool
	seed         uint64
	round        int
}

// NewReference returns a Reference of these layouts, whose clients train with the
// seed.
func NewReference(down, up *tensor.Layout, seed uint64) *Reference {
	return &Reference{Model: tensor.Alloc(down), next: tensor.Alloc(down), update: tensor.Alloc(up), Fold: NewFold(down, up), seed: seed}
}

// Through has all models and updates pass through a codec. With alone, each model is
// the first of its session: nobody has the one before.
func (r *Reference) Through(p *codec.Pipeline, alone bool) {
	down, up := r.Model.Layout(), r.update.Layout()
	r.down, r.up, r.alone = [2]*Arrivals{NewArrivals(p, down), NewArrivals(p, down)}, NewArrivals(p, up), alone
}

// Round does the next round.
func (r *Reference) Round(ctx context.Context, clients []Client) error {
	trained, err := r.publish()
	if err != nil {
		return err
	}
	if err := r.Fold.begin(r.next, trained, clients); err != nil {
		return err
	}
	for _, c := range clients {
		if ctx.Err() != nil { // a round of many clients takes long
			return ctx.Err()
		}
		key := tensor.Key{Seed: r.seed, Round: r.round, Client: c.ID, Change: r.Fold.Change}
		if err := tensor.Train(r.update, trained, key); err != nil {
			return err
		}
		update, err := r.up.Of(r.update, trained)
		if err != nil {
			return err
		}
		if r.See != nil {
			r.See(true, likeOf(r.update, trained), r.update, update)
		}
		if err := r.Fold.average.Fold(update, c.Weight); err != nil {
			return err
		}
	}
	if err := r.Fold.finish(); err != nil {
		return err
	}
	r.Model, r.next = r.next, r.Model
	r.round++
	return nil
}

// publish returns what clients train on.
func (r *Reference) publish() (*tensor.Package, error) {
	before := r.next // of the round before, until this one is folded
	if last := r.down[(r.round+1)%2]; last != nil {
		before = last.made
	}
	if r.round == 0 {
		before = nil
		if r.up != nil {
			r.Fold.Keep(r.Model)
		}
	}
	base := before
	if r.alone {
		base = nil
	}
	trained, err := r.down[r.round%2].Of(r.Model, base)
	if err == nil && r.See != nil {
		r.See(false, before, r.Model, trained)
	}
	return trained, err
}

// Arrivals are the packages of one layout that a receiver makes of what a codec has made
// of them. The nil Arrivals loses nothing: packages arrive as they are sent.
type Arrivals struct {
	coder  *codec.Coder
	packed []byte          // the largest tensor
	made   *tensor.Package // of the latest
}

// NewArrivals returns those of packages of layout l. It is nil if p loses nothing.
func NewArrivals(p *codec.Pipeline, l *tensor.Layout) *Arrivals {
	if !p.Lossy() {
		return nil
	}
	largest := 0
	for i := range l.Len() {
		largest = max(largest, l.Bytes(i))
	}
	return &Arrivals{coder: p.NewCoder(), packed: make([]byte, largest), made: tensor.Alloc(l)}
}

// Of returns what arrives of p at a receiver who has base, unless that is nil or of
// another layout. It is valid until the next call.
func (a *Arrivals) Of(p, base *tensor.Package) (*tensor.Package, error) {
	if a == nil {
		return p, nil
	}
	base = likeOf(p, base)
	for i := range p.Len() {
		spec, sent := p.Layout().Spec(i), p.View(i)
		if spec.Var {
			if err := a.made.SetRows(i, p.Rows(i)); err != nil {
				return nil, err
			}
			spec.Shape = slices.Clone(spec.Shape)
			spec.Shape[0] = p.Rows(i)
		}
		var had []byte
		if base != nil && base.Rows(i) == p.Rows(i) {
			had = base.View(i)
		}
		mode, n, err := a.coder.Pack(a.packed, had, sent, spec)
		if err == nil {
			err = a.coder.Unpack(mode, a.made.View(i), had, a.packed[:n], spec)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.made, nil
}

// likeOf returns base, if it is of the layout of p.
func likeOf(p, base *tensor.Package) *tensor.Package {
	if base != nil && base.Layout() != p.Layout() {
		return nil
	}
	return base
}
