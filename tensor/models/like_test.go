package models

import (
	"math"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// checkLike checks like's size and number of tensors, and that they follow m's in order, name and type.
func checkLike(t *testing.T, m, like *Model, bytes, count int) {
	t.Helper()
	l := like.Layout
	check.Equal(t, l.Len(), count, like.Name, " tensors")
	// Rounding makes it up to 8 bytes per tensor larger, or less than 8 bytes smaller in all.
	off := l.Payload() - bytes
	check.That(t, -off < 8 && off <= 8*count, "%s: %d bytes more than asked for", like.Name, off)
	distinct(t, l)
	before, copies := -1, 0
	for i, s := range l.Specs() {
		k := max(before, 0) // the tensor that s was made of, or a later one
		for ; k < m.Layout.Len() && !strings.HasPrefix(s.Name, m.Layout.Spec(k).Name); k++ {
		}
		check.Need(t, k != m.Layout.Len(), "%s: %s comes too late, or is of no tensor", like.Name, s.Name)
		if k == before {
			copies++
		}
		before = k
		from := m.Layout.Spec(k)
		empty, sized := m.Layout.Bytes(k) == 0, l.Bytes(i) > 0
		check.That(t, s.DType == from.DType && (!empty || !sized) && (empty || sized || bytes/count < 8),
			"%s: %s is %v of %d bytes, made of %v of %d", like.Name, s.Name, s.DType, l.Bytes(i), from.DType, m.Layout.Bytes(k))
	}
	check.That(t, copies != 0 || count <= m.Layout.Len(), "%s: no tensor stands for two", like.Name)
}

// TestLike: a model has the requested size and number of tensors. With the original's own, it has the same tensors
// except for shapes.
func TestLike(t *testing.T) {
	for _, test := range []struct{ text, name string }{
		{"like:cnn:248024/10", "like:cnn:248024B/10"},
		{"like:resnet50:50MB/160", "like:resnet50:50000000B/160"},
		{"like:resnet50:64MiB/1000", "like:resnet50:64MiB/1000"},
		{"like:resnet18:32KiB/122", "like:resnet18:32KiB/122"}, // counters keep at least one element
		{"like:vlm-batch:1MiB/100", "like:vlm-batch:1MiB/100"},
		{"like:vlm-batch:1MiB/1", "like:vlm-batch:1MiB/1"},
		{"like:uniform:1MiB/4:1KiB/9", "like:uniform:1MiB/4:1KiB/9"},
		{"like:uniform:4/3:4KiB/1", "like:uniform:4B/3:4KiB/1"}, // its middle tensor is empty
		{"like:gpt2:0/5", "like:gpt2:0B/5"},
		{"like:gpt2:4GB/1", "like:gpt2:3906250KiB/1"},
		{"like:cnn:8000000000GB/1", "like:cnn:7629394531250MiB/1"},
		{"like:cnn:9223372036854775807/1", "overflows"},
		{"like:uniform:8GiB/1:1KiB/50000", "like:uniform:8GiB/1:1KiB/50000"},
		{"like:uniform:8000000000GB/1:1KiB/2", "too large"},
		{"like:uniform:0/3:1KiB/2", "uniform:0B/3 has no bytes"},
		{"like:cnn", "such as like:resnet50:50MB/160"},
		{"like:cnn:50MB", "must be like:MODEL:SIZE/COUNT"},
		{"like:cmn:50MB/2", "did you mean cnn?"},
		{"like:cnn:4/0", "from 1 to 1000000"},
		{"like:like:cnn:4KiB/2:4KiB/3", "MODEL cannot be another like: model"},
		{"like:no/such.safetensors", "must be like:MODEL:SIZE/COUNT"},
	} {
		m, err := Parse(test.text)
		if err != nil {
			check.Fails(t, err, test.name, test.text)
			continue
		}
		check.Equal(t, m.Name, test.name, test.text, "is named")
		again, err := Parse(m.Name)
		check.That(t, err == nil && again.Layout.Digest() == m.Layout.Digest(), "%s: its name is another model: %v", m.Name, err)
		at := strings.LastIndex(m.Name, ":")
		bytes, count, err := sized("", "", "", m.Name[at+1:])
		check.Must(t, err)
		checkLike(t, mustParse(t, m.Name[len(likePrefix):at]), m, bytes, count)
	}
	for _, m := range []string{"cnn", "resnet18", "vlm-batch", "uniform:1MiB/7"} {
		of := mustParse(t, m)
		l := check.Value(Like(of, of.Layout.Payload(), of.Layout.Len()))(t)
		for i, s := range of.Layout.Specs() {
			got := l.Layout.Spec(i)
			check.That(t, got.Name == s.Name && got.DType == s.DType && l.Layout.Bytes(i) == of.Layout.Bytes(i),
				"%s: %v of %d bytes became %v of %d", m, s, of.Layout.Bytes(i), got, l.Layout.Bytes(i))
		}
	}
	_, err := Like(mustParse(t, "cnn"), math.MinInt, 1)
	check.That(t, err != nil, "fewer bytes than none")
}

// TestLikeNames: an added tensor does not get the name of another one.
func TestLikeNames(t *testing.T) {
	m := check.Value(generated("m", []tensor.Spec{
		{Name: "a", DType: tensor.F32, Shape: []int{100}}, {Name: "a.1", DType: tensor.F32, Shape: []int{100}}, {Name: "a.1.1", DType: tensor.F32},
	}))(t)
	like := check.Value(Like(m, 4096, 9))(t)
	distinct(t, like.Layout)
}

// FuzzParse: a text that Parse accepts, other than a path, has a name that parses to the same model.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"cnn", "uniform:64MiB/20", "uniform:4/3", "like:cnn:1KiB/7", "like:uniform:1KiB/2:4KiB/3", "like:vlm-batch:64KiB/40", "like:lora:8/3", "like::/", "like:cnn:1..2/3", "uniform:1KiB..4KiB:x2/3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, fileSuffix) || len(text) > 100 {
			return
		}
		m, err := Parse(text)
		if err != nil || m.Layout.Len() > 10_000 {
			return
		}
		again, err := Parse(m.Name)
		check.That(t, err == nil && again.Name == m.Name && again.Layout.Digest() == m.Layout.Digest(),
			"%q is %s, which is another model: %v", text, m.Name, err)
		names, err := Expand(m.Name)
		check.That(t, err == nil && len(names) == 1 && names[0] == m.Name, "%s stands for %q: %v", m.Name, names, err)
	})
}
