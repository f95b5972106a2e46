package models

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

func encode(header, data string) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func write(t testing.TB, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	check.Must(t, os.WriteFile(path, content, 0o600))
	return path
}

// mixed returns a package with every data type, scalars and empty tensors.
func mixed(t testing.TB) *tensor.Package {
	t.Helper()
	var specs []tensor.Spec
	for _, d := range tensor.DTypes() {
		for i, shape := range [][]int{nil, {0}, {7}, {3, 5}, {2, 0, 4}} {
			specs = append(specs, tensor.Spec{Name: fmt.Sprintf("%v.%d", d, i), DType: d, Shape: shape})
		}
	}
	l := check.Value(tensor.NewLayout(specs))(t)
	p := tensor.Alloc(l)
	tensor.Fill(p, 1)
	return p
}

// TestSafetensorsRoundTripOfAnyLayout: names, types, shapes and order of a written file are read unchanged.
func TestSafetensorsRoundTripOfAnyLayout(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var specs []tensor.Spec
		for i, name := range rapid.SliceOfNDistinct(rapid.String(), 0, 8, rapid.ID[string]).Draw(r, "names") {
			if name == metadataKey {
				continue
			}
			specs = append(specs, tensor.Spec{
				Name:  name,
				DType: rapid.SampledFrom(tensor.DTypes()).Draw(r, fmt.Sprint("dtype", i)),
				Shape: rapid.SliceOfN(rapid.IntRange(0, 9), 0, 4).Draw(r, fmt.Sprint("shape", i)),
			})
		}
		l := check.Value(tensor.NewLayout(specs))(r)
		file := fileOf(r, tensor.Alloc(l))
		got, data, err := readHeader(bytes.NewReader(file), int64(len(file)))
		check.Must(r, err)
		again, err := tensor.NewLayout(got)
		check.Need(r, err == nil && again.Digest() == l.Digest() && data%8 == 0,
			"%v became %v, data at %d, error %v", specs, got, data, err)
	})
}

func TestSafetensorsOfTheFormatsOwnKind(t *testing.T) {
	tests := []struct {
		name, header, data string
		want               []string // names in the order of the data
	}{
		{"empty", `{}`, "", nil},
		{"padded with blanks", `{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}     `, "x", []string{"a"}},
		{"metadata", `{"__metadata__":{"format":"pt","a":""},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]}}`, "x", []string{"a"}},
		{"header not in the order of the data",
			`{"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]},"b":{"shape":[1],"data_offsets":[0,2],"dtype":"BF16"}}`, "bbaa", []string{"b", "a"}},
		{"empties in between",
			`{"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"y":{"dtype":"F64","shape":[0],"data_offsets":[2,2]},"a":{"dtype":"F64","shape":[5,0],"data_offsets":[0,0]}}`, "zz", []string{"a", "z", "y"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := mustParse(t, write(t, encode(test.header, test.data)))
			var got []string
			for _, s := range m.Layout.Specs() {
				got = append(got, s.Name)
			}
			check.Equal(t, got, test.want)
			check.OK(t, m.Init(tensor.Alloc(m.Layout), 0))
		})
	}
}

// one returns a header with one tensor a of type U8.
func one(shape, offsets string) string {
	return fmt.Sprintf(`{"a":{"dtype":"U8","shape":%s,"data_offsets":%s}}`, shape, offsets)
}

