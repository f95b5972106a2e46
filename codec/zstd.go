package codec

import (
	"errors"
	"fmt"

	zst "github.com/klauspost/compress/zstd"
)

// zstd compresses bytes (Zstandard, RFC 8878) into consecutive frames of at most 256 KiB
// of input. So it needs little memory and stops early if the input does not shrink.
type zstd struct {
	bytes bool // after a stage that makes bytes: some are frequent, even if nothing repeats

	enc *zst.Encoder
	dec *zst.Decoder
	out []byte
}

const frame = 256 << 10

func (*zstd) accepts(in words) (words, error) { return opaque(in.bytes), nil }

func (z *zstd) encode(dst, _, cur []byte, _ words) (n int, err error) {
	if z.enc == nil {
		if z.enc, err = zst.NewWriter(nil, zst.WithEncoderConcurrency(1), zst.WithEncoderCRC(false),
			zst.WithWindowSize(frame), zst.WithEncoderLevel(zst.SpeedFastest), zst.WithLowerEncoderMem(true),
			zst.WithAllLitEntropyCompression(z.bytes)); err != nil {
			return 0, err
		}
		z.out = make([]byte, 0, z.enc.MaxEncodedSize(frame))
	}
	for len(cur) > 0 {
		m := min(frame, len(cur))
		out := z.enc.EncodeAll(cur[:m], z.out)
		if len(out) > len(dst)-n {
			return 0, errPlain
		}
		n += copy(dst[n:], out)
		cur = cur[m:]
	}
	return n, nil
}

func (z *zstd) decode(dst, _, src []byte, _ words) (n int, err error) {
	if z.dec == nil {
		if z.dec, err = zst.NewReader(nil, zst.WithDecoderConcurrency(1), zst.WithDecodeAllCapLimit(true),
			zst.WithDecoderMaxWindow(frame)); err != nil {
			return 0, err
		}
	}
	out, err := z.dec.DecodeAll(src, dst[:0:len(dst)])
	if errors.Is(err, zst.ErrDecoderSizeExceeded) {
		err = fmt.Errorf("more than %d bytes", len(dst))
	}
	return len(out), err
}
