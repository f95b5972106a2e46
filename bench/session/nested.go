package session

import (
	"encoding/json"
	"errors"
	"fmt"

	"ipcbench/phase"
	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// nestedFunc is the name of the worker function of cells with Nested, whose model and
// updates are Go values with nested tensors.
const nestedFunc = "nested"

// A nestedValue is such a value. It imitates a project's package of a model or an update:
// metadata, and tensors four levels down.
type nestedValue struct {
	About  about
	Groups map[string]group // by [groupName], in order
}

// about is the metadata of a nested value.
type about struct{ ID, Samples, Round, Client int }

type group struct{ Layers []layer }

type layer struct {
	Name    string
	Weights *receipt.Tensor
}

// groupLayers is the largest number of layers in a group of a nested value.
const groupLayers = 16

// Metadata of all nested values.
const (
	valueID      = 5
	valueSamples = 999
	everyClient  = -1 // client of a nested value with the model
)

func aboutOf(round, client int) about { return about{valueID, valueSamples, round, client} }

// groupName returns the name of the group whose first layer has that index.
func groupName(first int) string { return fmt.Sprintf("group%06d", first) }

// newNestedValue returns a nested value with the tensors of layout l. view returns the memory of
// tensor i.
func newNestedValue(l *tensor.Layout, about about, view func(i int) []byte) nestedValue {
	b := nestedValue{About: about, Groups: map[string]group{}}
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

// views returns the memory of the nested value's tensors, which must be n.
func (b nestedValue) views(n int) ([][]byte, error) {
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
		return nil, fmt.Errorf("must have %[2]d tensors, not %[1]d", len(all), n)
	}
	return all, nil
}

// checkViews returns an error if a tensor of the nested value is a copy, instead of being p's
// memory.
func (b nestedValue) checkViews(p *tensor.Package) error {
	views, err := b.views(p.Len())
	if err != nil {
		return err
	}
	for i, v := range views {
		if arrived := p.View(i); len(v) != len(arrived) || len(v) > 0 && &v[0] != &arrived[0] {
			return fmt.Errorf("tensor %d (%s) is a copy: it must be a view of the update that arrived",
				i, p.Layout().Spec(i).Name)
		}
	}
	return nil
}

// nestedConfig is the configuration of the nested worker function.
type nestedConfig struct {
	stockConfig
	Values json.RawMessage `json:"values"` // from [trainer.PrepareValues]
}

// newNestedConfig returns the encoded configuration for updates of layout l. Only types
// and shapes of the prototype's tensors matter, so they overlap to save memory.
func newNestedConfig(c stockConfig, l *tensor.Layout) ([]byte, error) {
	size := 0
	for i := range l.Len() {
		size = max(size, tensor.Align*i+l.Bytes(i))
	}
	mem := make([]byte, size)
	update := newNestedValue(l, about{}, func(i int) []byte { return mem[tensor.Align*i:][:l.Bytes(i)] })
	values, _, err := trainer.PrepareValues(update, receipt.DefaultDepth)
	if err != nil {
		return nil, err
	}
	return json.Marshal(nestedConfig{c, values})
}

// nested returns the nested worker function, which does the work of [stock] on Go values.
func nested(config []byte) (trainer.Train, error) {
	var c nestedConfig
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	var job *trainer.Job // current job of this function's lane
	train, err := trainer.Values(func(j *trainer.ValueJob[nestedValue, nestedValue]) error {
		if want := aboutOf(j.Round, everyClient); j.Payload.About != want {
			return fmt.Errorf("payload: its metadata must be %+v, not %+v", want, j.Payload.About)
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

// detach builds a nested value of the model to be published, and detaches its tensors. The rest
// of the nested value becomes the model's receipt.
func (s *Run) detach(round int, model *tensor.Package) error {
	if !s.Spec.Nested {
		return nil
	}
	payload := newNestedValue(model.Layout(), aboutOf(round, everyClient), model.View)
	defer s.session.Recorder().Begin(phase.Detach, phase.OfRound(round)).End()
	d, err := receipt.Detach(payload, receipt.DefaultDepth)
	if err == nil {
		err = d.CopyTo(model)
	}
	if err != nil {
		return fmt.Errorf("round %d: payload: %w", round, err)
	}
	return nil
}

// reconstructed returns a prover that rebuilds each update's nested value and checks its
// metadata. If see is not nil, it also checks that the tensors are not copies, and calls
// see.
func (s *Run) reconstructed(round int, see prover) prover {
	return func(c trainer.Client, p *tensor.Package) error {
		var update nestedValue
		span := s.session.Recorder().Begin(phase.Reconstruct, phase.ID{Lane: -1, Round: round, Client: c.ID})
		err := receipt.Attach(p.Receipt, p, &update)
		span.End()
		if want := aboutOf(round, c.ID); err == nil && update.About != want {
			err = fmt.Errorf("update: its metadata must be %+v, not %+v", want, update.About)
		}
		if err != nil || see == nil {
			return err
		}
		return errors.Join(update.checkViews(p), see(c, p))
	}
}
