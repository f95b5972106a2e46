package models

import (
	"fmt"
	"strconv"
	"strings"

	"ipcbench/internal/ranges"
	"ipcbench/tensor"
)

// maxUniform bounds the number of tensors, so that a slip of the finger does not
// fill the memory with names.
const maxUniform = 1_000_000

// Expand returns the names of the models that text stands for: of a range of sizes,
// such as uniform:1KiB..1GiB:x4/20, a model for each; else text itself.
func Expand(text string) ([]string, error) {
	size, count, ok := strings.Cut(text, "/")
	of, isUniform := strings.CutPrefix(size, "uniform:")
	if !ok || !isUniform || !strings.Contains(of, "..") {
		return []string{text}, nil
	}
	sizes, err := ranges.Parse(of, tensor.F32.Size(), tensor.ParseBytes)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", text, err)
	}
	var names []string
	for _, n := range sizes {
		names = append(names, "uniform:"+tensor.FormatBytes(n)+"/"+count)
	}
	return names, nil
}

// uniform returns a model of f32 tensors of equal size. text is what stands
// behind "uniform:". If the size does not divide, the first tensors have one
// element more than the others.
func uniform(text string) (*Model, error) {
	size, count, ok := strings.Cut(text, "/")
	if !ok {
		return nil, fmt.Errorf("model %q: want %s, such as uniform:64MiB/20", "uniform:"+text, uniformFamily)
	}
	bytes, err := tensor.ParseBytes(size)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", "uniform:"+text, err)
	}
	if bytes%tensor.F32.Size() != 0 {
		return nil, fmt.Errorf("model %q: %s is not a multiple of %d bytes, the size of an f32",
			"uniform:"+text, size, tensor.F32.Size())
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 1 || n > maxUniform {
		return nil, fmt.Errorf("model %q: %q tensors: want a number from 1 to %d", "uniform:"+text, count, maxUniform)
	}
	elems := bytes / tensor.F32.Size()
	d := make(dict, 0, n)
	for i := range n {
		each := elems / n
		if i < elems%n {
			each++
		}
		d.add(tensor.F32, fmt.Sprintf("tensor.%d", i), each)
	}
	return generated(fmt.Sprintf("uniform:%s/%d", tensor.FormatBytes(bytes), n), d)
}
