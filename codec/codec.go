// Package codec compresses tensors before they travel between processes, and restores
// them.
//
//   - A [Pipeline] lists the stages to apply, joined with "+", such as
//     "xor+shuffle+zstd". [Parse] reads one.
//   - A [Coder] applies a pipeline to one tensor at a time: [Coder.Pack] and
//     [Coder.Unpack]. It reuses its scratch memory.
//   - Some stages send only elements that differ from a base: an earlier version of the
//     tensor, which the receiver has. Elements are compared by their bits, so NaNs, both
//     zeros and denormals arrive as they were sent.
//
// A tensor's bytes enter, and packed bytes with a [Mode] leave, or the reverse. A packed
// tensor is never larger than the original: it is sent plain if the pipeline does not
// accept it or cannot shrink it. Unpack does not trust its input.
//
// Package transports keeps the bases and sends the mode of each tensor. docs/codecs.md
// describes the stages, and docs/reference/codec-formats.md their bytes and sources.
package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
)

// A Pipeline is a list of stages. The nil Pipeline is "none": it sends every tensor
// plain. It is immutable.
type Pipeline struct {
	steps []step
}

type step struct {
	*kind
	value float64
}

func (s step) String() string {
	switch s.arg {
	case "":
		return s.name
	case "P":
		return s.name + "=" + strconv.FormatFloat(s.value, 'f', -1, 64) + "%"
	default:
		return s.name + "=" + strconv.FormatFloat(s.value, 'f', -1, 64)
	}
}

// Names returns "none" and then each stage, with "=P" (a percentage) or "=N" (a whole
// number) if it has a parameter.
func Names() []string {
	all := []string{"none"}
	for _, k := range kinds {
		all = append(all, k.usage())
	}
	return all
}

// Parse reads a pipeline such as "sparse" or "bf16+gaps+zstd"; "none" returns nil. Parse
// completes stages that need a later one to pay: "xor" means "xor+zstd", and "topk=1%"
// means "topk=1%+gaps". Unknown stages, wrong parameters and stages in the wrong order
// are errors.
func Parse(text string) (*Pipeline, error) {
	if text == "none" {
		return nil, nil
	}
	p := &Pipeline{}
	for word := range strings.SplitSeq(text, "+") {
		name, arg, given := strings.Cut(word, "=")
		k := kindOf(name)
		if k == nil {
			return nil, fmt.Errorf("codec: unknown stage %q: use %s, joined with +", word, strings.Join(Names(), ", "))
		}
		s := step{kind: k}
		if given && k.arg == "" {
			return nil, fmt.Errorf("codec: %q: %s has no parameter", word, k.name)
		}
		if k.arg != "" {
			var err error
			if s.value, err = k.parse(arg); err != nil {
				return nil, fmt.Errorf("codec: %q: %w", word, err)
			}
		}
		p.steps = append(p.steps, s)
	}
	for _, s := range p.steps {
		p.finish(s.then)
	}
	for i, s := range p.steps[1:] {
		if before := p.steps[i]; !before.leads(s.kind) {
			return nil, fmt.Errorf("codec: %q: %s cannot follow %s: the order is %s", text, s.name, before.name, order())
		}
	}
	return p, nil
}

// finish inserts the stage called name at its place, unless name is empty or a stage is
// already there.
func (p *Pipeline) finish(name string) {
	k := kindOf(name)
	if k == nil {
		return
	}
	at, found := slices.BinarySearchFunc(p.steps, k.place, func(s step, pl place) int { return int(s.place) - int(pl) })
	if !found {
		p.steps = slices.Insert(p.steps, at, step{kind: k})
	}
}

// String returns the text that [Parse] reads as p, with the stages that Parse added.
func (p *Pipeline) String() string {
	if p == nil {
		return "none"
	}
	return strings.Join(p.Steps(), "+")
}

// Steps returns the stages with their parameters, such as "kc=8", in the order of
// encoding.
func (p *Pipeline) Steps() (all []string) {
	if p == nil {
		return nil
	}
	for _, s := range p.steps {
		all = append(all, s.String())
	}
	return all
}

// Lossy reports whether values may arrive changed.
func (p *Pipeline) Lossy() bool {
	return p != nil && slices.ContainsFunc(p.steps, func(s step) bool { return s.lossy })
}

// Base reports whether the pipeline needs a base: the tensor's previous version.
func (p *Pipeline) Base() bool {
	return p != nil && slices.ContainsFunc(p.steps, func(s step) bool { return s.base })
}

// Takes returns nil if p can encode tensors of spec s. Otherwise every such tensor is
// sent plain, and the error gives the reason. An invalid s is also an error.
func (p *Pipeline) Takes(s tensor.Spec) error {
	n, err := s.Bytes()
	if err != nil {
		return err
	}
	if err = p.NewCoder().shape(s.DType, n); err != nil {
		return fmt.Errorf("codec: %q: %w", s.Name, err)
	}
	return nil
}
