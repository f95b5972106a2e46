package result

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
	"golang.org/x/sys/unix"
)

// maxFile is the maximum size of a decompressed result file, in bytes.
const maxFile = 1 << 30

// ReadFile reads and validates a result file, which may be compressed by gzip. Errors are one line
// with the names of the file and of the invalid field.
func ReadFile(path string) (*Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// A result of more than mostBomb bytes is rejected if gzip shrank it by more than mostShrunk times.
// It shrinks real ones by up to 20 times, if they have many processes.
const mostBomb, mostShrunk = 1 << 20, 50

var errLarge = fmt.Errorf("larger than %d bytes: not an ipcbench result", maxFile)

func read(f *os.File) (*Result, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() > maxFile {
		return nil, errLarge
	}
	plain, err := decompress(f)
	if err != nil {
		return nil, err
	}
	// Reject other files by their first bytes, because a device may never end.
	head, err := plain.Peek(headBytes)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch start := bytes.TrimLeft(head, " \t\r\n"); {
	case len(start) == 0 && len(head) == headBytes: // perhaps followed by another gigabyte of spaces
		return nil, errors.New("begins with white space only: not an ipcbench result")
	case len(start) == 0:
		return nil, errors.New("empty file: not an ipcbench result")
	case start[0] != '{':
		return nil, fmt.Errorf("begins with %q instead of {: not an ipcbench result", start[0])
	}
	return decode(plain)
}

// headBytes is the size of the start of a file that is examined first.
const headBytes = 512

// gzipMagic is the start of every gzip file.
const gzipMagic = "\x1f\x8b"

// decompress returns a reader of file's content, decompressed if it begins like a gzip file.
func decompress(file *os.File) (*bufio.Reader, error) {
	f := bufio.NewReader(file)
	if magic, err := f.Peek(len(gzipMagic)); err != nil || string(magic) != gzipMagic {
		return f, nil // the next read returns err again
	}
	z, err := gzip.NewReader(f)
	return bufio.NewReader(&zipped{z, file, 0}), zipError(err)
}

// zipped is a gzip.Reader with errors for users. It rejects bombs, except in pipes.
type zipped struct {
	z    *gzip.Reader
	file io.Seeker
	n    int64 // bytes after decompression
}

func (z *zipped) Read(b []byte) (int, error) {
	n, err := z.z.Read(b)
	if z.n += int64(n); z.n > mostBomb {
		if read, err := z.file.Seek(0, io.SeekCurrent); err == nil && z.n > mostShrunk*read {
			return 0, fmt.Errorf("larger than %d bytes, and compressed to less than 1/%d: not an ipcbench result",
				mostBomb, mostShrunk)
		}
	}
	return n, zipError(err)
}

func zipError(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("truncated: the gzip data is incomplete")
	}
	return fmt.Errorf("damaged: %w", err)
}

// Decoded values may take anyMemory bytes, and mostGrown times the bytes of their text. Those that a
// run writes take less than their text; an empty cell takes 150 times as much.
const anyMemory, mostGrown = 4 << 20, 16

// Strict returns the JSON options for reading one result, or an order or answer that contains
// parts of it: durations are numbers of nanoseconds, and unknown keys are errors, and so are lists
// of many values with little text.
func Strict() json.Options {
	taken := int64(0)
	measure := json.UnmarshalFromFunc(func(d *jsontext.Decoder, value any) error {
		taken += int64(reflect.TypeOf(value).Elem().Size())
		if taken > anyMemory+mostGrown*d.InputOffset() {
			return errors.New("too many values with little text: not written by ipcbench")
		}
		return json.SkipFunc // decode as usual
	})
	return json.JoinOptions(v1.FormatDurationAsNano(true), json.RejectUnknownMembers(true), json.WithUnmarshalers(measure))
}

// decode reads a result from its JSON and validates it.
func decode(text io.Reader) (*Result, error) {
	r, limited := new(Result), io.LimitedReader{R: text, N: maxFile + 1}
	err := json.UnmarshalRead(&limited, r, Strict())
	switch {
	case limited.N <= 0:
		return nil, errLarge
	case r.Schema != 0 && r.Schema != Schema: // report the version, not the other schema's unknown keys
		return nil, fmt.Errorf("schema: version %d: this ipcbench reads only version %d: "+
			"measure again, or use the ipcbench that wrote it", r.Schema, Schema)
	case r.Schema == 0 && (err == nil || errors.Is(err, json.ErrUnknownName)):
		return nil, errors.New("schema: missing: not an ipcbench result")
	case err != nil:
		return nil, DescribeJSONError(err)
	}
	return r, r.Validate()
}

