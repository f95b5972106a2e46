// Package models defines the models that users can measure with: their names, layouts and
// first values.
//
// [Parse] reads a model's name: one of a short list of well-known networks,
// uniform:SIZE/COUNT, like:MODEL:SIZE/COUNT, or the path of a .safetensors file with
// shapes and values. [Update] reads the name of an update that differs from the model.
// [Expand] splits a range of sizes into names. Files are untrusted: the whole header is
// checked before use.
//
// The networks are state dictionaries as training frameworks save them: the names,
// shapes, order and data types of all entries, including counters. They cannot compute
// anything.
//
// To add a network, add a row to the table named and a function that lists its tensors.
package models

import (
	"fmt"
	"strings"

	"ipcbench/internal/near"
	"ipcbench/tensor"
)

// A Model is the layout of the tensors that a session exchanges, and the source of their
// first values.
type Model struct {
	Name   string // as Parse reads it
	Layout *tensor.Layout

	file *file // contains the values; nil if they are generated from a seed
}

// Info describes a model, or a family of models, in a list.
type Info struct {
	Name    string // text for Parse or Update
	About   string
	Tensors int // like Bytes, 0 for a family
	Bytes   int
}

// named lists the models that have no parameters.
var named = []struct {
	name, about string
	specs       func() []tensor.Spec
}{
	{"cnn", "PyTorch's CIFAR-10 tutorial network", cnn},
	{"histology", "OpenFL's torch_cnn_histology", histology},
	{"resnet18", "torchvision ResNet-18, 1,000 classes, with its counters", func() []tensor.Spec { return resnet(false, 2, 2, 2, 2) }},
	{"resnet50", "torchvision ResNet-50, 1,000 classes, with its counters", func() []tensor.Spec { return resnet(true, 3, 4, 6, 3) }},
	{"resnet101", "torchvision ResNet-101, 1,000 classes, with its counters", func() []tensor.Spec { return resnet(true, 3, 4, 23, 3) }},
	{"gpt2", "GPT-2 small in f32, with its head", func() []tensor.Spec { return gpt2(12, 768) }},
	{"gpt2-large", "GPT-2 large in f32, with its head", func() []tensor.Spec { return gpt2(36, 1280) }},
	{"lora", "LoRA adapters of rank 8 for all linear layers of Llama 3 8B, bf16", lora},
	{"moe-lora", "LoRA adapters of rank 4 for a mixture-of-experts model: 18,040 small tensors, bf16", moeLora},
	{"vlm-batch", "a batch for a vision-language model: few big and many tiny tensors, mixed types", vlmBatch},
}

// Names of the families of models that are not in the list.
const (
	uniformPrefix  = "uniform:"
	uniformFamily  = uniformPrefix + "SIZE/COUNT"
	uniformExample = uniformPrefix + "64MiB/20"
	fileFamily     = "PATH" + fileSuffix
	fileSuffix     = ".safetensors"
)

// Parse returns the model with that name. Its errors list the valid names. For a file, it
// reads only the header; the layout has the tensors in the order of their data.
func Parse(text string) (*Model, error) {
	if strings.HasSuffix(text, fileSuffix) && !strings.HasPrefix(text, likePrefix) {
		f, specs, err := open(text)
		if err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
		m, err := generated(text, specs)
		if err == nil {
			m.file = f
		}
		return m, err
	}
	if sizes, ok := strings.CutPrefix(text, uniformPrefix); ok {
		return uniform(sizes)
	}
	if model, ok := strings.CutPrefix(text, likePrefix); ok {
		return like(model)
	}
	for _, n := range named {
		if n.name == text {
			return generated(text, n.specs())
		}
	}
	return nil, unknown(text)
}

// List describes every model that Parse accepts, in the order of help.
func List() []Info {
	var all []Info
	for _, n := range named {
		m, err := generated(n.name, n.specs())
		if err != nil {
			panic(err) // a bug in this package
		}
		all = append(all, Info{n.name, n.about, m.Layout.Len(), m.Layout.Payload()})
	}
	return append(all,
		Info{Name: uniformFamily, About: "COUNT f32 tensors with SIZE bytes in total, such as " + uniformExample + "; SIZE may be a range"},
		Info{Name: likeFamily, About: "COUNT tensors with SIZE bytes in total, distributed as in MODEL, such as " + likeExample + "; SIZE may be a range"},
		Info{Name: fileFamily, About: "shapes and values of a safetensors file"})
}

// File returns the absolute path of the file with the model's values, or "" if they are
// generated from a seed.
func (m *Model) File() string {
	if m.file == nil {
		return ""
	}
	return m.file.path
}

func generated(name string, specs []tensor.Spec) (*Model, error) {
	l, err := tensor.NewLayout(specs)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", name, err)
	}
	return &Model{Name: name, Layout: l}, nil
}

// Init writes the model's first values to p, which must have m's layout: from its file,
// or generated from the seed by [tensor.Fill]. It is an error if the file has changed
// since Parse, or contains a bool other than 0 or 1.
func (m *Model) Init(p *tensor.Package, seed uint64) error {
	if p.Layout() != m.Layout {
		return fmt.Errorf("model %q: the package must have the model's layout", m.Name)
	}
	if m.file != nil {
		if err := m.file.read(p); err != nil {
			return fmt.Errorf("model: %w", err)
		}
		return nil
	}
	tensor.Fill(p, seed)
	return nil
}

// unknown returns the error for a text that names no model.
func unknown(text string) error {
	var names []string
	for _, n := range named {
		names = append(names, n.name)
	}
	return near.Unknown("model", text, append(names, uniformFamily, likeFamily, fileFamily))
}
