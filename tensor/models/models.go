// Package models names the model shapes that people measure with, and gives
// them their first values.
//
// A [Model] is a name and a layout. [Parse] reads the names that users write:
// one of a short list of well-known networks, uniform:SIZE/COUNT, like:MODEL:SIZE/COUNT,
// or the path of a .safetensors file, which brings shapes and values. [Update] reads the
// names of what clients send back, where that is something else; [Expand] those of a
// range. A file is untrusted input: its header is checked in full before anything is
// believed.
//
// The networks are state dictionaries, as training frameworks save them: the
// names, shapes, order and data types of their entries, counters included. None
// of them can compute anything.
//
// A new shape is one row in the table of this file and a function that lists its
// tensors.
package models

import (
	"fmt"
	"strings"

	"ipcbench/internal/near"
	"ipcbench/tensor"
)

// A Model is what a session trains: the layout of its tensors, and where their
// first values come from.
type Model struct {
	Name   string // as Parse reads it
	Layout *tensor.Layout

	file *file // has the values; nil if they are made from a seed
}

// Info describes a model, or a family of them, for a list.
type Info struct {
	Name    string // what to write
	About   string
	Tensors int // 0 in a family: its members differ
	Bytes   int
}

// named are the models that need nothing but their name.
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
	{"vlm-batch", "a batch for a vision-language model: few big and many tiny tensors, mixed types", vlmBatch},
}

// The families: what to write for a model that is not in the list.
const (
	uniformPrefix  = "uniform:"
	uniformFamily  = uniformPrefix + "SIZE/COUNT"
	uniformExample = uniformPrefix + "64MiB/20"
	fileFamily     = "PATH" + fileSuffix
	fileSuffix     = ".safetensors"
)

// Parse returns the model that text names. Its errors say what could have been
// written instead.
func Parse(text string) (*Model, error) {
	if strings.HasSuffix(text, fileSuffix) && !strings.HasPrefix(text, likePrefix) {
		return open(text)
	}
	if sizes, ok := strings.CutPrefix(text, uniformPrefix); ok {
		return uniform(sizes)
	}
	if of, ok := strings.CutPrefix(text, likePrefix); ok {
		return like(of)
	}
	for _, n := range named {
		if n.name == text {
			return generated(text, n.specs())
		}
	}
	return nil, unknown(text)
}

// List returns everything that Parse accepts, in the order for a list.
func List() []Info {
	var all []Info
	for _, n := range named {
		m, err := generated(n.name, n.specs())
		if err != nil {
			panic(err) // a mistake in this package
		}
		all = append(all, Info{n.name, n.about, m.Layout.Len(), m.Layout.Payload()})
	}
	return append(all,
		Info{Name: uniformFamily, About: "COUNT f32 tensors of SIZE bytes in all, such as " + uniformExample + "; SIZE may be a range"},
		Info{Name: likeFamily, About: "tensors as unequal as MODEL's, of another size and number, such as " + likeExample + "; SIZE may be a range"},
		Info{Name: fileFamily, About: "shapes and values of a safetensors file"})
}

// File returns the path of the file that has the model's values, or nothing if
// they are made from a seed.
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

// Init writes the model's first values to p, which must have m's layout: those
// of the file, or numbers made from the seed.
func (m *Model) Init(p *tensor.Package, seed uint64) error {
	if p.Layout() != m.Layout {
		return fmt.Errorf("model %q: first values for a package of another layout", m.Name)
	}
	if m.file != nil {
		return m.file.read(p)
	}
	tensor.Fill(p, seed)
	return nil
}

// unknown returns the error for a name that is none.
func unknown(text string) error {
	var names []string
	for _, n := range named {
		names = append(names, n.name)
	}
	meant := ""
	if n := near.Name(text, names); n != "" {
		meant = fmt.Sprintf(" (did you mean %s?)", n)
	}
	return fmt.Errorf("unknown model %q%s: want one of %s, %s, %s or %s",
		text, meant, strings.Join(names, ", "), uniformFamily, likeFamily, fileFamily)
}