// Stem returns the path of a result without .json, .gz or .json.gz. Files that belong to the
// result, such as profiles, have names that begin with it.
func Stem(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".json")
}

// WriteFile writes the result as JSON, compressed if path ends in .gz. After an error, path is
// unchanged.
func (r *Result) WriteFile(path string) error {
	write := r.Write
	if strings.HasSuffix(path, ".gz") {
		write = r.writeZipped
	}
	err := ReplaceFile(path, write)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		if info, statErr := os.Stat(path); statErr == nil && info.Mode().IsRegular() {
			err = fmt.Errorf("%w: the previous %s is unchanged", err, path)
		}
		return fmt.Errorf("%w; free some space or write elsewhere with --out", err)
	}
	return err
}

func (r *Result) writeZipped(w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return cmp.Or(r.Write(z), z.Close()) // Close repeats an error of Write
}

// Write writes the result as JSON, with each list of samples on one line. An invalid result is
// an error, because ReadFile would reject it.
func (r *Result) Write(w io.Writer) error {
	if err := r.Validate(); err != nil {
		return err
	}
	text, err := json.Marshal(r, v1.DefaultOptionsV1())
	if err != nil {
		return fmt.Errorf("result: encode the result: %w", err)
	}
	b := bufio.NewWriter(w)
	if err := layOut(b, text, 0); err != nil {
		return fmt.Errorf("result: lay out the result: %w", err)
	}
	b.WriteByte('\n')
	return b.Flush() // returns the first error of all writes
}

// levelOfBlocks is the nesting depth of a block's fields.
const levelOfBlocks = 5

// layOut indents compact JSON. A list without lists or objects in it is written on one line, for
// reading and diffing samples. Inside blocks, so is such an object.
func layOut(w *bufio.Writer, text jsontext.Value, level int) error {
	opening := text[0]
	list, object := opening == '[', opening == '{'
	oneLine := list || level >= levelOfBlocks // if no list or object is inside
	if !list && !object || len(text) == len("{}") || oneLine && !bytes.ContainsAny(text[1:], "[{") {
		_, err := w.Write(text)
		return err
	}
	line := func(level int) { w.WriteString("\n" + strings.Repeat("\t", level)) }
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	w.WriteByte(opening)
	for n := 0; d.PeekKind() != ']' && d.PeekKind() != '}'; n++ {
		if n > 0 {
			w.WriteByte(',')
		}
		line(level + 1)
		if object {
			key, err := d.ReadValue()
			if err != nil {
				return err
			}
			w.Write(key)
			w.WriteString(": ")
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := layOut(w, value, level+1); err != nil {
			return err
		}
	}
	line(level)
	return w.WriteByte(text[len(text)-1])
}

// ReplaceFile calls write with a new file and renames it to path after success, so that path
// never has partial content and keeps its permissions. After an error, it removes the new file. If
// path is not a regular file, such as a pipe, write gets path itself.
func ReplaceFile(path string, write func(io.Writer) error) (err error) {
	info, statErr := os.Stat(path)
	if statErr == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	if statErr == nil {
		err = f.Chmod(info.Mode().Perm()) // before there is content that others must not read
	}
	if err == nil {
		err = write(f)
	}
	if err == nil {
		err = f.Sync() // without it, a crash might leave an empty file at path
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// TryWrite returns an error if a result cannot be written to path, or cannot contain path, as a
// result with profiles does. It leaves no file.
func TryWrite(path string) error {
	if err := CheckText(path); err != nil {
		return err
	}
	f, err := beside(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// beside creates a file with a random new name that begins with path, so that files of killed
// processes do no harm. Unlike with os.CreateTemp, the umask determines the permissions.
func beside(path string) (f *os.File, err error) {
	for range 100 {
		f, err = os.OpenFile(fmt.Sprintf("%s.tmp%08x", path, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}
