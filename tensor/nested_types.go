package tensor

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zeebo/xxh3"
)

// A receipt is written and read by types that both sides have compiled in; it
// holds no descriptions of them. Where a value's type is not known from its
// place, at the root and in interfaces, it has the type's name and fingerprint.

var (
	tensorType      = reflect.TypeFor[Tensor]()
	marshalerType   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// types remembers what was found out about types in one Detach or Attach.
type types struct {
	structures map[reflect.Type]*structure
	holders    map[reflect.Type]bool // answers of mayHold
}

func newTypes() types {
	return types{map[reflect.Type]*structure{}, map[reflect.Type]bool{}}
}

// A structure is what there is to know about a struct type.
type structure struct {
	fields  []field
	custom  bool   // it has unexported fields and marshals itself
	refused string // an unexported field, if it does not
	size    int    // of its smallest encoding; at least 1
}

type field struct {
	name  string
	index int
}

// structure returns what there is to know about the struct type t.
func (x types) structure(t reflect.Type) *structure {
	if s := x.structures[t]; s != nil {
		return s
	}
	s := &structure{}
	x.structures[t] = s
	for i := range t.NumField() {
		switch f := t.Field(i); {
		case f.Name == "_":
		case !f.IsExported():
			s.refused = f.Name
		default:
			s.fields = append(s.fields, field{f.Name, i})
			s.size += x.minSize(f.Type)
		}
	}
	if pointer := reflect.PointerTo(t); s.refused != "" && pointer.Implements(marshalerType) && pointer.Implements(unmarshalerType) {
		*s = structure{custom: true}
	}
	s.size = max(s.size, 1)
	return s
}

// minSize returns the size of the smallest encoding of a value of type t. It
// bounds the memory that a length in a receipt can ask for.
func (x types) minSize(t reflect.Type) int {
	switch t.Kind() {
	case reflect.Float32:
		return 4
	case reflect.Float64, reflect.Complex64:
		return 8
	case reflect.Complex128:
		return 16
	case reflect.Array:
		return t.Len() * x.minSize(t.Elem())
	case reflect.Struct:
		if t == tensorType {
			return 1
		}
		return x.structure(t).size
	}
	return 1
}

// mayHold reports whether there may be a tensor in a value of type t. Where types
// refer to themselves it says yes.
func (x types) mayHold(t reflect.Type) bool {
	holds, known := x.holders[t]
	if !known {
		holds = x.search(t, nil)
		x.holders[t] = holds
	}
	return holds
}

// search answers mayHold for a type that occurs inside others.
func (x types) search(t reflect.Type, inside []reflect.Type) bool {
	if t == tensorType || t.Kind() == reflect.Interface || slices.Contains(inside, t) {
		return true
	}
	inside = append(inside, t)
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return x.search(t.Elem(), inside)
	case reflect.Struct:
		for _, f := range x.structure(t).fields {
			if x.search(t.Field(f.index).Type, inside) {
				return true
			}
		}
	}
	return false
}

// isScalar reports whether values of kind k are written without looking further.
func isScalar(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Complex128 && k != reflect.Uintptr || k == reflect.String
}

