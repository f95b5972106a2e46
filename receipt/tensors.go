package receipt

import (
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/zeebo/xxh3"

	"ipcbench/tensor"
)

// A Tensor is an array of numbers inside a Go value. Its zero value means no tensor.
type Tensor struct {
	DType tensor.DType
	Shape []int  // as in tensor.Spec
	Data  []byte // the elements in row-major order; tensor.Of views them as numbers
}

// NewTensor returns a tensor of zeros.
func NewTensor(d tensor.DType, shape ...int) (*Tensor, error) {
	n, err := tensor.Spec{Name: "tensor", DType: d, Shape: shape}.Bytes()
	if err != nil {
		return nil, err
	}
	return &Tensor{DType: d, Shape: slices.Clone(shape), Data: make([]byte, n)}, nil
}

// A handle replaces a tensor in a receipt. Its encoded size is always the same.
type handle struct {
	index uint32 // index of the tensor in its package
	check uint64 // a digest of the tensor's type and shape
}

// checkOf returns the check of a handle to a tensor with spec s.
func checkOf(s tensor.Spec) uint64 {
	b := []byte{byte(s.DType)}
	if s.Var {
		b[0] |= 0x80 // never the case for tensors that Detach finds
	}
	for _, d := range s.Shape {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return xxh3.Hash(b)
}

// A block identifies a tensor by its memory, type and shape.
type block struct {
	start *byte // nil if there are no bytes; tensors without bytes are always different ones
	len   int
	check uint64
}

func (t *Tensor) block() block {
	b := block{len: len(t.Data), check: checkOf(tensor.Spec{DType: t.DType, Shape: t.Shape})}
	if len(t.Data) > 0 {
		b.start = &t.Data[0]
	}
	return b
}

func (c *coder) tensor(v reflect.Value, depth int) {
	kind, h := uint64(tensorNone), handle{}
	if !c.reading && !v.IsZero() {
		kind, h = c.place(v.Interface().(Tensor), depth)
	}
	switch kind = c.uvarint(kind); kind {
	case tensorNone:
	case tensorHandle:
		h = c.handle(h)
		if c.reading {
			v.Set(reflect.ValueOf(c.view(h)))
		}
	case tensorInlined:
		c.structure(v, depth)
		v.Interface().(Tensor).sound()
	default:
		fail("%d is not a kind of tensor", kind)
	}
}

// sound fails unless t's data has the size that type and shape require.
func (t Tensor) sound() {
	n, err := tensor.Spec{Name: "tensor", DType: t.DType, Shape: t.Shape}.Bytes()
	if err != nil {
		panic(failure{err})
	}
	if len(t.Data) != n {
		fail("%d bytes of data for %v %v, must be %d", len(t.Data), t.DType, t.Shape, n)
	}
}

// place decides how a tensor is written: inlined in the receipt, or as a handle, which
// it returns.
func (c *coder) place(t Tensor, depth int) (kind uint64, h handle) {
	t.sound()
	b := t.block()
	if depth > c.limit && !(b.start != nil && c.near[b]) {
		c.d.Untouched = append(c.d.Untouched, c.path.String())
		return tensorInlined, handle{}
	}
	index, again := c.handles[b]
	if !again || b.start == nil {
		index = uint32(len(c.d.Specs))
		c.handles[b] = index
		c.d.Specs = append(c.d.Specs, tensor.Spec{Name: c.path.String(), DType: t.DType, Shape: slices.Clone(t.Shape)})
		c.d.Data = append(c.d.Data, t.Data)
	}
	return tensorHandle, handle{index, b.check}
}

func (c *coder) handle(h handle) handle {
	return handle{uint32(c.fixed(uint64(h.index), 4)), c.fixed(h.check, 8)}
}

// view returns the tensor that h names, as a view of the package.
func (c *coder) view(h handle) Tensor {
	if uint64(h.index) >= uint64(c.p.Len()) {
		fail("tensor %d does not exist in a package of %d", h.index, c.p.Len())
	}
	i := int(h.index)
	s := c.p.Layout().Spec(i)
	if h.check != checkOf(s) {
		fail("tensor %d is %v %v in the package, which is not what the receipt was made for", i, s.DType, s.Shape)
	}
	c.used[i] = true
	return Tensor{DType: s.DType, Shape: slices.Clone(s.Shape), Data: c.p.View(i)}
}

// reach returns the tensors of v at or above the depth limit. It searches level by
// level, so that it meets everything at its smallest depth.
func (c *coder) reach(v any) map[block]bool {
	near, seen := map[block]bool{}, map[object]bool{}
	level := []reflect.Value{reflect.ValueOf(v)}
	for depth := 0; depth <= c.limit && len(level) > 0; depth++ {
		var next []reflect.Value
		for _, v := range level {
			next = c.visit(v, near, seen, next)
		}
		level = next
	}
	return near
}

// visit adds v to near if it is a tensor. Otherwise it appends v's direct items to next.
func (c *coder) visit(v reflect.Value, near map[block]bool, seen map[object]bool, next []reflect.Value) []reflect.Value {
	first := func(v reflect.Value) bool {
		o := objectOf(v)
		again := seen[o]
		seen[o] = true
		return !again
	}
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() || v.Kind() == reflect.Pointer && !first(v) {
			return next
		}
		v = v.Elem()
	}
	switch k := v.Kind(); {
	case k == reflect.Struct && v.Type() == tensorType:
		t := v.Interface().(Tensor)
		near[t.block()] = true
	case k == reflect.Struct:
		for _, f := range c.types.structure(v.Type()).fields {
			next = append(next, v.Field(f.index))
		}
	case k != reflect.Array && k != reflect.Slice && k != reflect.Map || isScalar(v.Type().Elem().Kind()):
	case k == reflect.Array, k == reflect.Slice && first(v):
		for i := range v.Len() {
			next = append(next, v.Index(i))
		}
	case k == reflect.Map && first(v):
		for it := v.MapRange(); it.Next(); {
			next = append(next, it.Value())
		}
	}
	return next
}
