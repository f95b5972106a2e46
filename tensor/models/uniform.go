package models

import (
	"fmt"
	"strconv"
	"strings"

	"ipcbench/internal/ranges"
	"ipcbench/tensor"
)

// maxUniform limits the number of tensors, so that a typing error does not fill the
// memory with names.
const maxUniform = 1_000_000

// Expand returns the names of the models in a range of sizes, such as
// uniform:1KiB..1GiB:x4/20. A text without a range is returned as it is, unchecked.
func Expand(text string) ([]string, error) {
	slash := strings.LastIndex(text, "/")
	dots := strings.LastIndex(text[:max(0, slash)], "..")
	start := strings.LastIndex(text[:max(0, dots)], ":") + 1 // of the sizes
	family := text[:start]
	if family != uniformPrefix && (!strings.HasPrefix(family, likePrefix) || family == likePrefix) { // text may be a path
		return []string{text}, nil
	}
	sizes, err := ranges.Parse(text[start:slash], tensor.F32.Size(), tensor.ParseBytes)
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", text, err)
	}
	var names []string
	for _, n := range sizes {
		names = append(names, family+tensor.FormatBytes(n)+text[slash:])
	}
	return names, nil
}

// uniform returns a model of f32 tensors of equal size; text follows "uniform:". If the
// number of elements is not a multiple of the number of tensors, the first ones have one
// more.
func uniform(text string) (*Model, error) {
	bytes, n, err := sized(uniformPrefix+text, uniformFamily, uniformExample, text)
	if err != nil {
		return nil, err
	}
	if bytes%tensor.F32.Size() != 0 {
		return nil, fmt.Errorf("model %q: %d bytes is not a multiple of %d, the size of an f32",
			uniformPrefix+text, bytes, tensor.F32.Size())
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

// sized parses SIZE/COUNT in text. model, family and example are for errors.
func sized(model, family, example, text string) (bytes, count int, err error) {
	size, number, ok := strings.Cut(text, "/")
	if !ok {
		return 0, 0, fmt.Errorf("model %q must be %s, such as %s", model, family, example)
	}
	if bytes, err = tensor.ParseBytes(size); err != nil {
		return 0, 0, fmt.Errorf("model %q: %w", model, err)
	}
	if count, err = strconv.Atoi(number); err != nil || count < 1 || count > maxUniform {
		return 0, 0, fmt.Errorf("model %q: the number of tensors must be from 1 to %d, not %q", model, maxUniform, number)
	}
	return bytes, count, nil
}
