package tensor

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
)

// A decoder reads what an encoder wrote: see there for the encoding.
type decoder struct {
	types   types
	in      []byte       // what was not read yet
	outer   reflect.Type // of the variable
	p       *Package
	used    []bool // tensors of p that have a place
	known   []any
	objects []reflect.Value // pointers, slices and maps, each in the place where it was met first
	inlined []Tensor
	named   []reflect.Type
	catalog map[string]reflect.Type // made when an interface asks for it
	nesting int
	path    path
}

var (
	errShort = errors.New("the receipt is cut off")
	errNaN   = errors.New("NaN is a map key")
)

// root reads the whole receipt into the variable that into points to.
func (d *decoder) root(into any) error {
	variable := reflect.ValueOf(into)
	if variable.Kind() != reflect.Pointer || variable.IsNil() {
		return fmt.Errorf("a %T is no place to store a value: want a pointer", into)
	}
	variable = variable.Elem()
	d.types, d.outer = newTypes(), variable.Type()
	if version, err := d.bytes(1); err != nil || version[0] != receiptVersion {
		return fmt.Errorf("not a receipt of version %d", receiptVersion)
	}
	result, err := d.dynamic(d.outer)
	if err != nil {
		return err
	}
	if len(d.in) > 0 {
		return fmt.Errorf("%d bytes behind the end of the value", len(d.in))
	}
	if i := slices.Index(d.used, false); i >= 0 {
		return fmt.Errorf("tensor %d of the package (%q) has no place in the value", i, d.p.layout.Spec(i).Name)
	}
	variable.Set(result)
	return nil
}

// dynamic reads a type and a value of it, for a place of type t.
func (d *decoder) dynamic(t reflect.Type) (reflect.Value, error) {
	n, err := d.uvarint()
	if err != nil {
		return reflect.Value{}, err
	}
	var concrete reflect.Type
	switch {
	case n == refNil && t.Kind() == reflect.Interface:
		return reflect.Zero(t), nil
	case n == refNil:
		return reflect.Value{}, fmt.Errorf("the receipt holds nil, the variable is a %v", t)
	case n == refNew:
		if concrete, err = d.newType(t); err != nil {
			return reflect.Value{}, err
		}
		d.named = append(d.named, concrete)
	case n-refFirst < uint64(len(d.named)):
		concrete = d.named[n-refFirst]
	default:
		return reflect.Value{}, fmt.Errorf("type %d of %d", n-refFirst, len(d.named))
	}
	if !concrete.AssignableTo(t) {
		return reflect.Value{}, fmt.Errorf("a %v where a %v stands", concrete, t)
	}
	v := reflect.New(concrete).Elem()
	return v, d.value(v)
}

// newType reads the name and the fingerprint of a type for a place of type t.
func (d *decoder) newType(t reflect.Type) (reflect.Type, error) {
	name, err := d.counted()
	if err != nil {
		return nil, err
	}
	print, err := d.bytes(8)
	if err != nil {
		return nil, err
	}
	concrete := t
	if t.Kind() == reflect.Interface || string(name) != typeName(t) {
		if d.catalog == nil {
			d.catalog = d.types.catalog(d.outer, d.known)
		}
		if concrete = d.catalog[string(name)]; concrete == nil {
			return nil, fmt.Errorf("type %q is not known here, or by two: give Attach a value of it", name)
		}
	}
	if binary.LittleEndian.Uint64(print) != d.types.fingerprint(concrete) {
		return nil, fmt.Errorf("type %q is not the same here", name)
	}
	return concrete, nil
}

// bytes reads n bytes. They are the receipt's memory.
func (d *decoder) bytes(n uint64) ([]byte, error) {
	if n > uint64(len(d.in)) {
		return nil, errShort
	}
	b := d.in[:n]
	d.in = d.in[n:]
	return b, nil
}

// counted reads a length and as many bytes.
func (d *decoder) counted() ([]byte, error) {
	n, err := d.uvarint()
	if err != nil {
		return nil, err
	}
	return d.bytes(n)
}

func (d *decoder) uvarint() (uint64, error) {
	n, size := binary.Uvarint(d.in)
	if size <= 0 {
		return 0, errShort
	}
	d.in = d.in[size:]
	return n, nil
}

