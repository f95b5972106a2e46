// Package codec makes tensors smaller for the way from one process to another.
//
//   - A [Pipeline] says how: stages joined with "+", such as "xor+shuffle+zstd".
//     [Parse] reads one, and knows which orders make sense.
//   - A [Coder] does it, tensor by tensor: [Coder.Pack] and [Coder.Unpack]. It keeps
//     its scratch memory, so that steady use allocates nothing that grows.
//   - Some stages send only what differs from a base, the tensor that the receiver
//     has of the version before. Two words differ if their bits do, so that NaNs, the
//     two zeros and denormals arrive as they were sent.
//
// A packed tensor is never larger than the plain one: what a pipeline does not
// take or cannot shrink goes plain. What is unpacked is untrusted.
//
// The package knows nothing of versions, packages and peers: package transports
// keeps the bases and says on the wire what was done. docs/codecs.md describes the
// stages and their bytes.
package codec

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
)

// A Pipeline is a list of stages. The nil Pipeline is "none": every tensor goes
// plain.
type Pipeline struct {
	steps []step
}

// A step is one stage of a pipeline, with its parameter.
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

// Names returns what a pipeline is made of, in the order of help: "none", then
// the name of each stage, with "=P" or "=N" where it has a parameter.
func Names() []string {
	all := []string{"none"}
	for _, k := range kinds {
		all = append(all, k.usage())
	}
	return all
}

// Parse reads a pipeline such as "sparse" or "bf16+gaps+zstd". "none" gives nil.
// A stage that makes nothing smaller by itself gets the one that does: "xor" is
// "xor+zstd".
func Parse(text string) (*Pipeline, error) {
	if text == "none" {
		return nil, nil
	}
	p := &Pipeline{}
	for word := range strings.SplitSeq(text, "+") {
		name, arg, given := strings.Cut(word, "=")
		k := kindOf(name)
		if k == nil {
			return nil, fmt.Errorf("codec: unknown stage %q: want %s, joined with +", word, strings.Join(Names(), ", "))
		}
		s := step{kind: k}
		if given && k.arg == "" {
			return nil, fmt.Errorf("codec: %q: want %s without a parameter", word, k.name)
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
			return nil, fmt.Errorf("codec: %q: %s cannot follow %s: want %s", text, s.name, before.name, order())
		}
	}
	return p, nil
}

// finish puts the stage called name in its place, if there is a name and no stage
// there.
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

// String returns the pipeline as Parse reads it.
func (p *Pipeline) String() string {
	if p == nil {
		return "none"
	}
	return strings.Join(p.Steps(), "+")
}

// Steps returns each stage, with its parameter, in the order of encoding.
func (p *Pipeline) Steps() (all []string) {
	if p == nil {
		return nil
	}
	for _, s := range p.steps {
		all = append(all, s.String())
	}
	return all
}

// Lossy reports whether what arrives may differ from what was sent.
func (p *Pipeline) Lossy() bool {
	return p != nil && slices.ContainsFunc(p.steps, func(s step) bool { return s.lossy })
}

// Base reports whether the pipeline needs the tensor of the version before.
func (p *Pipeline) Base() bool {
	return p != nil && slices.ContainsFunc(p.steps, func(s step) bool { return s.base })
}

// Takes says why tensors of spec s go plain, whatever is in them. Nil: they do
// not.
func (p *Pipeline) Takes(s tensor.Spec) error {
	if p == nil {
		return fmt.Errorf("codec: %q: there is no codec", s.Name)
	}
	n, err := s.Bytes()
	if err != nil {
		return err
	}
	in := words{s.DType, n}
	for _, step := range p.steps {
		out, err := step.make(step.value).takes(in)
		if err != nil {
			return fmt.Errorf("codec: %q: %s %w", s.Name, step, err)
		}
		in = out
	}
	return nil
}
