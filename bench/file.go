package bench

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What is not read any more, in bytes: a file, decompressed; one cell in it; and
// all that is no cell. A hundred blocks of 100,000 clients fit.
const (
	maxFile      = 256 << 20
	largestCell  = 192 << 20
	largestValue = 64 << 20
)

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
	plain, err := decompress(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	start := make([]byte, 64)
	n, err := io.ReadFull(plain, start)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return start[:n], nil
}

func read(f *os.File) (*Result, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Mode().IsRegular() && info.Size() > maxFile {
		return nil, errLarge
	}
	plain, err := decompress(bufio.NewReader(f))
	if err != nil {
		return nil, err
	}
	// What cannot be a result is not read to its end: a device has none.
	var text bytes.Buffer
	if _, err := io.CopyN(&text, plain, 512); err != nil && err != io.EOF {
		return nil, err
	}
	switch start := bytes.TrimLeft(text.Bytes(), " \t\r\n"); {
	case len(start) == 0 && text.Len() == 512: // and perhaps a gigabyte more of nothing
		return nil, errors.New("begins with white space only: not a result of ipcbench")
	case len(start) > 0 && start[0] != '{':
		return nil, fmt.Errorf("begins with %q, where { belongs: not a result of ipcbench", start[0])
	}
	if _, err := text.ReadFrom(io.LimitReader(plain, maxFile+1-int64(text.Len()))); err != nil {
		return nil, err
	}
	if text.Len() > maxFile {
		return nil, errLarge
	}
	return decode(text.Bytes())
}

// gzipMagic begins every file that gzip has compressed.
const gzipMagic = "\x1f\x8b"

// decompress returns what the file holds, whatever its name.
func decompress(f *bufio.Reader) (io.Reader, error) {
	if magic, err := f.Peek(len(gzipMagic)); err != nil || string(magic) != gzipMagic {
		return f, nil // an error comes again
	}
	z, err := gzip.NewReader(f)
	return zipped{z}, zipError(err)
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

// decode reads a result from its JSON and validates it.
func decode(text []byte) (*Result, error) {
	if err := wellFormed(text); err != nil {
		return nil, err
	}
	if err := unique(text, "", maxLevels); err != nil {
		return nil, err
	}
	head, size, cells := map[string]json.RawMessage{}, 0, []byte("null")
	for p := range parts(text) {
		if name := p.name(); name == "cells" {
			cells = p.value
		} else if size += len(p.value); size > largestValue {
			return nil, fmt.Errorf("%s: too long: not a result of ipcbench", inside("", name))
		} else {
			head[name] = p.value
		}
	}
	if err := checkSchema(head["schema"]); err != nil {
		return nil, err
	}
	rest, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	if err := strict(rest, r); err != nil {
		return nil, err
	}
	if cells[0] != '[' && string(cells) != "null" {
		return nil, errors.New("cells: no list")
	}
	for p := range parts(cells) {
		place := "cells" + p.name()
		if len(p.value) > largestCell {
			return nil, fmt.Errorf("%s: too long: not a result of ipcbench", place)
		}
		var c Cell
		if err := strict(p.value, &c); err != nil {
			return nil, within(place, err)
		}
		r.Cells = append(r.Cells, c)
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	r.settle()
	return r, nil
}

// checkSchema reports a result of another schema than this build's.
func checkSchema(text json.RawMessage) error {
	var version int
	switch {
	case text == nil:
		return errors.New("schema: missing: not a result of ipcbench")
	case json.Unmarshal(text, &version) != nil || version < 1:
		return fmt.Errorf("schema: %s: no version of a result", printable(string(text[:min(len(text), 40)])))
	case version != Schema:
		return fmt.Errorf("schema: version %d: this ipcbench reads version %d alone: measure again, or take the ipcbench that wrote it", version, Schema)
	}
	return nil
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
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("bench: encode the result: %w", err)
	}
	b := bufio.NewWriter(w)
	layOut(b, text, 0)
	b.WriteByte('\n')
	return b.Flush() // holds the first error of all writes
}

// levelOfBlocks is how deep the fields of a block lie.
const levelOfBlocks = 5

// layOut indents compact JSON. What holds no list and no object stands in one line:
// every list, so that samples can be looked at and compared, and inside of blocks
// every object.
func layOut(w *bufio.Writer, text []byte, level int) {
	opening := text[0]
	flat := opening != '[' && opening != '{' || len(text) == len("{}")
	if opening == '[' || opening == '{' && level >= levelOfBlocks {
		flat = flat || !bytes.ContainsAny(text[1:], "[{")
	}
	if flat {
		w.Write(text)
		return
	}
	line := func(level int) {
		w.WriteByte('\n')
		for range level {
			w.WriteByte('\t')
		}
	}
	w.WriteByte(opening)
	for p := range parts(text) {
		if p.index > 0 {
			w.WriteByte(',')
		}
		line(level + 1)
		if p.key != nil {
			w.Write(p.key)
			w.WriteString(": ")
		}
		layOut(w, p.value, level+1)
	}
	line(level)
	w.WriteByte(text[len(text)-1])
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
	if err := checkText(path); err != nil {
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
