package receipt

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/zeebo/xxh3"
)

// Writer and reader of a receipt must have the same types compiled in, because a receipt
// does not describe types. It has a type's name and fingerprint only at the root and in
// interfaces, where the type is not known from the context.

var (
	tensorType      = reflect.TypeFor[Tensor]()
	marshalerType   = reflect.TypeFor[encoding.BinaryMarshaler]()
	unmarshalerType = reflect.TypeFor[encoding.BinaryUnmarshaler]()
)

// types caches facts about types during one Detach or Attach.
type types struct {
	structures map[reflect.Type]*structure
	catalog    map[string][]reflect.Type // set by list
}

func newTypes() types { return types{structures: map[reflect.Type]*structure{}} }

// A structure is the encoding of a struct type.
type structure struct {
	fields  []field
	custom  bool   // it has unexported fields and marshals itself
	refused string // an unexported field, if it has one and does not marshal itself
	size    int    // of its smallest encoding, in bytes
}

type field struct {
	name  string
	index int
}

// structure returns the encoding of the struct type t.
func (x *types) structure(t reflect.Type) *structure {
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

// minSize returns the size of the smallest encoding of a value of type t. It limits the
// memory that a receipt can make the reader allocate.
func (x *types) minSize(t reflect.Type) int {
	switch k := t.Kind(); {
	case k == reflect.Float32, k == reflect.Float64:
		return int(t.Size())
	case k == reflect.Array:
		return max(1, t.Len()*x.minSize(t.Elem()))
	case k == reflect.Struct && t != tensorType:
		return x.structure(t).size
	}
	return 1
}

// isScalar reports whether values of kind k contain no other values.
func isScalar(k reflect.Kind) bool {
	return k >= reflect.Bool && k <= reflect.Float64 && k != reflect.Uintptr || k == reflect.String
}

// compareKeys orders map keys, which must be integers or strings of one type.
func compareKeys(a, b reflect.Value) int {
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.String(), b.String())
}

// fingerprint returns a digest of everything that determines the encoding of type t,
// except the contents of interfaces. Two programs with the same fingerprint can read
// each other's values.
func (x *types) fingerprint(t reflect.Type) uint64 {
	var b strings.Builder
	x.describe(&b, t, map[reflect.Type]int{})
	return xxh3.HashString(b.String())
}

func (x *types) describe(b *strings.Builder, t reflect.Type, seen map[reflect.Type]int) {
	if n, again := seen[t]; again {
		fmt.Fprintf(b, "#%d", n)
		return
	}
	seen[t] = len(seen)
	fmt.Fprintf(b, "%s.%s %v", t.PkgPath(), t.Name(), t.Kind())
	switch t.Kind() {
	case reflect.Map:
		x.describe(b, t.Key(), seen)
		x.describe(b, t.Elem(), seen)
	case reflect.Array:
		fmt.Fprintf(b, "%d", t.Len())
		x.describe(b, t.Elem(), seen)
	case reflect.Pointer, reflect.Slice:
		x.describe(b, t.Elem(), seen)
	case reflect.Struct:
		s := x.structure(t)
		fmt.Fprintf(b, "{%v ", s.custom)
		for _, f := range s.fields {
			b.WriteString(f.name + " ")
			x.describe(b, t.Field(f.index).Type, seen)
		}
		b.WriteByte('}')
	}
}

// list sets the catalog: by name, the types that an interface inside a value of type
// root may hold.
func (x *types) list(root reflect.Type, known []any) {
	x.catalog = map[string][]reflect.Type{}
	seen := map[reflect.Type]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		if seen[t] || t.Kind() == reflect.Interface {
			return
		}
		seen[t] = true
		x.catalog[t.String()] = append(x.catalog[t.String()], t)
		if t.PkgPath() != "" {
			add(reflect.PointerTo(t))
		}
		switch t.Kind() {
		case reflect.Map:
			add(t.Key())
			add(t.Elem())
		case reflect.Pointer, reflect.Slice, reflect.Array:
			add(t.Elem())
		case reflect.Struct:
			for _, f := range x.structure(t).fields {
				add(t.Field(f.index).Type)
			}
		}
	}
	for _, v := range []any{
		false, "", 0, int8(0), int16(0), int32(0), int64(0), uint(0), uint8(0), uint16(0), uint32(0), uint64(0),
		float32(0), 0.0, Tensor{}, (*Tensor)(nil),
	} {
		t := reflect.TypeOf(v)
		add(t)
		add(reflect.SliceOf(t))
		add(reflect.MapOf(reflect.TypeFor[string](), t))
	}
	add(reflect.TypeFor[[]any]())
	add(reflect.TypeFor[map[string]any]())
	add(root)
	for _, v := range known {
		if v != nil {
			add(reflect.TypeOf(v))
		}
	}
}
