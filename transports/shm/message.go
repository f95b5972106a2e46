package shm

import (
	"encoding/binary"
	"fmt"
	"math"

	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// An order is the message to a worker: a job, and handles to its model and to memory for
// its update. Slices of a parsed order point into the message.
type order struct {
	job           driver.Job
	bare          bool // there is no model
	model, update slab.Handle
	rows, receipt []byte // of the model
}

// with sets the job's model and its handle h.
func (t *order) with(h slab.Handle, model driver.Beside) {
	t.bare, t.model, t.rows, t.receipt = false, h, model.Rows, model.Receipt
}

// A result is the message from a worker: the handle of its update.
type result struct {
	update        slab.Handle
	rows, receipt []byte // of the update
}

// Flags of an order.
const (
	flagTimed = 1 << iota // the job's samples count
	flagBare              // there is no model
)

const (
	orderFixed  = 8 + 8 + 8 + 1 + 2*slab.HandleSize + 4*4
	resultFixed = slab.HandleSize + 2*4
)

// spare is a control area's memory for configuration and receipt, in bytes, in addition to
// 64 bytes per tensor.
const spare = 256 << 10

// controlSize returns the size of a control area for models of n tensors.
func controlSize(n int) int { return messageAt + spare + 64*n }

// put writes the message to b and returns its size. It fails if b is too small.
func (t *order) put(b []byte) (int, error) {
	n := orderFixed + len(t.job.Device) + len(t.job.Config) + len(t.rows) + len(t.receipt)
	if n > len(b) {
		return 0, fmt.Errorf("job with %d bytes of configuration and %d bytes of receipt does not fit: the message has %d bytes, the limit is %d",
			len(t.job.Config), len(t.receipt), n, len(b))
	}
	w := b[:0] // does not grow, because the size was checked
	w = binary.LittleEndian.AppendUint64(w, uint64(t.job.Round))
	w = binary.LittleEndian.AppendUint64(w, uint64(t.job.Client))
	w = binary.LittleEndian.AppendUint64(w, math.Float64bits(t.job.Weight))
	flags := byte(0)
	if t.job.Timed {
		flags |= flagTimed
	}
	if t.bare {
		flags |= flagBare
	}
	w = append(w, flags)
	w = t.model.Append(w)
	w = t.update.Append(w)
	w = appendField(w, t.job.Device)
	w = appendField(w, t.job.Config)
	w = appendField(w, t.rows)
	w = appendField(w, t.receipt)
	return len(w), nil
}

// parse parses the message in b. It keeps an equal Device string from the previous job,
// so that jobs do not allocate.
func (t *order) parse(b []byte) error {
	if len(b) < orderFixed || b[24] > flagTimed|flagBare {
		return errMessage
	}
	t.job.Round = int(binary.LittleEndian.Uint64(b))
	t.job.Client = int(binary.LittleEndian.Uint64(b[8:]))
	t.job.Weight = math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))
	t.job.Timed, t.bare = b[24]&flagTimed != 0, b[24]&flagBare != 0
	b = b[25:]
	var device []byte
	err := takeHandle(&b, &t.model)
	if err == nil {
		err = takeHandle(&b, &t.update)
	}
	if err == nil {
		err = takeFields(b, &device, &t.job.Config, &t.rows, &t.receipt)
	}
	if err == nil && string(device) != t.job.Device {
		t.job.Device = string(device)
	}
	return err
}

func (r *result) put(b []byte) (int, error) {
	n := resultFixed + len(r.rows) + len(r.receipt)
	if n > len(b) {
		return 0, fmt.Errorf("receipt of %d bytes does not fit: the limit is %d", len(r.receipt), len(b)-resultFixed-len(r.rows))
	}
	w := r.update.Append(b[:0])
	w = appendField(w, r.rows)
	w = appendField(w, r.receipt)
	return len(w), nil
}

func (r *result) parse(b []byte) error {
	err := takeHandle(&b, &r.update)
	if err == nil {
		err = takeFields(b, &r.rows, &r.receipt)
	}
	return err
}

// appendField appends the length of field as 32 bits, and field.
func appendField[T string | []byte](b []byte, field T) []byte {
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(field))), field...)
}

// takeFields splits b into fields, which point into b and must fill it exactly.
func takeFields(b []byte, fields ...*[]byte) error {
	for i, f := range fields {
		if len(b) < 4 {
			return fmt.Errorf("%w: it ends before field %d of %d", errMessage, i+1, len(fields))
		}
		n := binary.LittleEndian.Uint32(b)
		if b = b[4:]; uint64(n) > uint64(len(b)) {
			return fmt.Errorf("%w: field %d of %d has %d bytes, but only %d are left", errMessage, i+1, len(fields), n, len(b))
		}
		*f, b = b[:n:n], b[n:]
	}
	if len(b) > 0 {
		return fmt.Errorf("%w: %d bytes after its last field", errMessage, len(b))
	}
	return nil
}

// takeHandle removes the handle at the start of b and decodes it.
func takeHandle(b *[]byte, to *slab.Handle) error {
	h, err := slab.DecodeHandle(*b)
	if err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	*to, *b = h, (*b)[slab.HandleSize:]
	return nil
}
