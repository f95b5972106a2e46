package codec

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
)

// A stage encodes and decodes elements. It owns scratch memory: only one goroutine may
// use it at a time.
type stage interface {
	// accepts returns the form of the stage's output for input of form in, or an error if
	// the stage does not accept such input. The error continues a text such as "kc=8 ".
	accepts(in words) (out words, err error)

	// encode writes the encoding of cur, which has form in, to dst, and returns its size
	// in bytes. dst has room for every output that is not opaque. If an opaque one does
	// not fit, or the values are better sent plain, encode returns errPlain as early as
	// possible. base is as long as cur if kind.base is set.
	encode(dst, base, cur []byte, in words) (int, error)

	// decode writes the elements of form in that src encodes to dst, and returns their
	// size in bytes. dst has in.bytes bytes and may be base. src is untrusted, but has the
	// size of the output's form unless that is opaque. An error may leave dst written in
	// part.
	decode(dst, base, src []byte, in words) (int, error)
}

// words is the form of a stage's input or output: bytes of elements of one type. An opaque
// form has no type, and bytes is an upper limit.
type words struct {
	dtype tensor.DType
	bytes int
}

// opaque returns the form of an encoding of n bytes. Longer ones are not used.
func opaque(n int) words { return words{bytes: n} }

// fits returns an error unless n bytes can have form w.
func (w words) fits(n int) error {
	if w.dtype != 0 && n != w.bytes {
		return fmt.Errorf("%d bytes instead of %d", n, w.bytes)
	}
	return nil
}

// errPlain means that a tensor should be sent plain.
var errPlain = errors.New("does not get smaller")

// A place is a position in a pipeline. Stages must have ascending places.
type place int

const (
	pick  place = iota // chooses elements and sets the others to the base's values
	round              // reduces the bits per value
	delta              // encodes the difference from the base
	plane              // groups the bytes of all elements by significance
	pack               // compresses any bytes
)

// A kind describes a stage and makes instances of it.
type kind struct {
	name  string
	arg   string  // the parameter: "" for none, P for a percentage, N for a whole number
	least float64 // smallest and largest N
	most  float64
	place place
	lossy bool
	base  bool                     // encode and decode need the base
	ends  bool                     // only zstd may follow, because the output is not elements
	then  string                   // the stage that Parse adds if its place is empty; "" for none
	bound func(tensor.DType) Bound // largest error for elements of a type; nil if the stage is lossless or has no bound
	make  func(value float64) stage
}

// fresh makes a stage without a parameter.
func fresh[S any, P interface {
	*S
	stage
}](float64) stage {
	return P(new(S))
}

// kinds lists all stages, in the order of help.
var kinds = []*kind{
	{name: "sparse", place: delta, base: true, ends: true, make: fresh[sparse]},
	{name: "gaps", place: delta, base: true, ends: true, make: fresh[gaps]},
	{name: "xor", place: delta, base: true, then: "zstd", make: fresh[xor]},
	{name: "shuffle", place: plane, then: "zstd", make: fresh[shuffle]},
	{name: "zstd", place: pack, ends: true, make: fresh[zstd]},
	{name: "bf16", place: round, lossy: true, bound: boundBF16, make: fresh[bf16]},
	{name: "int8", place: round, lossy: true, ends: true, bound: boundInt8, make: fresh[absmax]},
	{name: "topk", arg: "P", place: pick, lossy: true, base: true, then: "gaps", make: newTopK},
	{name: "kc", arg: "N", least: 2, most: 256, place: round, lossy: true, ends: true, then: "zstd", make: newKC},
	{name: "stc", arg: "P", place: round, lossy: true, base: true, ends: true, then: "zstd", make: newSTC},
	{name: "skc", place: round, lossy: true, base: true, ends: true, then: "zstd", make: newSKC},
}

// kindOf returns nil if there is no such kind.
func kindOf(name string) *kind {
	i := slices.IndexFunc(kinds, func(k *kind) bool { return k.name == name })
	if i < 0 {
		return nil
	}
	return kinds[i]
}

// leads reports whether next may follow k.
func (k *kind) leads(next *kind) bool {
	return k.place < next.place && (!k.ends || next.place == pack)
}

// order lists the permitted order of stages, for errors.
func order() string {
	var at [pack + 1][]string
	for _, k := range kinds {
		at[k.place] = append(at[k.place], k.name)
	}
	var all []string
	for _, names := range at {
		all = append(all, strings.Join(names, " or "))
	}
	return strings.Join(all, ", then ")
}

// usage returns the stage as help shows it, such as "kc=N".
func (k *kind) usage() string {
	if k.arg == "" {
		return k.name
	}
	return k.name + "=" + k.arg
}

func (k *kind) parse(arg string) (float64, error) {
	number, percent := strings.CutSuffix(arg, "%")
	v, err := strconv.ParseFloat(number, 64)
	if k.arg == "P" {
		if err != nil || !percent || !(v > 0 && v <= 100) {
			return 0, fmt.Errorf("must be a percentage above 0%% and up to 100%%, such as %s=1%%", k.name)
		}
		return v, nil
	}
	if err != nil || percent || v != math.Trunc(v) || v < k.least || v > k.most {
		return 0, fmt.Errorf("must be a whole number from %v to %v, such as %s=16", k.least, k.most, k.name)
	}
	return v, nil
}