// lies are invalid files, each rejected with its own error.
var lies = []struct {
	name    string
	content []byte
	want    string
}{
	{"no bytes", nil, "too few"},
	{"half a length", []byte{1, 0, 0, 0}, "too few"},
	{"header longer than allowed", append([]byte{1, 0xe1, 0xf5, 5, 0, 0, 0, 0}, "{}"...), "at most 100000000"},
	{"header of 2^64-1 bytes", append(bytes.Repeat([]byte{255}, 8), "{}"...), "at most 100000000"},
	{"header longer than the file", append([]byte{9, 0, 0, 0, 0, 0, 0, 0}, "{}"...), "but only 2 follow"},
	{"no header", encode("", ""), "not a JSON object"},
	{"too many tensors", encode(strings.Repeat(`"data_offsets"`, maxTensors+1), ""), "the header has 1048577 tensors: must have at most 1048576"},
	{"a list", encode("[]", ""), "not a JSON object"},
	{"blank first", encode(" {}", ""), "not a JSON object"},
	{"no JSON", encode("{", ""), "unexpected EOF"},
	{"two objects", encode("{}{}", ""), "after top-level value"},
	{"no UTF-8", encode("{\"\xff\":1}", ""), "invalid UTF-8"},
	{"deep", encode("{\"a\":"+strings.Repeat("[", 20000)+strings.Repeat("]", 20000)+"}", ""), "exceeded max depth"},
	{"tensor is a number", encode(`{"a":7}`, ""), "JSON number into Go struct"},
	{"tensor is nothing", encode(`{"a":null}`, ""), "are required"},
	{"tensor is a word", encode(`{"a":"\u001b[2J"}`, ""), `unmarshal JSON string into Go struct`},
	{"shape has a word", encode(`{"a":{"dtype":"U8","shape":["\u001b"],"data_offsets":[0,1]}}`, "x"), `"/shape/0"`},
	{"name of a lie", encode(`{"\u001b[2J":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}`, ""), `tensor: "\x1b[2J": shape`},
	{"no fields", encode(`{"a":{}}`, ""), "dtype, shape and data_offsets are required"},
	{"no shape", encode(`{"a":{"dtype":"U8","data_offsets":[0,1]}}`, "x"), "dtype, shape and data_offsets are required"},
	{"unknown field", encode(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}}`, "x"), `unknown object member name "x"`},
	{"field in capitals", encode(`{"a":{"DType":"U8","shape":[1],"data_offsets":[0,1]}}`, "x"), `unknown object member name "DType"`},
	{"field twice", encode(`{"a":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}}`, "x"), `duplicate object member name "dtype"`},
	{"tensor twice", encode(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "x"), `duplicate object member name "a"`},
	{"tensor twice, once escaped", encode(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, "x"), `duplicate object member name "a"`},
	{"unknown dtype", encode(`{"a":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}`, "x"), `dtype "F8_E4M3" is not supported: must be one of BF16, BOOL, F16, F32, F64, I16, I32, I64, I8, U8`},
	{"dtype in small letters", encode(`{"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}}`, "xxxx"), `dtype "f32"`},
	{"dtype is a number", encode(`{"a":{"dtype":4,"shape":[1],"data_offsets":[0,4]}}`, "xxxx"), `within "/dtype"`},
	{"shape is a number", encode(one("1", "[0,1]"), "x"), `within "/shape"`},
	{"shape has a list", encode(one("[[1]]", "[0,1]"), "x"), `within "/shape/0"`},
	{"shape has a fraction", encode(one("[1.0]", "[0,1]"), "x"), "number 1.0 into"},
	{"shape has an exponent", encode(one("[1e0]", "[0,1]"), "x"), "number 1e0 into"},
	{"shape has a negative", encode(one("[-1]", "[0,1]"), "x"), "number -1 into"},
	{"shape beyond int", encode(one("[9223372036854775808]", "[0,1]"), "x"), "too large"},
	{"shape beyond uint", encode(one("[18446744073709551616]", "[0,1]"), "x"), "value out of range"},
	{"shape overflows", encode(one("[4294967296,4294967296]", "[0,0]"), ""), "overflow"},
	{"shape overflows in bytes", encode(`{"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}}`, ""), "overflow"},
	{"shape overflows though empty", encode(one("[4294967296,4294967296,0]", "[0,0]"), ""), "overflow"},
	{"too many dimensions", encode(one("[1"+strings.Repeat(",1", 64)+"]", "[0,1]"), "x"), "more than 64 numbers"},
	{"one offset", encode(one("[1]", "[0]"), "x"), "must be a start and an end"},
	{"three offsets", encode(one("[1]", "[0,1,1]"), "x"), "must be a start and an end"},
	{"offsets backwards", encode(one("[1]", "[1,0]"), "x"), "must be a start and an end"},
	{"too few bytes for the shape", encode(one("[2]", "[0,1]"), "x"), "has 2 bytes"},
	{"too many bytes for the shape", encode(one("[1]", "[0,2]"), "xx"), "has 1 bytes"},
	{"offsets that wrap around", encode(one("[1]", "[18446744073709551615,18446744073709551615]"), "x"), "has 1 bytes"},
	{"end of 2^64-1", encode(one("[1]", "[18446744073709551614,18446744073709551615]"), "x"), "belong to no tensor"},
	{"hole at the start", encode(one("[1]", "[1,2]"), "xx"), "bytes from 0 belong to no tensor"},
	{"hole", encode(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}`, "xxx"), "bytes from 1 belong to no tensor"},
	{"overlap", encode(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, "xxx"), `"b" starts at 1, inside tensor "a"`},
	{"the same bytes twice", encode(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, "xx"), `"b" starts at 0, inside tensor "a"`},
	{"data cut off", encode(one("[2]", "[0,2]"), "x"), "ends at 2, but the data has 1 bytes"},
	{"trailing bytes", encode(one("[1]", "[0,1]"), "xx"), "the tensors end at 1, but the data has 2 bytes"},
	{"trailing bytes only", encode("{}", "x"), "the tensors end at 0, but the data has 1 bytes"},
	{"metadata is a list", encode(`{"__metadata__":[]}`, ""), "unmarshal JSON array into"},
	{"metadata has a number", encode(`{"__metadata__":{"a":1}}`, ""), `into Go string within "/a"`},
	{"metadata has an object", encode(`{"__metadata__":{"a":{}}}`, ""), "into Go string"},
	{"metadata twice", encode(`{"__metadata__":{},"__metadata__":{}}`, ""), `duplicate object member name "__metadata__"`},
}

func TestLyingFiles(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			path := write(t, lie.content)
			_, err := Parse(path)
			check.Fails(t, err, lie.want)
			check.Fails(t, err, path)
		})
	}
}

func TestTruncatedFiles(t *testing.T) {
	whole := fileOf(t, mixed(t))
	for n := 0; n < len(whole); n += 1 + n/100 {
		_, _, err := readHeader(bytes.NewReader(whole[:n]), int64(n))
		check.Need(t, err != nil, "the first %d of %d bytes pass for a file", n, len(whole))
	}
}

// TestSafetensorsThatIsNoFile: a pipe and a directory are rejected at once, without waiting for the pipe.
func TestSafetensorsThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.safetensors")
	check.Must(t, syscall.Mkfifo(pipe, 0o600))
	folder := filepath.Join(dir, "folder.safetensors")
	check.Must(t, os.Mkdir(folder, 0o700))
	for _, path := range []string{pipe, folder} {
		check.Fails(t, check.Err(Parse(path)), "not a regular file", path)
	}
}

// TestSafetensorsThatChanges: Init fails if the file was replaced, shortened or removed after Parse.
func TestSafetensorsThatChanges(t *testing.T) {
	content := fileOf(t, mixed(t))
	for _, c := range []struct {
		change func(path string) error
		want   string
	}{
		{func(path string) error { return os.Truncate(path, int64(len(content)-1)) }, "has changed"},
		{func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }, "has changed"},
		{os.Remove, "no such file"},
	} {
		path := write(t, content)
		m := mustParse(t, path)
		check.Must(t, c.change(path))
		check.Fails(t, m.Init(tensor.Alloc(m.Layout), 0), c.want)
	}
}

// TestSafetensorsWithARelativePath: a file is read although the directory has changed, with data of every type.
func TestSafetensorsWithARelativePath(t *testing.T) {
	p := mixed(t)
	path := write(t, fileOf(t, p))
	t.Chdir(filepath.Dir(path))
	m := mustParse(t, filepath.Base(path))
	t.Chdir(t.TempDir())
	q := tensor.Alloc(m.Layout)
	check.Must(t, m.Init(q, 0))
	check.Equal(t, q.Hash(), p.Hash())
}

// TestSafetensorsAreReadInPlace: data is read directly into the package, so a model is never in memory twice.
func TestSafetensorsAreReadInPlace(t *testing.T) {
	from := tensor.Alloc(mustParse(t, "uniform:16MiB/3").Layout)
	tensor.Fill(from, 1)
	path := write(t, fileOf(t, from))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m := mustParse(t, path)
	p := tensor.Alloc(m.Layout)
	check.Must(t, m.Init(p, 0))
	runtime.ReadMemStats(&after)
	extra := int(after.TotalAlloc-before.TotalAlloc) - m.Layout.Size()
	check.That(t, extra <= 1<<20, "%d bytes allocated beside the model", extra)
	check.That(t, p.Hash() == from.Hash(), "other data came back")
}

func TestSafetensorsBoolsAreZeroOrOne(t *testing.T) {
	m := mustParse(t, write(t, encode(`{"b":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}`, "\x00\x01\x02")))
	check.Fails(t, m.Init(tensor.Alloc(m.Layout), 0), "bool 2 must be 0 or 1, not 2")
}

// FuzzSafetensors: a file that the reader accepts accounts for every byte, and its layout is unchanged after writing
// and reading it again.
func FuzzSafetensors(f *testing.F) {
	f.Add(fileOf(f, mixed(f)))
	for _, lie := range lies {
		if len(lie.content) < 1000 {
			f.Add(lie.content)
		}
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		specs, data, err := readHeader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		l, err := tensor.NewLayout(specs)
		check.Must(t, err, "accepted", specs)
		check.Need(t, data+int64(l.Payload()) == int64(len(content)), "data at %d and %d bytes of tensors in a file of %d", data, l.Payload(), len(content))
		again := fileOf(t, tensor.Alloc(l))
		specs, _, err = readHeader(bytes.NewReader(again), int64(len(again)))
		check.Must(t, err)
		second, err := tensor.NewLayout(specs)
		check.Need(t, err == nil && second.Digest() == l.Digest(), "%v became %v: %v", l.Specs(), specs, err)
	})
}
