package http

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"ipcbench/tensor"
)

// Limits on what a peer may send. A request beyond one is answered 413, 431 or
// 400 before anything of it is stored.
const (
	maxHeader  = 16 << 10 // bytes of a request's head
	maxIDs     = 1 << 16  // ids in one batch
	maxID      = 128      // bytes of one id
	maxControl = maxIDs * (maxID + 1)
	maxReceipt = 64 << 20 // bytes of one receipt or of a client's configuration
	maxDims    = 32
)

// A patience bounds every wait for a peer that is in the middle of something. A
// body may take as long, and a second more for every paceBytes.
type patience time.Duration

const (
	defaultPatience = patience(30 * time.Second)
	paceBytes       = 4 << 20
)

// until returns when n bytes must have passed.
func (p patience) until(n int64) time.Time {
	return time.Now().Add(time.Duration(p) + time.Duration(n/paceBytes)*time.Second)
}

// Header fields. A body of tensors is a receipt, a table and the tensors' bytes,
// one directly after another; the fields give the lengths of the first two.
const (
	fieldDType   = "Tensor-Dtype" // of a single tensor
	fieldShape   = "Tensor-Shape" // of a single tensor: 64,3,7,7; empty for a scalar
	fieldCount   = "Tensor-Count" // tensors in the body
	fieldTable   = "Table-Bytes"
	fieldReceipt = "Receipt-Bytes"
	fieldRound   = "Job-Round"
	fieldClient  = "Job-Client"
	fieldCache   = "Cache-Bytes" // what the worker's cache holds
	fieldCached  = "Cache-Tensors"
	fieldUpdate  = "Update-Handle" // where in the lane's slab the update lies, which is not in the body then
)

const (
	typeRaw  = "application/octet-stream"
	typeText = "text/plain"
	typeJSON = "application/json"
)

// A kind is what a tensor is: its element type by name and its shape. The store
// takes element types that it does not know, as bytes.
type kind struct {
	dtype string
	shape []int
	size  int // bytes
}

func kindOf(s tensor.Spec) (kind, error) {
	n, err := s.Bytes()
	return kind{dtype: s.DType.String(), shape: s.Shape, size: n}, err
}

// known returns the element type, if it is one of ours.
func (k kind) known() (tensor.DType, bool) {
	d, err := tensor.ParseDType(k.dtype)
	return d, err == nil
}

// check compares the size with what shape and element type demand.
func (k kind) check() error {
	if k.dtype == "" || len(k.dtype) > maxID || strings.ContainsFunc(k.dtype, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("dtype %q: want a name", k.dtype)
	}
	if len(k.shape) > maxDims {
		return fmt.Errorf("%d dimensions, want %d at most", len(k.shape), maxDims)
	}
	d, ok := k.known()
	if !ok {
		d = tensor.U8 // whatever its element's size, there is no negative or overflowing shape
	}
	want, err := tensor.Spec{Name: "shape", DType: d, Shape: k.shape}.Bytes()
	if err != nil {
		return err
	}
	if ok && want != k.size {
		return fmt.Errorf("%d bytes of %s %v, want %d", k.size, k.dtype, k.shape, want)
	}
	return nil
}

// appendEntry appends a table entry: dtype, shape and size of one tensor.
func (k kind) appendEntry(b []byte) []byte {
	b = append(b, byte(len(k.dtype)))
	b = append(b, k.dtype...)
	b = append(b, byte(len(k.shape)))
	for _, d := range k.shape {
		b = binary.AppendUvarint(b, uint64(d))
	}
	return binary.AppendUvarint(b, uint64(k.size))
}

var errTable = errors.New("table of tensors is malformed")

// parseEntry reads the first entry of a table.
func parseEntry(b []byte) (k kind, rest []byte, err error) {
	name, b, ok := cut(b)
	if !ok || len(b) == 0 || b[0] > maxDims {
		return kind{}, nil, errTable
	}
	k.dtype, k.shape = string(name), make([]int, b[0])
	b = b[1:]
	for i := range len(k.shape) + 1 {
		v, n := binary.Uvarint(b)
		if n <= 0 || v > 1<<62 {
			return kind{}, nil, errTable
		}
		b = b[n:]
		if i < len(k.shape) {
			k.shape[i] = int(v)
		} else {
			k.size = int(v)
		}
	}
	return k, b, k.check()
}

