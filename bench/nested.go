package bench

import (
	"encoding/json"
	"errors"
	"fmt"

	"ipcbench/phase"
	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// nestedFunc is the name of the worker function of cells whose model and updates travel
// as Go values with tensors nested in them.
const nestedFunc = "nested"

// A bundle is such a value: what a project's package of a model, or of a client's
// update, holds besides its tensors, and those, four levels down.
type bundle struct {
	About  about
	Groups map[string]group // in the order of their names
}

// about is what a bundle says of itself.
type about struct{ ID, Samples, Round, Client int }

type group struct{ Layers []layer }

type layer struct {
	Name    string
	Weights *receipt.Tensor
}

// groupLayers is how many layers a group of a bundle has at most.
const groupLayers = 16

// What a bundle says of itself, besides of which round and client it is.
const (
	bundleID      = 5
	bundleSamples = 999
	everyClient   = -1 // of the model
)

func aboutOf(round, client int) about { return about{bundleID, bundleSamples, round, client} }

// groupName returns the name of the group whose first layer is this one.
func groupName(first int) string { return fmt.Sprintf("group%06d", first) }

// bundled returns a bundle of the tensors of layout l, where view returns the memory of
// each.
func bundled(l *tensor.Layout, about about, view func(i int) []byte) bundle {
	b := bundle{About: about, Groups: map[string]group{}}
	for from := 0; from < l.Len(); from += groupLayers {
		var g group
		for i := from; i < min(from+groupLayers, l.Len()); i++ {
			s := l.Spec(i)
			g.Layers = append(g.Layers, layer{s.Name, &receipt.Tensor{DType: s.DType, Shape: s.Shape, Data: view(i)}})
		}
		b.Groups[groupName(from)] = g
	}
	return b
}

// views returns the memory of the bundle's tensors, n in all.
func (b bundle) views(n int) ([][]byte, error) {
	all := make([][]byte, 0, n)
	for from := 0; from < n; from += groupLayers {
		for _, l := range b.Groups[groupName(from)].Layers {
			if l.Weights == nil {
				return nil, fmt.Errorf("layer %q: no tensor", l.Name)
			}
			all = append(all, l.Weights.Data)
		}
	}
	if len(all) != n {
		return nil, fmt.Errorf("%d tensors: want %d", len(all), n)
	}
	return all, nil
}

// lies reports a tensor of the bundle that is not p's own memory, but a copy.
func (b bundle) lies(p *tensor.Package) error {
	views, err := b.views(p.Len())
	if err != nil {
		return err
	}
	for i, v := range views {
		if own := p.View(i); len(v) != len(own) || len(v) > 0 && &v[0] != &own[0] {
			return fmt.Errorf("tensor %d (%s) is a copy of what has arrived: want a view", i, p.Layout().Spec(i).Name)
		}
	}
	return nil
}

// nestedConfig is what the worker function gets at the start.
type nestedConfig struct {
	stockConfig
	Values json.RawMessage `json:"values"` // of [trainer.PrepareValues]
}

// newNestedConfig returns the configuration for updates of layout l. Nobody looks at the
// tensors of the prototype: they overlap, so that they take no memory.
func newNestedConfig(c stockConfig, l *tensor.Layout) ([]byte, error) {
	size := 0
	for i := range l.Len() {
		size = max(size, tensor.Align*i+l.Bytes(i))
	}
	mem := make([]byte, size)
	update := bundled(l, about{}, func(i int) []byte { return mem[tensor.Align*i:][:l.Bytes(i)] })
	values, _, err := trainer.PrepareValues(update, receipt.DefaultDepth)
	if err != nil {
		return nil, err
	}
	return json.Marshal(nestedConfig{c, values})
}

// nested makes the worker function: what [stock] does, on values.
func nested(config []byte) (trainer.Train, error) {
	var c nestedConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var job *trainer.Job // of the lane, whose function this is
	train, err := trainer.Values(func(j *trainer.ValueJob[bundle, bundle]) error {
		if want := aboutOf(j.Round, everyClient); j.Payload.About != want {
			return fmt.Errorf("payload: it is about %+v: want %+v", j.Payload.About, want)
		}
		model, err := j.Payload.views(job.Model.Len())
		if err != nil {
			return fmt.Errorf("payload: %w", err)
		}
		update, err := j.Update.views(job.Update.Len())
		if err != nil {
			return fmt.Errorf("prepared update: %w", err)
		}
		j.Update.About = aboutOf(j.Round, j.Client)
		return c.train(job, tensor.NewScattered(job.Update.Layout(), update), tensor.NewScattered(job.Model.Layout(), model))
	})(c.Values)
	return func(j *trainer.Job) error { job = j; return train(j) }, err
}

// detach makes a bundle of the model that is published next, and takes it apart: what is
// not a tensor of it becomes the model's receipt.
func (s *blockRun) detach(round int, model *tensor.Package) error {
	if !s.cell.Nested {
		return nil
	}
	payload := bundled(model.Layout(), aboutOf(round, everyClient), model.View)
	defer s.session.Recorder().Begin(phase.Detach, phase.Whole(round)).End()
	d, err := receipt.Detach(payload, receipt.DefaultDepth)
	if err == nil {
		err = d.CopyTo(model)
	}
	if err != nil {
		return fmt.Errorf("round %d: payload: %w", round, err)
	}
	return nil
}

// reconstructed puts together each update of a round and checks it, before see, if there
// is one, which is where all of it is checked.
func (s *blockRun) reconstructed(round int, see prover) prover {
	return func(c trainer.Client, p *tensor.Package) error {
		var update bundle
		span := s.session.Recorder().Begin(phase.Reconstruct, phase.ID{Lane: -1, Round: round, Client: c.ID})
		err := receipt.Attach(p.Receipt, p, &update)
		span.End()
		if want := aboutOf(round, c.ID); err == nil && update.About != want {
			err = fmt.Errorf("update: it is about %+v: want %+v", update.About, want)
		}
		if err != nil || see == nil {
			return err
		}
		return errors.Join(update.lies(p), see(c, p))
	}
}

// checkNested reports what cannot travel as Go values.
func (s Spec) checkNested() error {
	switch {
	case !s.Nested:
		return nil
	case s.peer() != nil:
		return fmt.Errorf("--nested: a peer, such as %s, has values of its own: leave it out", s.peer().name)
	case s.Language != "":
		return fmt.Errorf("--nested: workers in %s have no Go values: choose --language go", s.Language)
	case s.Model.Layout.Var() || s.up().Layout.Var():
		return errors.New("--nested: tensors whose lengths vary do not nest in Go values: choose another model")
	}
	return nil
}
