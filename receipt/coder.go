package receipt

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"

	"ipcbench/tensor"
)

// A coder writes a value to a receipt, or reads one from it. Each of its methods does both:
// it writes a part of the value, or reads it and stores it there. So writing and reading
// cannot disagree. The encoding depends on the kind of a value:
//
//	bool                 a byte, 0 or 1
//	int, uint            a varint
//	float                its bits
//	string, own encoding its length and bytes
//	array, struct        its elements, its exported fields; 0 if there are none
//	pointer, map, slice  a reference: 0 for nil; 1 and its content for a new one;
//	                     n+2 for the n-th new one
//	interface            a type (0 for nil; 1, name and fingerprint for a new one;
//	                     n+2 for the n-th new one) and the value
//	Tensor               0 for none; 1 and a handle; 2 and the Tensor as a struct,
//	                     if it stays in the receipt
//
// A receipt is a version and the value, encoded as if it were in an interface. Every value
// has at least one byte, so the receipt's size bounds the lengths in it.
//
// An error ends the walk by a panic with a failure, which [coder.run] turns into an error.
type coder struct {
	types   types
	buf     []byte         // written so far; when reading, the rest to read
	named   []reflect.Type // types that interfaces held so far
	nesting int
	path    path
	reading bool

	// For writing.
	limit   int
	near    map[block]bool    // tensors at a depth of at most limit
	handles map[block]uint32  // indexes of the detached tensors
	objects map[object]uint64 // numbers of the pointers, slices and maps that were met
	refs    uint64            // how many were met; objects lacks empty slices
	d       *Detached

	// For reading.
	p     *tensor.Package
	used  []bool          // one per tensor of p: whether the value refers to it
	met   []reflect.Value // pointers, slices and maps, each stored where it was met first
	outer reflect.Type    // type of the variable
	known []any
}

const version = 2

// Codes before references, types and tensors. From refFirst on they refer to an earlier
// object or type.
const (
	refNil, refNew, refFirst                = 0, 1, 2
	tensorNone, tensorHandle, tensorInlined = 0, 1, 2
)

type failure struct{ error }

func fail(format string, a ...any) { panic(failure{fmt.Errorf(format, a...)}) }

var errShort = errors.New("the receipt is cut off")

// run calls f, and adds the path to its failure.
func (c *coder) run(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			failed, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("%v: %w", c.path, failed.error)
		}
	}()
	f()
	return nil
}

// take reads n bytes. They are a part of the receipt's memory.
func (c *coder) take(n uint64) []byte {
	if n > uint64(len(c.buf)) {
		panic(failure{errShort})
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	return b
}

func (c *coder) uvarint(n uint64) uint64 {
	if !c.reading {
		c.buf = binary.AppendUvarint(c.buf, n)
		return n
	}
	n, size := binary.Uvarint(c.buf)
	if size <= 0 {
		panic(failure{errShort})
	}
	c.buf = c.buf[size:]
	return n
}

func (c *coder) varint(n int64) int64 {
	u := c.uvarint(uint64(n)<<1 ^ uint64(n>>63))
	return int64(u>>1) ^ -int64(u&1)
}

func (c *coder) fixed(n uint64, size int) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	c.bytes(b[:size])
	return binary.LittleEndian.Uint64(b[:])
}

func (c *coder) bytes(b []byte) {
	if c.reading {
		copy(b, c.take(uint64(len(b))))
	} else {
		c.buf = append(c.buf, b...)
	}
}

// counted codes a length and that many bytes; when reading, they are the receipt's
// memory.
func (c *coder) counted(b []byte) []byte {
	n := c.uvarint(uint64(len(b)))
	if c.reading {
		return c.take(n)
	}
	c.bytes(b)
	return b
}

// length codes the length of a slice or map with at least min bytes per element. When
// reading, it checks that the receipt is long enough before any memory is allocated.
func (c *coder) length(n, min int) int {
	m := c.uvarint(uint64(n))
	if c.reading && m > uint64(len(c.buf)/min) {
		fail("length %d: %w", m, errShort)
	}
	return int(m)
}

// room fails if the receipt is too short for a value of type t.
func (c *coder) room(t reflect.Type) {
	if len(c.buf) < c.types.minSize(t) {
		panic(failure{errShort})
	}
}

// root codes the whole receipt of v. When reading, it returns a value for a variable of
// type c.outer.
func (c *coder) root(v reflect.Value) reflect.Value {
	if (len(c.buf) == 0 && c.reading) || c.fixed(version, 1) != version {
		fail("not a receipt of version %d", version)
	}
	v = c.dynamic(v, c.outer, 0)
	if c.reading && len(c.buf) > 0 {
		fail("%d bytes after the end of the value", len(c.buf))
	}
	return v
}