// cut splits b after a field that starts with its length in one byte.
func cut(b []byte) (field, rest []byte, ok bool) {
	if len(b) == 0 || int(b[0]) > len(b)-1 {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

// A table is the encoded entries of all tensors of a layout. That of a batch of
// consecutive tensors is a part of it.
type table struct {
	bytes []byte
	at    []int // where the entry of each tensor starts, and the end of the last
}

func tableOf(l *tensor.Layout) (table, error) {
	t := table{at: []int{0}}
	for i := range l.Len() {
		k, err := kindOf(l.Spec(i))
		if err == nil {
			err = k.check()
		}
		if err != nil {
			return table{}, fmt.Errorf("tensor %d (%s): %w", i, l.Spec(i).Name, err)
		}
		t.bytes = k.appendEntry(t.bytes)
		t.at = append(t.at, len(t.bytes))
	}
	return t, nil
}

// part returns the entries of tensors i to j.
func (t table) part(i, j int) []byte { return t.bytes[t.at[i]:t.at[j]] }

// matchTable checks that got is want, and says what differs where it is not.
func matchTable(got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := 0; len(want) > 0; i++ {
		var w, g kind
		var err error
		if w, want, err = parseEntry(want); err != nil {
			return err
		}
		if len(got) == 0 {
			return fmt.Errorf("table ends before tensor %d", i)
		}
		if g, got, err = parseEntry(got); err != nil {
			return fmt.Errorf("tensor %d: %w", i, err)
		}
		if g.dtype != w.dtype || !slices.Equal(g.shape, w.shape) || g.size != w.size {
			return fmt.Errorf("tensor %d is %s %v, want %s %v", i, g.dtype, g.shape, w.dtype, w.shape)
		}
	}
	if len(got) > 0 {
		return errors.New("table goes on after the last tensor")
	}
	return errTable // equal entries, spelt in another way
}

// parseShape reads a shape from a header field.
func parseShape(s string) ([]int, error) {
	if s == "" {
		return []int{}, nil
	}
	parts := strings.Split(s, ",")
	if len(parts) > maxDims {
		return nil, fmt.Errorf("%d dimensions, want %d at most", len(parts), maxDims)
	}
	shape := make([]int, len(parts))
	for i, p := range parts {
		n, err := parseCount(p, 1<<62)
		if err != nil {
			return nil, fmt.Errorf("shape %q: want numbers with commas between them", s)
		}
		shape[i] = int(n)
	}
	return shape, nil
}

func formatShape(shape []int) string {
	var b []byte
	for i, d := range shape {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return string(b)
}

// parseCount reads digits, and nothing but digits, as a number up to limit.
func parseCount(s string, limit uint64) (int64, error) {
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > limit || s[0] == '+' {
		return 0, fmt.Errorf("%q: want a number from 0 to %d", s, limit)
	}
	return int64(n), nil
}

// An id names a tensor in the store. It is never a path, and no character that
// means something in one, or in HTTP, is allowed in it.
func checkID(id []byte) error {
	if len(id) == 0 || len(id) > maxID || id[0] == '.' ||
		bytes.ContainsFunc(id, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("id %.*q: want 1 to %d letters, digits and _ - . without a dot in front", maxID, id, maxID)
	}
	return nil
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
}

// batchRequest is the JSON form of a batch of ids. The plain form has one id a
// line.
type batchRequest struct {
	IDs []string `json:"shard_ids"`
}

// parseIDs appends the ids of a batch to ids, in order. They point into body.
func parseIDs(ids [][]byte, body []byte, isJSON bool) ([][]byte, error) {
	if isJSON {
		var q batchRequest
		if err := parseJSON(body, &q); err != nil {
			return ids, err
		}
		for _, id := range q.IDs {
			ids = append(ids, []byte(id))
		}
	} else {
		for len(body) > 0 && len(ids) <= maxIDs {
			var id []byte
			id, body, _ = bytes.Cut(body, []byte{'\n'})
			ids = append(ids, id)
		}
	}
	if len(ids) > maxIDs {
		return ids, fmt.Errorf("batch of more than %d ids", maxIDs)
	}
	for _, id := range ids {
		if err := checkID(id); err != nil {
			if !isJSON && bytes.HasPrefix(id, []byte("{")) {
				err = fmt.Errorf("%w; a body in JSON needs the header field Content-Type: %s", err, typeJSON)
			}
			return ids, err
		}
	}
	return ids, nil
}

// parseJSON decodes one JSON value with nothing after it.
func parseJSON(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("malformed JSON: %w", err)
	}
	return nil
}
