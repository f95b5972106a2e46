package tensor

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// The encoding of a receipt, by the kind of a value:
//
//	bool                 a byte, 0 or 1
//	int, uint            a varint
//	float, complex       its bits
//	string, own encoding its length and bytes
//	array, struct        its elements, its exported fields; 0 for a struct without
//	pointer, map, slice  a reference: 0 for nil; 1 and its content for a new one;
//	                     n+2 for the one that was the n-th new one
//	interface            a type (0 for nil; 1, name and fingerprint for a new one;
//	                     n+2 for the n-th new one) and the value
//	Tensor               0 for none; 1 and a Handle; 2, type, shape and data of
//	                     one that was left in the receipt; n+3 for the n-th of those
//
// The whole is a version and the value as an interface would hold it.

const receiptVersion = 1

// What stands before references, types and tensors. Greater numbers mean an
// earlier one.
const (
	refNil, refNew, refFirst                        = 0, 1, 2
	tensorNone, tensorHandle, tensorData, tensorOld = 0, 1, 2, 3
)

// An object is something that several places in a value can refer to.
type object struct {
	t     reflect.Type
	start uintptr
	len   int
}

// A block is the memory of a tensor and how it is to be read.
type block struct {
	start *byte // nil if there are no bytes; such tensors are never the same
	len   int
	dtype DType
	shape string
}

func (t *Tensor) block() block {
	b := block{len: len(t.Data), dtype: t.DType}
	if len(t.Data) > 0 {
		b.start = &t.Data[0]
		b.shape = string(Spec{Shape: t.Shape}.appendShape(nil))
	}
	return b
}

type encoder struct {
	types   types
	limit   int
	near    map[block]bool // the tensors at a depth of at most limit
	handles map[block]int  // of those that were met
	inlined map[block]uint64
	inlines uint64 // how many tensors were left in the receipt
	objects map[object]uint64
	refs    uint64 // how many objects were met; more than objects, which lacks empty slices
	named   map[reflect.Type]uint64
	nesting int
	path    path
	out     []byte
	d       *Detached
}

func newEncoder(v any, limit int) *encoder {
	e := &encoder{
		types:   newTypes(),
		limit:   limit,
		handles: map[block]int{},
		inlined: map[block]uint64{},
		objects: map[object]uint64{},
		named:   map[reflect.Type]uint64{},
		d:       &Detached{},
	}
	e.near = e.reach(v)
	return e
}

// reach returns the tensors of v at a depth of at most the limit. It goes level
// by level, so that it meets everything where it is least deep.
func (e *encoder) reach(v any) map[block]bool {
	near, seen := map[block]bool{}, map[object]bool{}
	level := []reflect.Value{reflect.ValueOf(v)}
	for depth := 0; depth <= e.limit && len(level) > 0; depth++ {
		var next []reflect.Value
		for _, v := range level {
			next = e.visit(v, near, seen, next)
		}
		level = next
	}
	return near
}

// visit adds v to near if it is a tensor, else what is directly in it to next.
func (e *encoder) visit(v reflect.Value, near map[block]bool, seen map[object]bool, next []reflect.Value) []reflect.Value {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() || v.Kind() == reflect.Pointer && !first(seen, v) {
			return next
		}
		v = v.Elem()
	}
	switch {
	case !v.IsValid() || !e.types.mayHold(v.Type()):
	case v.Type() == tensorType:
		t := v.Interface().(Tensor)
		near[t.block()] = true
	case v.Kind() == reflect.Struct:
		for _, f := range e.types.structure(v.Type()).fields {
			next = append(next, v.Field(f.index))
		}
	case v.Kind() == reflect.Array, v.Kind() == reflect.Slice && first(seen, v):
		for i := range v.Len() {
			next = append(next, v.Index(i))
		}
	case v.Kind() == reflect.Map && first(seen, v):
		for it := v.MapRange(); it.Next(); {
			next = append(next, it.Value())
		}
	}
	return next
}

func first(seen map[object]bool, v reflect.Value) bool {
	o := objectOf(v)
	again := seen[o]
	seen[o] = true
	return !again
}

