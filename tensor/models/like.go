package models

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"ipcbench/tensor"
)

const (
	likePrefix  = "like:"
	likeFamily  = likePrefix + "MODEL:SIZE/COUNT"
	likeExample = likePrefix + "resnet50:50MB/160"
)

// like parses the text after "like:". MODEL may contain colons.
func like(text string) (*Model, error) {
	end := strings.LastIndex(text, ":")
	if end < 0 {
		return nil, fmt.Errorf("model %q must be %s, such as %s", likePrefix+text, likeFamily, likeExample)
	}
	if strings.HasPrefix(text, likePrefix) {
		return nil, fmt.Errorf("model %q: MODEL cannot be another like: model", likePrefix+text)
	}
	m, err := Parse(text[:end])
	if err != nil {
		return nil, fmt.Errorf("model %q: %w", likePrefix+text, err)
	}
	bytes, count, err := sized(likePrefix+text, likeFamily, likeExample, text[end+1:])
	if err != nil {
		return nil, err
	}
	return Like(m, bytes, count)
}

// Like returns a model of about the given size in bytes, in count tensors whose sizes are
// distributed as in m. m's tensors, ascending by size, are divided into count equal
// parts. The tensors in the middle of the parts are taken in m's order, and scaled by one
// factor. They get one dimension. If bytes is at least 8 per tensor, tensors that are not
// empty in m keep at least one element. It is an error if m has no bytes, or if count is
// below 1 or above a million.
//
// A transport's cost for a tensor is not proportional to the tensor's size. So a model
// with the same distribution predicts another better than a model of equal tensors does.
func Like(m *Model, bytes, count int) (*Model, error) {
	from := m.Layout
	if bytes < 0 || count < 1 || count > maxUniform {
		return nil, fmt.Errorf("model like %s of %d bytes in %d tensors: must have at least 0 bytes and from 1 to %d tensors", m.Name, bytes, count, maxUniform)
	}
	name := fmt.Sprintf("%s%s:%s/%d", likePrefix, m.Name, tensor.FormatBytes(bytes), count)
	if from.Payload() == 0 {
		return nil, fmt.Errorf("model %q: %s has no bytes to scale", name, m.Name)
	}
	ascending := make([]int, from.Len())
	taken := map[string]bool{} // names in use
	for i := range ascending {
		ascending[i], taken[from.Spec(i).Name] = i, true
	}
	slices.SortStableFunc(ascending, func(a, b int) int { return cmp.Compare(from.Bytes(a), from.Bytes(b)) })
	largest := ascending[len(ascending)-1]
	if from.Bytes(largest) > math.MaxInt/count {
		return nil, fmt.Errorf("model %q: %s is too large for so many tensors", name, m.Name)
	}
	chosen, sum := make([]int, count), 0
	for i := range chosen {
		chosen[i] = ascending[(2*i+1)*len(ascending)/(2*count)]
		sum += from.Bytes(chosen[i])
	}
	if sum == 0 { // most of m's tensors are empty
		chosen[count-1], sum = largest, from.Bytes(largest)
	}
	slices.Sort(chosen)
	least := 0 // fewest elements of a tensor that is not empty in m
	if bytes/count >= tensor.F64.Size() {
		least = 1
	}
	d, copies := make(dict, 0, count), 0
	had, got := 0, 0 // total bytes so far: of the chosen tensors, and of the new ones
	for i, k := range chosen {
		s, elems := from.Spec(k), 0
		if had += from.Bytes(k); from.Bytes(k) > 0 { // the next tensor makes up for rounding
			elems = max(least, (scaled(had, bytes, sum)-got)/s.DType.Size())
		}
		got += elems * s.DType.Size()
		name := s.Name
		if i == 0 || chosen[i-1] != k {
			copies = 0
		} else {
			for taken[name] {
				copies++
				name = fmt.Sprintf("%s.%d", s.Name, copies)
			}
			taken[name] = true
		}
		d.add(s.DType, name, elems)
	}
	return generated(name, d)
}

// scaled returns n × by ÷ of, for n ≤ of. The product may exceed an int.
func scaled(n, by, of int) int {
	high, low := bits.Mul64(uint64(n), uint64(by))
	q, _ := bits.Div64(high, low, uint64(of))
	return int(q)
}
