package codec

import "ipcbench/tensor"

// Memory estimates the scratch memory, in bytes, that a [Coder] keeps to pack tensors of
// spec s, and to unpack them. Both are 0 if such tensors are sent plain.
func (p *Pipeline) Memory(s tensor.Spec) (pack, unpack int64) {
	n, err := s.Bytes()
	c := p.NewCoder()
	if err != nil || c.shape(s.DType, n) != nil {
		return 0, 0
	}
	for i, st := range c.stages {
		if k, ok := st.(scratchUser); ok {
			packing, unpacking := k.scratchBytes(c.forms[i])
			pack, unpack = pack+packing, unpack+unpacking
		}
		if i+1 == len(c.stages) {
			break
		}
		kept := int64(c.forms[i+1].bytes) // as input of the next stage
		pack += kept
		if c.steps[i].place != pick {
			unpack += kept
			if i+1 < c.base { // the base is encoded as well
				pack += kept
			}
		}
	}
	return pack, unpack
}

// A scratchUser is a stage with considerable scratch memory. scratchBytes returns its
// size in bytes, for encoding and for decoding elements of form in.
type scratchUser interface {
	scratchBytes(in words) (encode, decode int64)
}

func (*zstd) scratchBytes(words) (encode, decode int64) { return 1400 << 10, 300 << 10 }

func (t *topk) scratchBytes(in words) (encode, decode int64) { return keptChanges(t.percent, in), 0 }

func (c *changes) scratchBytes(in words) (encode, decode int64) {
	diffs := 4 * int64(share(c.percent, in.bytes/in.dtype.Size()))
	return keptChanges(c.percent, in) + diffs, diffs
}

// keptChanges returns the bytes of a selector's longest list of changes.
func keptChanges(percent float64, in words) int64 {
	all := in.bytes / in.dtype.Size()
	return 8 * int64(min(all, 2*share(percent, all)+slack))
}

func (*kc) scratchBytes(in words) (encode, decode int64) {
	if in.dtype == tensor.F32 {
		return 0, 0
	}
	values := 4 * int64(in.bytes/in.dtype.Size())
	return values, values
}
