package shm

import (
	"encoding/binary"
	"fmt"
	"math"

	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

// A task is what travels down: a job, where its model lies and where its update
// goes. Slices that were decoded point into the message.
type task struct {
	job           driver.Job
	model, update slab.Handle
	receipt       []byte // the model's
}

// A result is what travels up.
type result struct {
	update  slab.Handle
	receipt []byte // the update's
}

const (
	taskFixed   = 8 + 8 + 8 + 1 + 2*slab.HandleSize + 3*4
	resultFixed = slab.HandleSize + 4
)

// spare is the room in a control area besides 64 bytes a tensor: for the job's
// configuration and the receipt.
const spare = 256 << 10

// controlSize returns the size of a control area for models of n tensors.
func controlSize(n int) int { return messageAt + spare + 64*n }

// put writes the message to b and returns its size. It is an error if b is too
// small.
func (t *task) put(b []byte) (int, error) {
	n := taskFixed + len(t.job.Device) + len(t.job.Config) + len(t.receipt)
	if n > len(b) {
		return 0, fmt.Errorf("device, configuration (%d bytes) and receipt (%d bytes) of a job do not fit: the message has %d bytes, the limit is %d",
			len(t.job.Config), len(t.receipt), n, len(b))
	}
	w := b[:0] // never grows: the room was checked
	w = binary.LittleEndian.AppendUint64(w, uint64(t.job.Round))
	w = binary.LittleEndian.AppendUint64(w, uint64(t.job.Client))
	w = binary.LittleEndian.AppendUint64(w, math.Float64bits(t.job.Weight))
	timed := byte(0)
	if t.job.Timed {
		timed = 1
	}
	w = append(w, timed)
	w = t.model.Append(w)
	w = t.update.Append(w)
	w = binary.LittleEndian.AppendUint32(w, uint32(len(t.job.Device)))
	w = binary.LittleEndian.AppendUint32(w, uint32(len(t.job.Config)))
	w = binary.LittleEndian.AppendUint32(w, uint32(len(t.receipt)))
	w = append(w, t.job.Device...)
	w = append(w, t.job.Config...)
	w = append(w, t.receipt...)
	return len(w), nil
}

// parse reads the message in b. The device's old string is kept if it is the
// same: no job allocates one.
func (t *task) parse(b []byte) error {
	if len(b) < taskFixed || b[24] > 1 {
		return errMessage
	}
	t.job.Round = int(binary.LittleEndian.Uint64(b))
	t.job.Client = int(binary.LittleEndian.Uint64(b[8:]))
	t.job.Weight = math.Float64frombits(binary.LittleEndian.Uint64(b[16:]))
	t.job.Timed = b[24] == 1
	b = b[25:]
	var err error
	if t.model, b, err = takeHandle(b); err == nil {
		t.update, b, err = takeHandle(b)
	}
	if err != nil {
		return err
	}
	// Three lengths below 2^32 cannot overflow an int.
	device, config, receipt := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:])), int(binary.LittleEndian.Uint32(b[8:]))
	b = b[12:]
	if device+config+receipt != len(b) {
		return errMessage
	}
	if string(b[:device]) != t.job.Device {
		t.job.Device = string(b[:device])
	}
	t.job.Config = b[device : device+config : device+config]
	t.receipt = b[device+config:]
	return nil
}

func (r *result) put(b []byte) (int, error) {
	n := resultFixed + len(r.receipt)
	if n > len(b) {
		return 0, fmt.Errorf("receipt of %d bytes does not fit: the limit is %d", len(r.receipt), len(b)-resultFixed)
	}
	w := r.update.Append(b[:0])
	w = binary.LittleEndian.AppendUint32(w, uint32(len(r.receipt)))
	w = append(w, r.receipt...)
	return len(w), nil
}

func (r *result) parse(b []byte) error {
	if len(b) < resultFixed {
		return errMessage
	}
	var err error
	if r.update, b, err = takeHandle(b); err != nil {
		return err
	}
	if n := binary.LittleEndian.Uint32(b); uint64(n) != uint64(len(b)-4) {
		return errMessage
	}
	r.receipt = b[4:]
	return nil
}

func takeHandle(b []byte) (slab.Handle, []byte, error) {
	h, err := slab.DecodeHandle(b)
	if err != nil {
		return h, nil, fmt.Errorf("%w: %w", errMessage, err)
	}
	return h, b[slab.HandleSize:], nil
}