// length reads the length of a slice or a map whose elements take at least min
// bytes each, and refuses one for which the receipt is too short, before any
// memory is asked for.
func (d *decoder) length(min int) (int, error) {
	n, err := d.uvarint()
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt || min > 0 && n > uint64(len(d.in)/min) {
		return 0, fmt.Errorf("length %d: %w", n, errShort)
	}
	return int(n), nil
}

func (d *decoder) at(s step, v reflect.Value) error {
	d.path = append(d.path, s)
	if err := d.value(v); err != nil {
		return err // and leave the path, for whoever reports the error
	}
	d.path = d.path[:len(d.path)-1]
	return nil
}

// value reads v, which must be settable and zero.
func (d *decoder) value(v reflect.Value) error {
	if isScalar(v.Kind()) {
		return d.scalar(v)
	}
	if d.nesting++; d.nesting > maxNesting {
		return fmt.Errorf("nested more than %d deep", maxNesting)
	}
	err := d.composite(v)
	d.nesting--
	return err
}

func (d *decoder) composite(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return d.reference(v)
	case reflect.Interface:
		item, err := d.dynamic(v.Type())
		if err == nil {
			v.Set(item)
		}
		return err
	case reflect.Array:
		return d.elements(v)
	case reflect.Struct:
		if v.Type() == tensorType {
			return d.tensor(v)
		}
		return d.structure(v)
	}
	return fmt.Errorf("a %v cannot travel", v.Type())
}

func (d *decoder) scalar(v reflect.Value) error {
	switch k := v.Kind(); {
	case k == reflect.Bool:
		b, err := d.bytes(1)
		if err != nil {
			return err
		}
		if b[0] > 1 {
			return fmt.Errorf("bool is %d, want 0 or 1", b[0])
		}
		v.SetBool(b[0] == 1)
	case v.CanInt():
		n, size := binary.Varint(d.in)
		if size <= 0 {
			return errShort
		}
		if v.OverflowInt(n) {
			return fmt.Errorf("%d is no %v", n, v.Type())
		}
		d.in = d.in[size:]
		v.SetInt(n)
	case v.CanUint():
		n, err := d.uvarint()
		if err != nil {
			return err
		}
		if v.OverflowUint(n) {
			return fmt.Errorf("%d is no %v", n, v.Type())
		}
		v.SetUint(n)
	case v.CanFloat():
		f, err := d.float(v.Type().Size())
		if err != nil {
			return err
		}
		v.SetFloat(f)
	case v.CanComplex():
		re, err := d.float(v.Type().Size() / 2)
		if err != nil {
			return err
		}
		im, err := d.float(v.Type().Size() / 2)
		if err != nil {
			return err
		}
		v.SetComplex(complex(re, im))
	default:
		b, err := d.counted()
		if err != nil {
			return err
		}
		v.SetString(string(b))
	}
	return nil
}

func (d *decoder) float(size uintptr) (float64, error) {
	b, err := d.bytes(uint64(size))
	if err != nil {
		return 0, err
	}
	if size == 4 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))), nil
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b)), nil
}

// reference reads a pointer, slice or map. A new one is remembered before its
// content is read, so that it may contain itself.
func (d *decoder) reference(v reflect.Value) error {
	n, err := d.uvarint()
	switch {
	case err != nil || n == refNil:
		return err
	case n != refNew:
		if n-refFirst >= uint64(len(d.objects)) {
			return fmt.Errorf("refers to object %d of %d", n-refFirst, len(d.objects))
		}
		o := d.objects[n-refFirst]
		if o.Type() != v.Type() {
			return fmt.Errorf("refers to a %v where a %v stands", o.Type(), v.Type())
		}
		v.Set(o)
		return nil
	}
	switch t := v.Type(); v.Kind() {
	case reflect.Pointer:
		if len(d.in) < d.types.minSize(t.Elem()) {
			return errShort
		}
		v.Set(reflect.New(t.Elem()))
		d.objects = append(d.objects, v)
		return d.value(v.Elem())
	case reflect.Slice:
		n, err := d.length(d.types.minSize(t.Elem()))
		if err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(t, n, n))
		d.objects = append(d.objects, v)
		return d.elements(v)
	default:
		return d.mapping(v)
	}
}

