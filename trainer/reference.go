package trainer

import (
	"context"
	"slices"

	"ipcbench/codec"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
)

// A Reference computes the rounds of a session by direct calls in this process. The
// arithmetic is the same, including the losses of a codec.
type Reference struct {
	Model *tensor.Package // the current model; the caller writes the first one
	Fold  *Fold           // the caller may set its Change and Sync

	// See, if not nil, is called with every package that is sent, down or up. base is the
	// previous model or, for an update, the model trained on; nil if there is none or its
	// layout differs. arrived is the package after the codec, or sent itself.
	See func(up bool, base, sent, arrived *tensor.Package)

	next, update *tensor.Package
	down         [2]*Arrivals // of this round and the previous one, alternating
	up           *Arrivals
	noBase       bool // models are encoded without a base
	seed         uint64
	round        int
}

// NewReference returns a Reference for models and updates of these layouts. seed is the
// seed with which clients train.
func NewReference(down, up *tensor.Layout, seed uint64) *Reference {
	return NewReferenceIn(pages.System, down, up, seed)
}

// NewReferenceIn is NewReference with all tensors in pages of that size.
func NewReferenceIn(s pages.Size, down, up *tensor.Layout, seed uint64) *Reference {
	fold := NewFold(down, up)
	fold.Pages = s
	return &Reference{
		Model: tensor.AllocIn(down, s), next: tensor.AllocIn(down, s), update: tensor.AllocIn(up, s), Fold: fold, seed: seed,
	}
}

// Through makes all models and updates pass through a codec. With noBase, each model is
// encoded without a base, as the first one of a session is.
func (r *Reference) Through(p *codec.Pipeline, noBase bool) {
	down, up := r.Model.Layout(), r.update.Layout()
	r.down, r.up, r.noBase = [2]*Arrivals{NewArrivals(p, down), NewArrivals(p, down)}, NewArrivals(p, up), noBase
}

// Round computes the next round. Afterwards, Model is the new model.
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

// publish returns the model as clients get it.
func (r *Reference) publish() (*tensor.Package, error) {
	before := r.next // the previous model, until this round is folded
	if last := r.down[(r.round+1)%2]; last != nil {
		before = last.decoded
	}
	if r.round == 0 {
		before = nil
		if r.up != nil {
			r.Fold.Keep(r.Model)
		}
	}
	base := before
	if r.noBase {
		base = nil
	}
	trained, err := r.down[r.round%2].Of(r.Model, base)
	if err == nil && r.See != nil {
		r.See(false, before, r.Model, trained)
	}
	return trained, err
}

// Arrivals encodes and decodes packages of one layout, to show how they arrive at a
// receiver. The nil Arrivals loses nothing: packages arrive as they are sent.
type Arrivals struct {
	coder   *codec.Coder
	packed  []byte          // room for the largest tensor
	decoded *tensor.Package // the latest result of Of
}

// NewArrivals returns the Arrivals of packages of layout l with codec p, or nil if p loses
// nothing.
func NewArrivals(p *codec.Pipeline, l *tensor.Layout) *Arrivals {
	if !p.Lossy() {
		return nil
	}
	largest := 0
	for i := range l.Len() {
		largest = max(largest, l.Bytes(i))
	}
	return &Arrivals{coder: p.NewCoder(), packed: make([]byte, largest), decoded: tensor.Alloc(l)}
}

// Of returns p as it arrives at a receiver that has base. base may be nil; it is ignored if
// its layout differs from p's. The result is valid until the next call of Of.
func (a *Arrivals) Of(p, base *tensor.Package) (*tensor.Package, error) {
	if a == nil {
		return p, nil
	}
	base = likeOf(p, base)
	for i := range p.Len() {
		spec, sent := p.Layout().Spec(i), p.View(i)
		if spec.Var {
			if err := a.decoded.SetRows(i, p.Rows(i)); err != nil {
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
			err = a.coder.Unpack(mode, a.decoded.View(i), had, a.packed[:n], spec)
		}
		if err != nil {
			return nil, err
		}
	}
	return a.decoded, nil
}

// likeOf returns base if its layout is p's, else nil.
func likeOf(p, base *tensor.Package) *tensor.Package {
	if base != nil && base.Layout() != p.Layout() {
		return nil
	}
	return base
}
