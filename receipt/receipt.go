// Package receipt takes any Go value with tensors nested in it apart, into a
// receipt and tensors, and puts it together again in another process.
//
// [Detach] finds the tensors and writes everything else to the receipt, with a
// handle in the place of each tensor. [Detached.CopyTo] puts both into a package,
// which a transport carries. [Attach] makes the value again; its tensors are
// views of the package.
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

// DefaultDepth is how deep Detach looks for tensors unless the user says
// otherwise.
const DefaultDepth = 10

// maxNesting is how deep a value may be nested at all, counting every pointer
// and interface. It bounds the stack, whoever made the receipt.
const maxNesting = 10_000

// Detached is a value taken apart: a receipt and tensors.
type Detached struct {
	// Receipt is everything that is not a tensor, with a handle where each tensor
	// was.
	Receipt []byte

	// Specs are the tensors in the order of their handles, named after the path
	// at which each was found first, such as "layers[3].weight".
	Specs []tensor.Spec

	// Data is the memory of the tensors: the value's own, not a copy.
	Data [][]byte

	// Untouched are the paths of tensors that lie deeper than the limit. They
	// travel inside the receipt.
	Untouched []string
}

// Detach takes v apart. It looks for values of type [Tensor] in structs, maps,
// slices, arrays, pointers and interfaces, and does not change v.
//
// A tensor at depth at most depth becomes a tensor of its own; a deeper one
// stays in the receipt and is reported. v itself is at depth 0, and each struct,
// map, slice and array around a tensor adds one; pointers and interfaces add
// nothing. A tensor that is found in several places counts where it is least deep.
//
// What is shared in v is shared again after [Attach]: pointers, maps and slices
// that are the same, and tensors with the same memory, type and shape, which
// travel once. So v may contain itself. Pointers to a part of something else in
// v become pointers to a copy of that part.
//
// A value always gives the same receipt: maps are sorted by key.
//
// Detach fails, naming the path, on what cannot be put together again in another
// process: functions, channels, uintptrs, unsafe pointers, and unexported fields,
// unless their struct implements [encoding.BinaryMarshaler] and
// [encoding.BinaryUnmarshaler], which then say what travels. Neither do complex
// numbers travel, nor maps whose keys are not integers or strings. Blank fields are
// left out.
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

// CopyTo copies the tensors to p and sets p's receipt. p must have tensors of the
// same types and shapes in the same order; its layout's names do not matter. A
// tensor that already lies in its place is left alone: a value that was attached
// to p, and changed in place, is not copied.
func (d *Detached) CopyTo(p *tensor.Package) error {
	if len(d.Specs) != p.Len() {
		return fmt.Errorf("receipt: copy %d tensors to a package of %d", len(d.Specs), p.Len())
	}
	low, high := uintptr(math.MaxUint), uintptr(0) // where p's tensors lie
	for i, s := range d.Specs {
		want := p.Layout().Spec(i)
		if s.DType != want.DType || want.Var || !slices.Equal(s.Shape, want.Shape) {
			return fmt.Errorf("receipt: copy %s: it is %v %v, the package has %v %v at %d",
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
			data[i] = bytes.Clone(b) // it may lie in another one's place
		}
	}
	for i, b := range data {
		copy(p.View(i), b)
	}
	p.Receipt = d.Receipt
	return nil
}

// address returns where b starts, as a number to compare with others, and 0 if b
// is empty. Numbers do not keep memory alive: the caller holds b.
func address(b []byte) uintptr {
	if len(b) == 0 {
		return 0
	}
	return reflect.ValueOf(&b[0]).Pointer()
}

// Attach puts together what [Detach] took apart, and stores it where into points
// to: a pointer to a variable of the type that Detach was given, or of an
// interface type that it implements. The tensors are views of p's memory, not
// copies: they are valid as long as p is.
//
// Receipts come from other processes: everything in them is checked. On an error
// the variable is left as it was.
//
// An interface may hold:
//   - any predeclared type that can travel, slices of them, and maps from string to them,
//   - tensors,
//   - the types that occur in the variable's type, and pointers to those,
//   - the types of the values in known.
func Attach(receipt []byte, p *tensor.Package, into any, known ...any) error {
	variable := reflect.ValueOf(into)
	if variable.Kind() != reflect.Pointer || variable.IsNil() {
		return fmt.Errorf("receipt: attach: a %T is no place to store a value: want a pointer", into)
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

// A path says where in a value something stands.
type path []step

// A step is a field, a key or an index.
type step struct {
	name  string // of a field or, as text, a key
	index int    // of an element; -1 if the step has a name
}

// keyStep returns the step to the item with key k: a string key looks like a
// field.
func keyStep(k reflect.Value) step {
	if k.Kind() == reflect.String {
		return step{name: k.String(), index: -1}
	}
	return step{name: fmt.Sprintf("[%v]", k), index: -1}
}

// String writes a path such as "layers[3].weight".
func (p path) String() string {
	if len(p) == 0 {
		return "value"
	}
	const ends = 8 // steps to show at each end of a path too long to read
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
