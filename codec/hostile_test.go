package codec

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// hostile are bytes that no coder makes, for a tensor like hostileSpec. A pipeline rejects each with an error that
// gives the reason. They are also seeds for fuzzing.
var hostile = []struct {
	codec, name string
	src         []byte
	want        string
}{
	{"sparse", "cut", make([]byte, 7), "not a whole number"},
	{"sparse", "falling", sparseOf(5, 3), "index 1 of 2 is 3"},
	{"sparse", "doubled", sparseOf(5, 5), "index 1 of 2 is 5"},
	{"sparse", "too large", sparseOf(5, 41), "index 1 of 2 is 41: indices must ascend and be below 41"},
	{"sparse", "as large as can be", sparseOf(1<<32 - 1), "index 0 of 1 is 4294967295"},
	{"gaps", "cut", []byte{byGaps, 0, 0, 0}, "too few"},
	{"gaps", "no form", gapsOf(2, 0, nil, 0), "unknown form 2"},
	{"gaps", "more values than bytes", gapsOf(byGaps, 3, []byte{1}, 2), "3 changed elements do not fit"},
	{"gaps", "4 billion values", gapsOf(byGaps, 1<<32-1, []byte{1}, 2), "4294967295 changed elements do not fit"},
	{"gaps", "fewer gaps", gapsOf(byGaps, 2, []byte{1}, 2), "1 gaps instead of 2"},
	{"gaps", "more gaps", gapsOf(byGaps, 1, []byte{1, 1}, 1), "1 bytes after the last gap"},
	{"gaps", "gap too large", gapsOf(byGaps, 1, []byte{41}, 1), "gap 0 of 1 leads beyond the 41 elements"},
	{"gaps", "gaps too large together", gapsOf(byGaps, 2, []byte{20, 20}, 2), "gap 1 of 2 leads beyond"},
	{"gaps", "gap after the last word", gapsOf(byGaps, 2, []byte{40, 0}, 2), "gap 1 of 2 leads beyond"},
	{"gaps", "gap that overflows", gapsOf(byGaps, 2, append([]byte{1}, binary.AppendUvarint(nil, 1<<64-1)...), 2), "gap 1 of 2 leads beyond"},
	{"gaps", "varint cut", gapsOf(byGaps, 1, []byte{0x80}, 1), "gap 0 of 1 is cut or too large"},
	{"gaps", "varint without end", gapsOf(byGaps, 1, bytes.Repeat([]byte{0x80}, 11), 1), "gap 0 of 1 is cut or too large"},
	{"gaps", "bitmap cut", gapsOf(byBitmap, 1, []byte{1, 0, 0, 0, 0}, 1), "a bitmap of 5 bytes for 41 elements"},
	{"gaps", "bitmap too long", gapsOf(byBitmap, 1, []byte{1, 0, 0, 0, 0, 0, 0}, 1), "a bitmap of 7 bytes for 41 elements"},
	{"gaps", "bitmap with more bits", gapsOf(byBitmap, 1, []byte{3, 0, 0, 0, 0, 0}, 1), "more bits than 1"},
	{"gaps", "bitmap with fewer bits", gapsOf(byBitmap, 2, []byte{1, 0, 0, 0, 0, 0}, 2), "1 bits for 2 changed elements"},
	{"gaps", "bitmap beyond its words", gapsOf(byBitmap, 1, []byte{0, 0, 0, 0, 0, 2}, 1), "more bits than 1 changed of 41 elements"},
	{"zstd", "nothing", nil, "0 bytes instead of 82"},
	{"zstd", "no zstd", []byte("not a frame of zstd"), "magic number"},
	{"zstd", "cut", bomb[:9], "EOF"},
	{"zstd", "a bomb", bomb, "more than 82 bytes"},
	{"zstd", "a bomb of frames", bytes.Repeat(run(41), 3), "more than 82 bytes"},
	{"zstd", "too short", run(81), "81 bytes instead of 82"},
	{"zstd", "after the frame", append(run(82), 1, 2, 3), "EOF"},
	{"zstd", "a large window", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xf8, 1, 0, 0}, "window"},
	{"zstd", "a size that lies", []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 0, 0}, "more than 82 bytes"},
	{"zstd", "a dictionary", []byte{0x28, 0xb5, 0x2f, 0xfd, 1, 0x40, 9, 1, 0, 0}, "dictionary"},
	{"sparse+zstd", "more than the tensor", run(83), "zstd: more than 82 bytes"},
	{"sparse+zstd", "no pairs", run(82), "sparse: 82 bytes are not a whole number"},
	{"xor+zstd", "too short", run(80), "xor: 80 bytes instead of 82"},
}