// objectOf returns the identity of a pointer, map or slice that is not nil.
func objectOf(v reflect.Value) object {
	o := object{t: v.Type(), start: v.Pointer()}
	if v.Kind() == reflect.Slice {
		o.len = v.Len()
	}
	return o
}

func (e *encoder) root(v any) error {
	e.out = append(e.out, receiptVersion)
	return e.dynamic(reflect.ValueOf(v), 0)
}

func (e *encoder) uvarint(n uint64) { e.out = binary.AppendUvarint(e.out, n) }

// dynamic writes the type of v, which is that of an interface's value, and v.
func (e *encoder) dynamic(v reflect.Value, depth int) error {
	if !v.IsValid() {
		e.uvarint(refNil)
		return nil
	}
	t := v.Type()
	if n, again := e.named[t]; again {
		e.uvarint(refFirst + n)
	} else {
		e.named[t] = uint64(len(e.named))
		e.uvarint(refNew)
		name := typeName(t)
		e.uvarint(uint64(len(name)))
		e.out = append(e.out, name...)
		e.out = binary.LittleEndian.AppendUint64(e.out, e.types.fingerprint(t))
	}
	return e.value(v, depth)
}

// at writes v, which stands at s inside the value that is being written.
func (e *encoder) at(s step, v reflect.Value, depth int) error {
	e.path = append(e.path, s)
	if err := e.value(v, depth); err != nil {
		return err // and leave the path, for whoever reports the error
	}
	e.path = e.path[:len(e.path)-1]
	return nil
}

func (e *encoder) value(v reflect.Value, depth int) error {
	if isScalar(v.Kind()) {
		e.scalar(v)
		return nil
	}
	if e.nesting++; e.nesting > maxNesting {
		return fmt.Errorf("nested more than %d deep", maxNesting)
	}
	err := e.composite(v, depth)
	e.nesting--
	return err
}

func (e *encoder) composite(v reflect.Value, depth int) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !e.reference(v) {
			return nil
		}
		return e.value(v.Elem(), depth)
	case reflect.Interface:
		return e.dynamic(v.Elem(), depth)
	case reflect.Slice:
		if !e.reference(v) {
			return nil
		}
		e.uvarint(uint64(v.Len()))
		return e.elements(v, depth)
	case reflect.Array:
		return e.elements(v, depth)
	case reflect.Map:
		return e.mapping(v, depth)
	case reflect.Struct:
		if v.Type() == tensorType {
			return e.tensor(v.Interface().(Tensor), depth)
		}
		return e.structure(v, depth)
	}
	return fmt.Errorf("a %v cannot travel", v.Type())
}

func (e *encoder) scalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Bool:
		b := byte(0)
		if v.Bool() {
			b = 1
		}
		e.out = append(e.out, b)
	case v.CanInt():
		e.out = binary.AppendVarint(e.out, v.Int())
	case v.CanUint():
		e.uvarint(v.Uint())
	case v.CanFloat():
		e.float(v.Float(), v.Type().Size())
	case v.CanComplex():
		e.float(real(v.Complex()), v.Type().Size()/2)
		e.float(imag(v.Complex()), v.Type().Size()/2)
	default:
		e.uvarint(uint64(v.Len()))
		e.out = append(e.out, v.String()...)
	}
}

func (e *encoder) float(f float64, size uintptr) {
	if size == 4 {
		e.out = binary.LittleEndian.AppendUint32(e.out, math.Float32bits(float32(f)))
	} else {
		e.out = binary.LittleEndian.AppendUint64(e.out, math.Float64bits(f))
	}
}

// reference writes what refers to v and reports whether its content must follow.
func (e *encoder) reference(v reflect.Value) bool {
	if v.IsNil() {
		e.uvarint(refNil)
		return false
	}
	o := objectOf(v)
	if n, again := e.objects[o]; again {
		e.uvarint(refFirst + n)
		return false
	}
	if v.Kind() != reflect.Slice || v.Len() > 0 { // empty slices may lie anywhere
		e.objects[o] = e.refs
	}
	e.refs++
	e.uvarint(refNew)
	return true
}