// dynamic codes the type and the value of an interface, and returns the value. v is
// invalid when reading, or if the interface is nil. When reading, the value must fit a
// variable of type t.
func (c *coder) dynamic(v reflect.Value, t reflect.Type, depth int) reflect.Value {
	n := uint64(refNil)
	if v.IsValid() {
		n = refNew
		if i := slices.Index(c.named, v.Type()); i >= 0 {
			n = refFirst + uint64(i)
		}
	}
	switch n = c.uvarint(n); {
	case n == refNil:
		if !c.reading {
			return v
		}
		if t.Kind() != reflect.Interface {
			fail("the receipt holds nil, but the variable is a %v", t)
		}
		return reflect.Zero(t)
	case n == refNew:
		n = refFirst + uint64(len(c.named))
		c.named = append(c.named, c.newType(v, t))
	case n-refFirst >= uint64(len(c.named)):
		fail("unknown type %d of %d", n-refFirst, len(c.named))
	}
	if c.reading {
		concrete := c.named[n-refFirst]
		if !concrete.AssignableTo(t) {
			fail("found a %v, must be a %v", concrete, t)
		}
		c.room(concrete)
		v = reflect.New(concrete).Elem()
	}
	c.value(v, depth)
	return v
}

// newType codes the name and fingerprint of v's type, and returns the type. When
// reading, the type is for a variable of type t.
func (c *coder) newType(v reflect.Value, t reflect.Type) reflect.Type {
	if !c.reading {
		c.counted([]byte(v.Type().String()))
		c.fixed(c.types.fingerprint(v.Type()), 8)
		return v.Type()
	}
	name := string(c.counted(nil))
	print := c.fixed(0, 8)
	if t.Kind() != reflect.Interface && c.types.fingerprint(t) == print {
		return t
	}
	if c.types.catalog == nil {
		c.types.list(c.outer, c.known)
	}
	var found []reflect.Type
	for _, t := range c.types.catalog[name] {
		if c.types.fingerprint(t) == print {
			found = append(found, t)
		}
	}
	if len(found) != 1 {
		fail("type %q is unknown, differs, or is ambiguous: pass a value of it to Attach", name)
	}
	return found[0]
}

// at codes v, which is at step s inside the current value.
func (c *coder) at(s step, v reflect.Value, depth int) {
	c.path = append(c.path, s)
	c.value(v, depth)
	c.path = c.path[:len(c.path)-1] // kept after a failure, because run reports the path
}

// value codes v. When reading, v must be settable and zero.
func (c *coder) value(v reflect.Value, depth int) {
	if c.nesting++; c.nesting > maxNesting {
		fail("nested more than %d levels deep", maxNesting)
	}
	switch k := v.Kind(); {
	case isScalar(k):
		c.scalar(v)
	case k == reflect.Interface:
		item := c.dynamic(v.Elem(), v.Type(), depth)
		if c.reading {
			v.Set(item)
		}
	case k == reflect.Array:
		c.elements(v, depth)
	case v.Type() == tensorType:
		c.tensor(v, depth)
	case k == reflect.Struct:
		c.structure(v, depth)
	case k == reflect.Pointer, k == reflect.Slice, k == reflect.Map:
		if c.reference(v) {
			c.content(v, depth)
		}
	default:
		fail("a %v cannot be sent", v.Type())
	}
	c.nesting--
}

func (c *coder) scalar(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Bool:
		n := uint64(0)
		if v.Bool() {
			n = 1
		}
		if n = c.fixed(n, 1); n > 1 {
			fail("bool is %d, must be 0 or 1", n)
		}
		if c.reading {
			v.SetBool(n == 1)
		}
	case v.CanInt():
		n := c.varint(v.Int())
		if v.OverflowInt(n) {
			fail("%d is not a valid %v", n, v.Type())
		}
		if c.reading {
			v.SetInt(n)
		}
	case v.CanUint():
		n := c.uvarint(v.Uint())
		if v.OverflowUint(n) {
			fail("%d is not a valid %v", n, v.Type())
		}
		if c.reading {
			v.SetUint(n)
		}
	case v.CanFloat():
		f := c.float(v.Float(), int(v.Type().Size()))
		if c.reading {
			v.SetFloat(f)
		}
	default:
		s := c.counted([]byte(v.String()))
		if c.reading {
			v.SetString(string(s))
		}
	}
}

func (c *coder) float(f float64, size int) float64 {
	if size == 4 {
		return float64(math.Float32frombits(uint32(c.fixed(uint64(math.Float32bits(float32(f))), 4))))
	}
	return math.Float64frombits(c.fixed(math.Float64bits(f), 8))
}