// keyError reports why values of type t, as keys of a map, cannot be written in
// an order that depends on nothing but themselves.
func (x types) keyError(t reflect.Type) error {
	switch {
	case isScalar(t.Kind()):
		return nil
	case t.Kind() == reflect.Array:
		return x.keyError(t.Elem())
	case t.Kind() == reflect.Struct && x.structure(t).refused == "" && !x.structure(t).custom:
		for _, f := range x.structure(t).fields {
			if err := x.keyError(t.Field(f.index).Type); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a map key cannot be a %v", t)
}

// compareKeys orders keys of one type that keyError has nothing against.
func compareKeys(a, b reflect.Value) int {
	switch k := a.Kind(); {
	case k == reflect.Bool:
		if a.Bool() == b.Bool() {
			return 0
		} else if b.Bool() {
			return -1
		}
		return 1
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.CanComplex():
		c, d := a.Complex(), b.Complex()
		return cmp.Or(cmp.Compare(real(c), real(d)), cmp.Compare(imag(c), imag(d)))
	case k == reflect.String:
		return cmp.Compare(a.String(), b.String())
	case k == reflect.Array:
		for i := range a.Len() {
			if c := compareKeys(a.Index(i), b.Index(i)); c != 0 {
				return c
			}
		}
	case k == reflect.Struct:
		for i := range a.NumField() {
			if c := compareKeys(a.Field(i), b.Field(i)); c != 0 {
				return c
			}
		}
	}
	return 0
}

// typeName returns the name of t that both sides use: with the whole path of the
// package, unlike t.String.
func typeName(t reflect.Type) string {
	switch {
	case t.Name() != "" && t.PkgPath() == "":
		return t.Name()
	case t.Name() != "":
		return t.PkgPath() + "." + t.Name()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + typeName(t.Elem())
	case reflect.Slice:
		return "[]" + typeName(t.Elem())
	case reflect.Array:
		return "[" + strconv.Itoa(t.Len()) + "]" + typeName(t.Elem())
	case reflect.Map:
		return "map[" + typeName(t.Key()) + "]" + typeName(t.Elem())
	}
	return t.String()
}

// fingerprint returns a digest of everything that decides how values of type t
// are written, except what interfaces hold. Two programs with the same
// fingerprint read each other's values.
func (x types) fingerprint(t reflect.Type) uint64 {
	var b strings.Builder
	x.describe(&b, t, map[reflect.Type]int{})
	return xxh3.HashString(b.String())
}

func (x types) describe(b *strings.Builder, t reflect.Type, seen map[reflect.Type]int) {
	if n, again := seen[t]; again {
		fmt.Fprintf(b, "#%d", n)
		return
	}
	seen[t] = len(seen)
	fmt.Fprintf(b, "%s %v", typeName(t), t.Kind())
	switch t.Kind() {
	case reflect.Map:
		b.WriteByte('[')
		x.describe(b, t.Key(), seen)
		b.WriteByte(']')
		x.describe(b, t.Elem(), seen)
	case reflect.Pointer, reflect.Slice, reflect.Array:
		b.WriteByte(' ')
		x.describe(b, t.Elem(), seen)
	case reflect.Struct:
		if t == tensorType {
			return
		}
		s := x.structure(t)
		fmt.Fprintf(b, "{%v ", s.custom)
		for _, f := range s.fields {
			b.WriteString(f.name + " ")
			x.describe(b, t.Field(f.index).Type, seen)
			b.WriteByte(';')
		}
		b.WriteByte('}')
	}
}

// predeclared are the types that an interface may always hold.
var predeclared = sync.OnceValue(func() []reflect.Type {
	elems := []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint](), reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
		reflect.TypeFor[float32](), reflect.TypeFor[float64](), reflect.TypeFor[complex64](), reflect.TypeFor[complex128](),
		reflect.TypeFor[any](), tensorType, reflect.TypeFor[*Tensor](),
	}
	all := slices.Clone(elems)
	for _, t := range elems {
		all = append(all, reflect.SliceOf(t), reflect.MapOf(reflect.TypeFor[string](), t))
	}
	return all
})

// catalog returns the types that an interface inside a value of type root may
// hold, by name. A name that two types share stands for neither.
func (x types) catalog(root reflect.Type, known []any) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	seen := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if seen[t] || t.Kind() == reflect.Interface {
			return
		}
		seen[t] = true
		name := typeName(t)
		if _, taken := all[name]; taken {
			all[name] = nil
		} else {
			all[name] = t
		}
		if t.Name() != "" && t.PkgPath() != "" {
			add(reflect.PointerTo(t))
		}
		switch t.Kind() {
		case reflect.Map:
			add(t.Key())
			add(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			add(t.Elem())
		case reflect.Struct:
			if t == tensorType {
				return
			}
			for _, f := range x.structure(t).fields {
				add(t.Field(f.index).Type)
			}
		}
	}
	for _, t := range predeclared() {
		add(t)
	}
	add(root)
	for _, v := range known {
		if v != nil {
			add(reflect.TypeOf(v))
		}
	}
	return all
}