// elements writes the elements of a slice or an array.
func (e *encoder) elements(v reflect.Value, depth int) error {
	if v.Type().Elem().Kind() == reflect.Uint8 && (v.Kind() == reflect.Slice || v.CanAddr()) {
		e.out = append(e.out, v.Bytes()...)
		return nil
	}
	if k := v.Type().Elem().Kind(); isScalar(k) {
		for i := range v.Len() {
			if k == reflect.Uint8 {
				e.out = append(e.out, byte(v.Index(i).Uint()))
			} else {
				e.scalar(v.Index(i))
			}
		}
		return nil
	}
	if e.types.minSize(v.Type().Elem()) == 0 {
		return nil // however many there are
	}
	for i := range v.Len() {
		if err := e.at(step{index: i}, v.Index(i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) mapping(v reflect.Value, depth int) error {
	if err := e.types.keyError(v.Type().Key()); err != nil {
		return err
	}
	if !e.reference(v) {
		return nil
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, compareKeys)
	e.uvarint(uint64(len(keys)))
	for _, k := range keys {
		item := v.MapIndex(k)
		if !item.IsValid() {
			return errNaN
		}
		if err := e.at(keyStep(k), k, depth); err != nil {
			return err
		}
		if err := e.at(keyStep(k), item, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// keyStep returns the step to the item with key k: a string key looks like a
// field.
func keyStep(k reflect.Value) step {
	if k.Kind() == reflect.String {
		return step{name: k.String(), index: -1}
	}
	return step{name: fmt.Sprintf("[%v]", k), index: -1}
}

func (e *encoder) structure(v reflect.Value, depth int) error {
	s := e.types.structure(v.Type())
	if s.custom {
		return e.custom(v)
	}
	if s.refused != "" {
		e.path = append(e.path, step{name: s.refused, index: -1})
		return fmt.Errorf("the field is unexported, and %v is no encoding.BinaryMarshaler and BinaryUnmarshaler", v.Type())
	}
	if len(s.fields) == 0 {
		e.out = append(e.out, 0)
	}
	for _, f := range s.fields {
		if err := e.at(step{name: f.name, index: -1}, v.Field(f.index), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// custom writes a struct that knows how to marshal itself.
func (e *encoder) custom(v reflect.Value) error {
	if !v.CanAddr() { // the methods may need a pointer
		settable := reflect.New(v.Type()).Elem()
		settable.Set(v)
		v = settable
	}
	b, err := v.Addr().Interface().(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return err
	}
	e.uvarint(uint64(len(b)))
	e.out = append(e.out, b...)
	return nil
}

func (e *encoder) tensor(t Tensor, depth int) error {
	if t.isZero() {
		e.uvarint(tensorNone)
		return nil
	}
	if err := t.check(); err != nil {
		return err
	}
	b := t.block()
	if depth <= e.limit || b.start != nil && e.near[b] {
		i, again := e.handles[b]
		if !again || b.start == nil {
			i = len(e.d.Specs)
			e.handles[b] = i
			e.d.Specs = append(e.d.Specs, Spec{Name: e.path.String(), DType: t.DType, Shape: slices.Clone(t.Shape)})
			e.d.Data = append(e.d.Data, t.Data)
		}
		e.uvarint(tensorHandle)
		var err error
		e.out, err = newHandle(i, e.d.Specs[i]).AppendBinary(e.out)
		return err
	}
	e.d.Untouched = append(e.d.Untouched, e.path.String())
	if n, again := e.inlined[b]; again && b.start != nil {
		e.uvarint(tensorOld + n)
		return nil
	}
	e.inlined[b] = e.inlines
	e.inlines++
	e.uvarint(tensorData)
	e.out = append(e.out, byte(t.DType))
	e.uvarint(uint64(len(t.Shape)))
	e.out = t.spec("").appendShape(e.out)
	e.out = append(e.out, t.Data...)
	return nil
}
