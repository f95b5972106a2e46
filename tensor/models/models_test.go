package models

import (
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

func mustParse(t *testing.T, name string) *Model {
	t.Helper()
	return check.Value(Parse(name))(t)
}

func elems(l *tensor.Layout, d tensor.DType) int {
	n := 0
	for i := range l.Len() {
		if l.Spec(i).DType == d {
			n += l.Bytes(i) / d.Size()
		}
	}
	return n
}

func distinct(t *testing.T, l *tensor.Layout) {
	t.Helper()
	names := map[string]bool{}
	for _, s := range l.Specs() {
		check.That(t, !names[s.Name], "%s stands twice", s.Name)
		names[s.Name] = true
	}
}

// TestNamedModels: sizes agree with the figures in the networks' own publications and libraries.
func TestNamedModels(t *testing.T) {
	tests := []struct {
		name    string
		tensors int
		f32     int // elements
		bytes   int
	}{
		{"cnn", 10, 62_006, 248_024},
		{"histology", 20, 16_652_072, 66_608_288},
		// Parameters and two running statistics; one i64 counter per normalization.
		{"resnet18", 122, 11_689_512 + 2*4_800, 46_796_608},
		{"resnet50", 320, 25_557_032 + 2*26_560, 4*(25_557_032+2*26_560) + 8*53},
		{"resnet101", 626, 44_549_160 + 2*52_672, 4*(44_549_160+2*52_672) + 8*104},
		// Parameters, plus the head, which is the same matrix as the embedding.
		{"gpt2", 149, 124_439_808 + 50_257*768, 4 * (124_439_808 + 50_257*768)},
		{"gpt2-large", 437, 774_030_080 + 50_257*1280, 3_353_436_160},
		{"lora", 448, 0, 2 * 20_971_520},
		{"moe-lora", 18_040, 0, 223_117_312},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := mustParse(t, test.name).Layout
			check.Equal(t, []int{l.Len(), elems(l, tensor.F32), l.Payload()}, []int{test.tensors, test.f32, test.bytes}, "tensors, f32 elements and bytes")
			distinct(t, l)
		})
	}
}

func TestResNetOrderAndNames(t *testing.T) {
	l := mustParse(t, "resnet18").Layout
	want := []string{
		"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked",
		"layer1.0.conv1.weight",
	}
	for i, name := range want {
		check.Equal(t, l.Spec(i).Name, name, "tensor", i, "is")
	}
	check.That(t, l.Spec(5).DType == tensor.I64 && len(l.Spec(5).Shape) == 0, "the counter is %+v", l.Spec(5))
}

// TestVLMBatch: the batch has properties that the networks lack: every type, scalars, empty tensors, and few tensors
// with nearly all bytes.
func TestVLMBatch(t *testing.T) {
	l := mustParse(t, "vlm-batch").Layout
	types, empty, scalars, big, bigBytes := map[tensor.DType]bool{}, 0, 0, 0, 0
	for i, s := range l.Specs() {
		types[s.DType] = true
		switch {
		case len(s.Shape) == 0:
			scalars++
		case l.Bytes(i) == 0:
			empty++
		case l.Bytes(i) > 1<<20:
			big++
			bigBytes += l.Bytes(i)
		}
	}
	check.That(t, len(types) == len(tensor.DTypes()) && empty != 0 && scalars != 0,
		"%d types, %d empty, %d scalars", len(types), empty, scalars)
	check.That(t, big <= l.Len()/20 && bigBytes >= l.Payload()*9/10,
		"%d of %d tensors are big and hold %d of %d bytes", big, l.Len(), bigBytes, l.Payload())
}

func TestUniform(t *testing.T) {
	tests := []struct {
		text, name  string
		count       int
		first, last int // bytes
	}{
		{"uniform:64MiB/16", "uniform:64MiB/16", 16, 4 << 20, 4 << 20},
		{"uniform:64MiB/20", "uniform:64MiB/20", 20, 3355444, 3355440},
		{"uniform:1000KB/1000", "uniform:1000000B/1000", 1000, 1000, 1000},
		{"uniform:4/3", "uniform:4B/3", 3, 4, 0},
		{"uniform:0/1", "uniform:0B/1", 1, 0, 0},
	}
	for _, test := range tests {
		m := mustParse(t, test.text)
		l := m.Layout
		want := check.Value(tensor.ParseBytes(strings.TrimPrefix(test.name[:strings.Index(test.name, "/")], "uniform:")))(t)
		check.Equal(t, m.Name, test.name, test.text, "is")
		check.Equal(t, []int{l.Len(), l.Payload(), l.Bytes(0), l.Bytes(l.Len() - 1)}, []int{test.count, want, test.first, test.last},
			test.text, "tensors, bytes, first and last:")
		again := mustParse(t, m.Name)
		check.That(t, again.Layout.Digest() == l.Digest(), "%s: its name %s is another model", test.text, m.Name)
	}
}