// elements reads the elements of a slice or an array.
func (d *decoder) elements(v reflect.Value) error {
	elem := v.Type().Elem()
	switch {
	case elem.Kind() == reflect.Uint8:
		b, err := d.bytes(uint64(v.Len()))
		if err != nil {
			return err
		}
		copy(v.Bytes(), b)
		return nil
	case isScalar(elem.Kind()):
		for i := range v.Len() {
			if err := d.scalar(v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	case d.types.minSize(elem) == 0:
		return nil // however many there are
	}
	for i := range v.Len() {
		if err := d.at(step{index: i}, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) mapping(v reflect.Value) error {
	t := v.Type()
	if err := d.types.keyError(t.Key()); err != nil {
		return err
	}
	n, err := d.length(d.types.minSize(t.Key()) + d.types.minSize(t.Elem()))
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMap(t))
	d.objects = append(d.objects, v)
	var last reflect.Value
	for range n {
		key, item := reflect.New(t.Key()).Elem(), reflect.New(t.Elem()).Elem()
		if err := d.value(key); err != nil {
			return err
		}
		if last.IsValid() && compareKeys(last, key) >= 0 {
			return fmt.Errorf("map key %v does not follow %v", key, last)
		}
		if err := d.at(keyStep(key), item); err != nil {
			return err
		}
		v.SetMapIndex(key, item)
		if !v.MapIndex(key).IsValid() {
			return errNaN
		}
		last = key
	}
	return nil
}

func (d *decoder) structure(v reflect.Value) error {
	s := d.types.structure(v.Type())
	if s.custom {
		b, err := d.counted()
		if err != nil {
			return err
		}
		return v.Addr().Interface().(encoding.BinaryUnmarshaler).UnmarshalBinary(b)
	}
	if s.refused != "" {
		return fmt.Errorf("a %v cannot travel: its field %s is unexported", v.Type(), s.refused)
	}
	if len(s.fields) == 0 {
		_, err := d.bytes(1)
		return err
	}
	for _, f := range s.fields {
		if err := d.at(step{name: f.name, index: -1}, v.Field(f.index)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) tensor(v reflect.Value) error {
	n, err := d.uvarint()
	if err != nil {
		return err
	}
	var t Tensor
	switch {
	case n == tensorNone:
		return nil
	case n == tensorHandle:
		t, err = d.handle()
	case n == tensorData:
		t, err = d.data()
		d.inlined = append(d.inlined, t)
	case n-tensorOld < uint64(len(d.inlined)):
		t = d.inlined[n-tensorOld]
		t.Shape = slices.Clone(t.Shape)
	default:
		err = fmt.Errorf("refers to tensor %d of %d in the receipt", n-tensorOld, len(d.inlined))
	}
	if err == nil {
		v.Set(reflect.ValueOf(t))
	}
	return err
}

// handle reads a handle and returns its tensor, a view of the package.
func (d *decoder) handle() (Tensor, error) {
	b, err := d.bytes(handleSize)
	if err != nil {
		return Tensor{}, err
	}
	var h Handle
	if err := h.UnmarshalBinary(b); err != nil {
		return Tensor{}, err
	}
	if uint64(h.Index) >= uint64(d.p.Len()) {
		return Tensor{}, fmt.Errorf("tensor %d of a package of %d", h.Index, d.p.Len())
	}
	i := int(h.Index)
	s := d.p.layout.Spec(i)
	if h != newHandle(i, s) {
		return Tensor{}, fmt.Errorf("tensor %d is %v %v in the package, and not what the receipt was made for", i, s.DType, s.Shape)
	}
	d.used[i] = true
	return Tensor{DType: s.DType, Shape: slices.Clone(s.Shape), Data: d.p.View(i)}, nil
}

// data reads a tensor that was left in the receipt.
func (d *decoder) data() (Tensor, error) {
	b, err := d.bytes(1)
	if err != nil {
		return Tensor{}, err
	}
	t := Tensor{DType: DType(b[0])}
	rank, err := d.length(1)
	if err != nil {
		return Tensor{}, err
	}
	for range rank {
		n, err := d.uvarint()
		if err != nil {
			return Tensor{}, err
		}
		if n > math.MaxInt {
			return Tensor{}, fmt.Errorf("dimension %d is too large", n)
		}
		t.Shape = append(t.Shape, int(n))
	}
	n, err := t.spec("tensor").Bytes()
	if err != nil {
		return Tensor{}, err
	}
	if b, err = d.bytes(uint64(n)); err != nil {
		return Tensor{}, err
	}
	t.Data = make([]byte, n) // aligned, unlike the receipt
	copy(t.Data, b)
	return t, nil
}