// An object identifies a pointer, map or slice, to which several places in a value can
// refer.
type object struct {
	t     reflect.Type
	start uintptr
	len   int
}

// objectOf returns the identity of v, a pointer, map or slice that is not nil.
func objectOf(v reflect.Value) object {
	o := object{t: v.Type(), start: v.Pointer()}
	if v.Kind() == reflect.Slice {
		o.len = v.Len()
	}
	return o
}

// reference codes the reference v, a pointer, slice or map. It returns true if the
// object is new: then its content follows.
func (c *coder) reference(v reflect.Value) bool {
	n := uint64(refNil)
	if !c.reading && !v.IsNil() {
		o := objectOf(v)
		if i, again := c.objects[o]; again {
			n = refFirst + i
		} else {
			n = refNew
			if v.Kind() != reflect.Slice || v.Len() > 0 { // empty slices may have the same address
				c.objects[o] = c.refs
			}
			c.refs++
		}
	}
	n = c.uvarint(n)
	if n < refFirst || !c.reading {
		return n == refNew
	}
	if n-refFirst >= uint64(len(c.met)) {
		fail("refers to unknown object %d of %d", n-refFirst, len(c.met))
	}
	o := c.met[n-refFirst]
	if o.Type() != v.Type() {
		fail("refers to a %v, must be a %v", o.Type(), v.Type())
	}
	v.Set(o)
	return false
}

// content codes the content of a new pointer, slice or map. When reading, it stores the
// object before it reads the content, so that the object may contain itself.
func (c *coder) content(v reflect.Value, depth int) {
	t := v.Type()
	set := func(o reflect.Value) {
		v.Set(o)
		c.met = append(c.met, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if c.reading {
			c.room(t.Elem())
			set(reflect.New(t.Elem()))
		}
		c.value(v.Elem(), depth)
	case reflect.Slice:
		n := c.length(v.Len(), c.types.minSize(t.Elem()))
		if c.reading {
			set(reflect.MakeSlice(t, n, n))
		}
		c.elements(v, depth)
	case reflect.Map:
		if k := t.Key().Kind(); k != reflect.String && (k < reflect.Int || k > reflect.Uint64) {
			fail("a map key cannot be a %v: must be an integer or a string", t.Key())
		}
		n := c.length(v.Len(), c.types.minSize(t.Key())+c.types.minSize(t.Elem()))
		if c.reading {
			set(reflect.MakeMap(t))
			c.readItems(v, n, depth)
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, compareKeys) // so that a value always has the same receipt
		for _, key := range keys {
			c.scalar(key)
			c.at(keyStep(key), v.MapIndex(key), depth+1)
		}
	}
}

func (c *coder) readItems(v reflect.Value, n, depth int) {
	var last reflect.Value
	for range n {
		key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		c.scalar(key)
		if last.IsValid() && compareKeys(last, key) >= 0 {
			fail("map key %v is out of order after %v", key, last)
		}
		c.at(keyStep(key), item, depth+1)
		v.SetMapIndex(key, item)
		last = key
	}
}

func (c *coder) elements(v reflect.Value, depth int) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		if v.Kind() == reflect.Array {
			v = addressable(v)
		}
		c.bytes(v.Bytes())
	} else {
		for i := range v.Len() {
			c.at(step{index: i}, v.Index(i), depth+1)
		}
	}
	if v.Len() == 0 && v.Kind() == reflect.Array {
		c.fixed(0, 1)
	}
}

// addressable returns v, or a copy of it if v has no address.
func addressable(v reflect.Value) reflect.Value {
	if v.CanAddr() {
		return v
	}
	a := reflect.New(v.Type()).Elem()
	a.Set(v)
	return a
}

func (c *coder) structure(v reflect.Value, depth int) {
	s := c.types.structure(v.Type())
	switch {
	case s.custom:
		c.custom(addressable(v).Addr().Interface())
		return
	case s.refused != "":
		c.path = append(c.path, step{name: s.refused, index: -1})
		fail("the field is unexported, and %v does not implement encoding.BinaryMarshaler and BinaryUnmarshaler", v.Type())
	case len(s.fields) == 0:
		c.fixed(0, 1)
	}
	for _, f := range s.fields {
		c.at(step{name: f.name, index: -1}, v.Field(f.index), depth+1)
	}
}

// custom codes a struct that marshals itself; pointer is its address.
func (c *coder) custom(pointer any) {
	var b []byte
	var err error
	if c.reading {
		err = pointer.(encoding.BinaryUnmarshaler).UnmarshalBinary(c.counted(nil))
	} else if b, err = pointer.(encoding.BinaryMarshaler).MarshalBinary(); err == nil {
		c.counted(b)
	}
	if err != nil {
		panic(failure{err})
	}
}