var hostileSpec = tensor.Spec{Name: "layer.1", DType: tensor.BF16, Shape: []int{41}}

// sparseOf returns the output of sparse for changes of the given elements.
func sparseOf(at ...uint32) (b []byte) {
	for _, i := range at {
		b = little.AppendUint32(b, i)
	}
	return append(b, make([]byte, 2*len(at))...)
}

// gapsOf returns an output of gaps that claims n changes, with the given positions and number of values.
func gapsOf(form byte, n uint32, at []byte, values int) []byte {
	return slices.Concat([]byte{form}, little.AppendUint32(nil, n), at, make([]byte, 2*values))
}

// run returns a zstd frame that does not state its size: one byte n times, in blocks of up to 128 KiB.
func run(n int) []byte {
	const most = 128 << 10
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x40} // no flags; a window of 256 KiB
	for {
		m := min(n, most)
		n -= m
		head := uint32(m)<<3 | 1<<1
		if n == 0 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 7)
		if n == 0 {
			return b
		}
	}
}

// bomb expands from 70 bytes to 2 MiB.
var bomb = run(2 << 20)

// TestHostile: bytes that no coder makes are rejected with an error that names the tensor, the stage and the reason.
// Nothing is written beyond the tensor, and a bomb uses little memory.
func TestHostile(t *testing.T) {
	base := bytes.Repeat([]byte{1, 2}, 41)
	for _, h := range hostile {
		c := mustParse(t, h.codec).NewCoder()
		if h.name == "a bomb" { // warm up: memory that any decoder needs
			check.Must(t, check.Err(unpack(t, c, Coded, hostileSpec, base, run(82), false)))
		}
		var err error
		grown := check.Allocated(func() { _, err = unpack(t, c, Coded, hostileSpec, base, h.src, false) })
		check.Fails(t, err, h.want, h.codec, h.name)
		check.Fails(t, err, `codec: "layer.1": `)
		check.That(t, h.name != "a bomb" || grown <= 512<<10, "a bomb took %d bytes of memory", grown) // a decoder works in blocks of 128 KiB
	}
}

// TestModes: a length that does not fit the mode is an error, and so is a missing base (O16).
func TestModes(t *testing.T) {
	base := make([]byte, 82)
	for _, c := range []struct {
		mode Mode
		src  int
		base []byte
		want string
	}{
		{Plain, 81, base, "81 bytes are not the plain form of 82"},
		{Plain, 83, base, "83 bytes are not the plain form of 82"},
		{Unchanged, 1, base, "1 bytes are not the unchanged form of 82"},
		{Coded, 82, base, "82 bytes are not the coded form of 82"},
		{3, 0, base, "unknown mode(3)"},
		{Coded, 6, nil, "is coded, but there is no base"},
		{Unchanged, 0, nil, "is unchanged, but there is no base"},
		{Coded, 6, base[:80], "a base of 80 for a tensor of 82"},
	} {
		coder := mustParse(t, "sparse").NewCoder()
		err := coder.Unpack(c.mode, make([]byte, 82), c.base, make([]byte, c.src), hostileSpec)
		check.Fails(t, err, c.want)
	}
}

// unpack unpacks into memory with a guard on both sides, and over the base if over is set.
func unpack(t *testing.T, c *Coder, m Mode, s tensor.Spec, base, src []byte, over bool) ([]byte, error) {
	t.Helper()
	guard := bytes.Repeat([]byte{0xa5}, 64)
	mem := slices.Concat(guard, base, guard)
	dst := mem[len(guard) : len(guard)+len(base)]
	from, before, input := slices.Clone(base), slices.Clone(base), slices.Clone(src)
	if over {
		from = dst
	} else {
		clear(dst)
	}
	err := c.Unpack(m, dst, from, src, s)
	check.Need(t, bytes.HasPrefix(mem, guard) && bytes.HasSuffix(mem, guard), "written beyond the tensor")
	check.Need(t, bytes.Equal(src, input) && (over || bytes.Equal(from, before)), "what is read was written")
	return dst, err
}

