package result

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	v1 "github.com/go-json-experiment/json/v1"
	"golang.org/x/sys/unix"
)

// maxFile is the largest result that is read, decompressed, in bytes.
const maxFile = 1 << 30

// ReadFile reads a result, which may be compressed by gzip, and validates it.
// Errors are one line with the names of the file and of the field.
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

var errLarge = fmt.Errorf("larger than %d bytes: not a result of ipcbench", maxFile)

// Peek returns how the file begins, decompressed: enough to see that it is JSON.
func Peek(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start, _, err := begin(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return start, nil
}

// begin returns how the file begins, and all of it, decompressed.
func begin(f *os.File) (start []byte, plain *bufio.Reader, err error) {
	if plain, err = decompress(bufio.NewReader(f)); err != nil {
		return nil, nil, err
	}
	if start, err = plain.Peek(headBytes); err == io.EOF {
		err = nil
	}
	return start, plain, err
}

func read(f *os.File) (*Result, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() > maxFile {
		return nil, errLarge
	}
	// What cannot be a result is not read to its end: a device has none.
	head, plain, err := begin(f)
	if err != nil {
		return nil, err
	}
	switch start := bytes.TrimLeft(head, " \t\r\n"); {
	case len(start) == 0 && len(head) == headBytes: // and perhaps a gigabyte more of nothing
		return nil, errors.New("begins with white space only: not a result of ipcbench")
	case len(start) == 0:
		return nil, errors.New("empty file: not a result of ipcbench")
	case start[0] != '{':
		return nil, fmt.Errorf("begins with %q, where { belongs: not a result of ipcbench", start[0])
	}
	return decode(plain)
}

// headBytes is how much is looked at first.
const headBytes = 512

// gzipMagic begins every file that gzip has compressed.
const gzipMagic = "\x1f\x8b"

// decompress returns what the file holds, whatever its name.
func decompress(f *bufio.Reader) (*bufio.Reader, error) {
	if magic, err := f.Peek(len(gzipMagic)); err != nil || string(magic) != gzipMagic {
		return f, nil // an error comes again
	}
	z, err := gzip.NewReader(f)
	return bufio.NewReader(zipped{z}), zipError(err)
}

// zipped is a gzip.Reader whose errors say what is wrong with the file.
type zipped struct{ z *gzip.Reader }

func (z zipped) Read(b []byte) (int, error) {
	n, err := z.z.Read(b)
	return n, zipError(err)
}

func zipError(err error) error {
	switch {
	case err == nil || err == io.EOF:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("truncated: ends in the midst of what gzip has compressed")
	}
	return fmt.Errorf("damaged: %w", err)
}

// Strict has the options by which results are read, and what programs exchange of them:
// durations are numbers of nanoseconds, and keys that the reader does not know are refused.
func Strict() json.Options {
	return json.JoinOptions(v1.FormatDurationAsNano(true), json.RejectUnknownMembers(true))
}

// decode reads a result from its JSON and validates it.
func decode(text io.Reader) (*Result, error) {
	r, limited := new(Result), io.LimitedReader{R: text, N: maxFile + 1}
	err := json.UnmarshalRead(&limited, r, Strict())
	switch {
	case limited.N <= 0:
		return nil, errLarge
	case r.Schema != 0 && r.Schema != Schema: // it has other keys too, which are no error
		return nil, fmt.Errorf("schema: version %d: this ipcbench reads version %d alone: measure again, or take the ipcbench that wrote it", r.Schema, Schema)
	case r.Schema == 0 && (err == nil || errors.Is(err, json.ErrUnknownName)):
		return nil, errors.New("schema: missing: not a result of ipcbench")
	case err != nil:
		return nil, Located(err)
	}
	r.settle()
	return r, r.Validate()
}

// Stem returns the path of a result without what its name ends in. The files that
// belong to a result have names that begin so.
func Stem(path string) string {
	return strings.TrimSuffix(strings.TrimSuffix(path, ".gz"), ".json")
}

// WriteFile writes the result as JSON, compressed if path ends in .gz. The file
// appears complete or not at all.
func (r *Result) WriteFile(path string) error {
	write := r.Write
	if strings.HasSuffix(path, ".gz") {
		write = r.writeZipped
	}
	err := ReplaceFile(path, write)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: what stood in %s before is unharmed; make room, or choose a place that has some with --out", err, path)
	}
	return err
}

func (r *Result) writeZipped(w io.Writer) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(r.Write(z), z.Close())
}

// Write writes the result as JSON, its samples a line each. What ReadFile would
// refuse is not written.
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
	return b.Flush() // holds the first error of all writes
}

// levelOfBlocks is how deep the fields of a block lie.
const levelOfBlocks = 5

// layOut indents compact JSON. A value without a list or an object in it is written in one
// line: each list, so that samples can be looked at and compared, and inside of blocks
// each object.
func layOut(w *bufio.Writer, text jsontext.Value, level int) error {
	opening := text[0]
	list, object := opening == '[', opening == '{'
	oneLine := list || level >= levelOfBlocks // unless something is in it
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

// ReplaceFile writes a file beside path and renames it to path once write has
// succeeded, so that nobody sees half of it. What is no regular file, such as a
// pipe, is written to as it is.
func ReplaceFile(path string, write func(io.Writer) error) (err error) {
	if info, statErr := os.Stat(path); statErr == nil && !info.Mode().IsRegular() {
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
	if err = write(f); err == nil {
		err = f.Sync() // or a crash might leave an empty file under the name
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// TryWrite tries whether a result could be written to path, and whether a result may
// name it, as one with profiles does. It leaves nothing behind.
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

// beside creates a file whose name begins with path, and that nothing else has:
// one that a killed process has left is in nobody's way. Unlike os.CreateTemp, it
// leaves who may read it to the umask.
func beside(path string) (f *os.File, err error) {
	for range 100 {
		f, err = os.OpenFile(fmt.Sprintf("%s.tmp%08x", path, rand.Uint32()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}
