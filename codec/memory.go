package codec

import "ipcbench/tensor"

// Memory estimates the scratch memory, in bytes, that a [Coder] keeps to pack tensors of
// spec s, and to unpack them. Both are 0 if such tensors are sent plain.
func (p *Pipeline) Memory(s tensor.Spec) (pack, unpack int64) {
	n, err := s.Bytes()
	if err != nil || p.Takes(s) != nil {
		return 0, 0
	}
	last, base := len(p.steps)-1, 0
	for i, step := range p.steps {
		if step.base {
			base = i
		}
	}
	in := words{s.DType, n}
	for i, step := range p.steps {
		st := step.make(step.value)
		if k, ok := st.(scratchUser); ok {
			packing, unpacking := k.scratchBytes(in)
			pack, unpack = pack+packing, unpack+unpacking
		}
		if in, _ = st.accepts(in); i == last {
			break
		}
		made := int64(in.bytes) // kept as input of the next stage
		pack += made
		if step.place != pick {
			unpack += made
			if i < base { // the base is encoded as well
				pack += made
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
