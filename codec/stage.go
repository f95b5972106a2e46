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

// A stage turns words into others and back. One goroutine at a time uses it, and
// its scratch memory is its own.
type stage interface {
	// takes returns what the stage makes of words like in, or why it takes none of
	// them. The error continues "kc=8 ", as in "wants floats, not i64".
	takes(in words) (out words, err error)

	// encode writes what it makes of cur, words like in, to dst and returns how many
	// bytes that is. It must not write beyond dst: if dst is too small, or these
	// numbers are better sent plain, it returns errPlain, as soon as it knows. Base is
	// as long as cur if the stage has kind.base, and else nil.
	encode(dst, base, cur []byte, in words) (int, error)

	// decode is the inverse: it writes words like in to dst and returns how many bytes
	// that is. src is untrusted. Dst has in.bytes bytes and may be base. On an error
	// dst may be written in part.
	decode(dst, base, src []byte, in words) (int, error)
}

// Words are what a stage takes or makes: so many bytes of elements of one type.
// If no stage may follow but zstd, the type is U8 and bytes is a limit.
type words struct {
	dtype tensor.DType
	bytes int
}

// opaque are at most n bytes, made from words of n bytes: a larger encoding is
// not wanted.
func opaque(n int) words { return words{tensor.U8, n} }

// errPlain says that a tensor is better sent plain.
var errPlain = errors.New("does not get smaller")

// A place is where a stage may stand: they come in this order, one of each at
// most.
type place int

const (
	pick  place = iota // of some words: the others are those of the base
	round              // to fewer bits
	delta              // from the base
	plane              // of bytes
	pack               // of bytes in general
)

// A kind is what is known of a stage before there is one.
type kind struct {
	name  string
	arg   string  // of its parameter: "" has none, P is a percentage, N a whole number
	least float64 // parameter
	most  float64
	place place
	lossy bool
	base  bool                     // uses the base
	ends  bool                     // makes bytes of which only zstd makes sense
	then  string                   // the stage that follows if none stands in that one's place
	bound func(tensor.DType) Bound // of the error, if it is lossy and has one
	make  func(value float64) stage
}

// kinds are all stages, in the order of help.
var kinds = []*kind{
	{name: "sparse", place: delta, base: true, ends: true, make: func(float64) stage { return &sparse{} }},
	{name: "gaps", place: delta, base: true, ends: true, make: func(float64) stage { return &gaps{} }},
	{name: "xor", place: delta, base: true, then: "zstd", make: func(float64) stage { return xor{} }},
	{name: "shuffle", place: plane, then: "zstd", make: func(float64) stage { return shuffle{} }},
	{name: "zstd", place: pack, ends: true, make: func(float64) stage { return &zstd{} }},
	{name: "bf16", place: round, lossy: true, bound: boundBF16, make: func(float64) stage { return bf16{} }},
	{name: "int8", place: round, lossy: true, ends: true, bound: boundInt8, make: func(float64) stage { return &absmax{} }},
	{name: "topk", arg: "P", place: pick, lossy: true, base: true, then: "gaps", make: newTopK},
	{name: "kc", arg: "N", least: 2, most: 256, place: round, lossy: true, ends: true, then: "zstd", make: newKC},
	{name: "stc", arg: "P", place: round, lossy: true, base: true, ends: true, then: "zstd", make: newSTC},
	{name: "skc", place: round, lossy: true, base: true, ends: true, then: "zstd", make: newSKC},
}

// kindOf returns the kind of that name, or nil.
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

// order says where stages may stand, for errors.
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

// usage returns how the stage is written: "kc=N".
func (k *kind) usage() string {
	if k.arg == "" {
		return k.name
	}
	return k.name + "=" + k.arg
}

// parse reads the parameter.
func (k *kind) parse(arg string) (float64, error) {
	number, percent := strings.CutSuffix(arg, "%")
	v, err := strconv.ParseFloat(number, 64)
	if k.arg == "P" {
		if err != nil || !percent || !(v > 0 && v <= 100) {
			return 0, fmt.Errorf("want a percentage above 0%% and up to 100%%, as in %s=1%%", k.name)
		}
		return v, nil
	}
	if err != nil || percent || v != math.Trunc(v) || v < k.least || v > k.most {
		return 0, fmt.Errorf("want a whole number from %v to %v, as in %s=16", k.least, k.most, k.name)
	}
	return v, nil
}