// fuzzUnpack fuzzes unpacking. Seeds are outputs of the pipeline and the inputs in hostile.
func fuzzUnpack(f *testing.F, text string) { fuzzPipeline(f, mustParse(f, text)) }

func fuzzPipeline(f *testing.F, p *Pipeline) {
	c := p.NewCoder()
	for _, h := range hostile {
		if h.codec == p.String() {
			f.Add(byte(tensor.BF16), make([]byte, 82), h.src)
		}
	}
	r := rand.New(rand.NewPCG(5, 6))
	for _, d := range tensor.DTypes() {
		base, cur, s := pair(r, d, 300, 0.1)
		if p.Lossy() && d.Float() { // lossy stages do not accept NaNs
			base, cur = drift(d, 300, 0.1)
		}
		dst := make([]byte, len(cur))
		m, n, err := c.Pack(dst, base, cur, s)
		check.Must(f, err)
		if m == Coded {
			f.Add(byte(d), base, dst[:n])
		}
	}
	f.Fuzz(func(t *testing.T, d byte, base, src []byte) {
		if len(base) > 1<<16 || len(src) > 1<<16 {
			return
		}
		s := tensor.Spec{Name: "t", DType: tensor.DTypes()[int(d)%len(tensor.DTypes())]}
		n := len(base) / s.DType.Size()
		s.Shape, base = []int{n}, base[:n*s.DType.Size()]
		got, err := unpack(t, c, Coded, s, base, src, false)
		patched, again := unpack(t, c, Coded, s, base, src, true)
		check.Need(t, (err == nil) == (again == nil) && (err != nil || bytes.Equal(got, patched)),
			"over the base it is another tensor: %v, %v", err, again)
		switch {
		case err != nil:
		case p.Lossy():
			arrives(t, c, base, got, s)
		default:
			trip(t, c, base, got, s)
		}
	})
}

func FuzzSparse(f *testing.F)     { fuzzUnpack(f, "sparse") }
func FuzzSparseZstd(f *testing.F) { fuzzUnpack(f, "sparse+zstd") }
func FuzzGaps(f *testing.F)       { fuzzUnpack(f, "gaps") }
func FuzzXor(f *testing.F)        { fuzzUnpack(f, "xor+zstd") }
func FuzzShuffle(f *testing.F)    { fuzzUnpack(f, "shuffle+zstd") }
func FuzzZstd(f *testing.F)       { fuzzUnpack(f, "zstd") }

// FuzzPack: whatever two tensors hold, the second one arrives. Pipelines with zstd are left out: which code zstd runs
// depends on earlier calls, so fuzzing would never settle.
func FuzzPack(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, d := range tensor.DTypes() {
		base, cur, _ := pair(r, d, 300, 0.1)
		f.Add(byte(d), base, cur)
	}
	f.Fuzz(func(t *testing.T, d byte, base, cur []byte) {
		s := tensor.Spec{Name: "t", DType: tensor.DTypes()[int(d)%len(tensor.DTypes())]}
		n := min(len(base), len(cur), 1<<16) / s.DType.Size()
		s.Shape = []int{n}
		n *= s.DType.Size()
		for _, text := range []string{"sparse", "gaps"} {
			c := mustParse(t, text).NewCoder()
			trip(t, c, base[:n], cur[:n], s)
		}
		planes, again := make([]byte, n), make([]byte, n)
		in := words{s.DType, n}
		check.Must(t, check.Err((shuffle{}).encode(planes, nil, cur[:n], in)))
		_, err := (shuffle{}).decode(again, nil, planes, in)
		check.Need(t, err == nil && bytes.Equal(again, cur[:n]), "planes of %v do not come back: %v", s.DType, err)
	})
}

// FuzzParse: the text of a parsed pipeline parses to the same pipeline.
func FuzzParse(f *testing.F) {
	f.Add("none")
	f.Add(strings.Join(Names(), "+"))
	for _, text := range lossless {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(p.String())
		check.Need(t, err == nil && again.String() == p.String() && again.Base() == p.Base() && again.Lossy() == p.Lossy(),
			"%q is %v, and then %v: %v", text, p, again, err)
	})
}
