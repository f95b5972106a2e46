// Package receipt splits a Go value into a receipt and tensors, and rebuilds it elsewhere.
//
// [Detach] finds the tensors, and writes everything else to the receipt, with a handle
// in place of each tensor. [Detached.CopyTo] stores both in a package, which a transport
// carries. [Attach] rebuilds the value; its tensors are views of the package.
package receipt

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"ipcbench/tensor"
)

// DefaultDepth is the default of the depth to which Detach looks for tensors.
const DefaultDepth = 10

// maxNesting limits the nesting of any value, counting every pointer and interface. It
// bounds the stack, because receipts may come from hostile processes.
const maxNesting = 10_000

// Detached is a value that was split into a receipt and tensors.
type Detached struct {
	// Receipt holds everything that is not a tensor, with a handle in place of each
	// tensor.
	Receipt []byte

	// Specs describe the tensors in the order of their handles. Each is named after the
	// path at which it was found first, such as "layers[3].weight".
	Specs []tensor.Spec

	// Data is the memory of the tensors. It is the value's own memory, not a copy.
	Data [][]byte

	// Untouched are the paths of tensors below the depth limit. They stay inside the
	// receipt.
	Untouched []string
}

// Detach splits v. It looks for values of type [Tensor] in structs, maps, slices,
// arrays, pointers and interfaces, and does not change v.
//
// A tensor at or above the given depth is detached; a deeper one stays in the receipt
// and is listed in Untouched. v itself is at depth 0. Each struct, map, slice and array
// around a tensor adds one; pointers and interfaces add nothing. A tensor found in
// several places has the smallest of their depths.
//
// [Attach] restores sharing within v: pointers, maps and slices that are the same, and
// tensors with the same memory, type and shape, which travel once. So v may contain
// itself. A pointer to a part of something else in v becomes a pointer to a copy of that
// part.
//
// A value always gives the same receipt: maps are sorted by key.
//
// Detach fails on values that cannot be rebuilt in another process, and the error has
// the path. Such values are functions, channels, uintptrs, unsafe pointers, complex
// numbers, and maps whose keys are not integers or strings. Structs with unexported
// fields fail, too, unless they implement [encoding.BinaryMarshaler] and
// [encoding.BinaryUnmarshaler], which then replace the encoding of all fields. Blank
// fields are omitted.
func Detach(v any, depth int) (*Detached, error) {
	c := &coder{
		types: newTypes(), limit: depth, handles: map[block]uint32{}, objects: map[object]uint64{}, d: &Detached{},
	}
	c.near = c.reach(v)
	if err := c.run(func() { c.root(reflect.ValueOf(v)) }); err != nil {
		return nil, fmt.Errorf("receipt: detach: %w", err)
	}
	c.d.Receipt = c.buf
	return c.d, nil
}

// CopyTo copies the tensors to p and sets p's receipt. p must have tensors of the same
// types and shapes in the same order; their names may differ. A tensor that is in its
// place in p already is not copied, as in a value that was attached to p and changed in
// place.
func (d *Detached) CopyTo(p *tensor.Package) error {
	if len(d.Specs) != p.Len() {
		return fmt.Errorf("receipt: copy %d tensors to a package of %d", len(d.Specs), p.Len())
	}
	low, high := uintptr(math.MaxUint), uintptr(0) // address range of p's tensors
	for i, s := range d.Specs {
		want := p.Layout().Spec(i)
		if s.DType != want.DType || want.Var || !slices.Equal(s.Shape, want.Shape) {
			return fmt.Errorf("receipt: copy %s: it is %v %v, but the package has %v %v at %d",
				s.Name, s.DType, s.Shape, want.DType, want.Shape, i)
		}
		if start := address(p.View(i)); start != 0 {
			low, high = min(low, start), max(high, start+uintptr(len(p.View(i))))
		}
	}
	data := slices.Clone(d.Data)
	for i, b := range data {
		switch start := address(b); {
		case start == address(p.View(i)):
			data[i] = nil
		case start < high && start+uintptr(len(b)) > low:
			data[i] = bytes.Clone(b) // it may overlap another tensor's place
		}
	}
	for i, b := range data {
		copy(p.View(i), b)
	}
	p.Receipt = d.Receipt
	return nil
}

// address returns the address of b's first byte, for comparisons only, and 0 if b is
// empty. It does not keep b alive: the caller must.
func address(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	return reflect.ValueOf(&b[0]).Pointer()
}

// Attach rebuilds the value that [Detach] split, and stores it in the variable that into
// points to. The variable must have the type of Detach's value, or an interface type that
// this type implements. The tensors are views of p's memory, not copies, so they are valid
// as long as p is.
//
// Receipts come from other processes, so everything in them is checked. If Attach fails, it
// does not change the variable.
//
// An interface in the value may hold:
//   - any predeclared type that can be detached, slices of them, and maps from string to them,
//   - tensors,
//   - the types that occur in the variable's type, and pointers to them,
//   - the types of the values in known.
func Attach(receipt []byte, p *tensor.Package, into any, known ...any) error {
	variable := reflect.ValueOf(into)
	if variable.Kind() != reflect.Pointer || variable.IsNil() {
		return fmt.Errorf("receipt: attach: cannot store a value in a %T: must be a pointer", into)
	}
	variable = variable.Elem()
	c := &coder{
		types: newTypes(), reading: true, buf: receipt, p: p, used: make([]bool, p.Len()), outer: variable.Type(), known: known,
	}
	if err := c.run(func() {
		v := c.root(reflect.Value{})
		if i := slices.Index(c.used, false); i >= 0 {
			fail("tensor %d of the package (%q) has no place in the value", i, p.Layout().Spec(i).Name)
		}
		variable.Set(v)
	}); err != nil {
		return fmt.Errorf("receipt: attach: %w", err)
	}
	return nil
}

// A path is the location of an item in a value.
type path []step

// A step is one field, key or index of a path.
type step struct {
	name  string // name of a field or, as text, a key
	index int    // of an element; -1 if the step has a name
}

// keyStep returns the step to the item with key k. A string key is written like a field.
func keyStep(k reflect.Value) step {
	if k.Kind() == reflect.String {
		return step{name: k.String(), index: -1}
	}
	return step{name: fmt.Sprintf("[%v]", k), index: -1}
}

// String returns a path such as "layers[3].weight".
func (p path) String() string {
	if len(p) == 0 {
		return "value"
	}
	const ends = 8 // steps shown at each end of a path that is too long to read
	var b strings.Builder
	for i, s := range p {
		switch {
		case len(p) > 3*ends && i == ends:
			b.WriteString("…")
		case len(p) > 3*ends && i > ends && i < len(p)-ends:
		case s.index >= 0:
			fmt.Fprintf(&b, "[%d]", s.index)
		default:
			if i > 0 && !strings.HasPrefix(s.name, "[") {
				b.WriteByte('.')
			}
			b.WriteString(s.name)
		}
	}
	return b.String()
}