// TestExpand: a range becomes several ordinary names; any other text is left as it is.
func TestExpand(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"cnn", "cnn"},
		{"../a..b/x.safetensors", "../a..b/x.safetensors"},
		{"uniform:1KiB/20", "uniform:1KiB/20"},
		{"uniform:1KiB..1MiB:x32/20", "uniform:1KiB/20 uniform:32KiB/20 uniform:1MiB/20"},
		{"uniform:1KiB..4KiB:x1.7/3", "uniform:1KiB/3 uniform:1740B/3 uniform:2956B/3"},
		{"uniform:1KiB..4KiB:x2", "such as uniform:64MiB/20"},
		{"uniform:1KiB..4KiB:x2/x", "from 1 to"},
		{"uniform:6..4KiB:x2/3", "multiple of 4"},
		{"uniform:1KiB..4Kib:x2/3", `range 1KiB..4Kib:x2: size "4Kib"`},
		{"uniform:1KiB..1GiB/3", "more than 63 steps"},
		{"like:cnn:1MiB..4MiB:x2/10", "like:cnn:1MiB/10 like:cnn:2MiB/10 like:cnn:4MiB/10"},
		{"like:uniform:8KiB/3:4KiB..16KiB:x4/2", "like:uniform:8KiB/3:4KiB/2 like:uniform:8KiB/3:16KiB/2"},
		{"like:../a/x.safetensors:1MiB/4", "like:../a/x.safetensors:1MiB/4"},
		{"like:1MiB..4MiB:x2/10", "like:1MiB..4MiB:x2/10"},
		{"like:cnn:1MiB..4MiB:y2/10", "range 1MiB..4MiB:y2"},
	} {
		names, err := Expand(test.text)
		for _, name := range names {
			if _, no := Parse(name); strings.HasPrefix(name, uniformPrefix) && no != nil {
				err = no
			}
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		check.That(t, got == test.want || err != nil && strings.Contains(got, test.want),
			"%s: got %s, want %s", test.text, got, test.want)
	}
}

func TestParseErrorsSayWhatToWrite(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "must be one of cnn, histology, resnet18"},
		{"resnet", "did you mean resnet18, resnet50 or resnet101?"},
		{"alexnet", "uniform:SIZE/COUNT, like:MODEL:SIZE/COUNT, PATH.safetensors"},
		{"histolgy", "did you mean histology?"},
		{"GPT2-Large", "did you mean gpt2-large?"},
		{"uniform:64MiB", "such as uniform:64MiB/20"},
		{"uniform:/3", `size ""`},
		{"uniform:64Mib/3", `size "64Mib"`},
		{"uniform:6/3", "multiple of 4"},
		{"uniform:4/0", "from 1 to"},
		{"uniform:4/10000000", "from 1 to"},
		{"no/such.safetensors", "no/such.safetensors: no such file"},
	}
	for _, test := range tests {
		check.Fails(t, check.Err(Parse(test.text)), test.want, test.text)
	}
}

func TestListIsWhatParseReads(t *testing.T) {
	list := List()
	for _, info := range list {
		if info.Tensors == 0 {
			continue // a family of models
		}
		m := mustParse(t, info.Name)
		check.That(t, m.Name == info.Name && m.Layout.Len() == info.Tensors && m.Layout.Payload() == info.Bytes && info.About != "",
			"listed %+v, parsed %s with %d tensors and %d bytes", info, m.Name, m.Layout.Len(), m.Layout.Payload())
	}
	check.Equal(t, len(list), len(named)+3, "models listed")
}

func TestInitIsSeeded(t *testing.T) {
	m := mustParse(t, "cnn")
	hash := func(seed uint64) uint64 {
		p := tensor.Alloc(m.Layout)
		check.Must(t, m.Init(p, seed))
		return p.Hash()
	}
	first, again, other := hash(1), hash(1), hash(2)
	check.That(t, first == again && first != other, "first values do not depend on the seed alone")
	err := m.Init(tensor.Alloc(mustParse(t, "cnn").Layout), 1)
	check.That(t, err != nil, "wrote to a package of another layout")
}
