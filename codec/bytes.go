package codec

import (
	"crypto/subtle"
	"errors"
	"fmt"

	zst "github.com/klauspost/compress/zstd"
)

// xor sends which bits changed: words of the same size, most of them 0.
type xor struct{}

func (xor) takes(in words) (words, error) { return in, nil }

func (xor) encode(dst, base, cur []byte, _ words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	return subtle.XORBytes(dst, base, cur), nil
}

func (xor) decode(dst, base, src []byte, _ words) (int, error) {
	if len(src) != len(dst) {
		return 0, fmt.Errorf("%d bytes for %d", len(src), len(dst))
	}
	return subtle.XORBytes(dst, base, src), nil
}

// shuffle sends the first byte of all words, then the second of all, and so on:
// like comes to like.
type shuffle struct{}

func (shuffle) takes(in words) (words, error) { return in, nil }

func (shuffle) encode(dst, _, cur []byte, in words) (int, error) {
	if len(dst) < len(cur) {
		return 0, errPlain
	}
	size := in.dtype.Size()
	n := len(cur) / size
	for k := range size {
		for i := range n {
			dst[k*n+i] = cur[i*size+k]
		}
	}
	return len(cur), nil
}

func (shuffle) decode(dst, _, src []byte, in words) (int, error) {
	if len(src) != len(dst) {
		return 0, fmt.Errorf("%d bytes for %d", len(src), len(dst))
	}
	size := in.dtype.Size()
	n := len(src) / size
	for k := range size {
		for i := range n {
			dst[i*size+k] = src[k*n+i]
		}
	}
	return len(dst), nil
}

// zstd compresses bytes: frames of at most 1 MiB, one after another, so that it
// needs little memory and ends early if it does not help.
type zstd struct {
	enc *zst.Encoder
	dec *zst.Decoder
	out []byte
}

const frame = 1 << 20

func (*zstd) takes(in words) (words, error) { return opaque(in.bytes), nil }

func (z *zstd) encode(dst, _, cur []byte, _ words) (n int, err error) {
	if z.enc == nil {
		if z.enc, err = zst.NewWriter(nil, zst.WithEncoderConcurrency(1), zst.WithEncoderCRC(false),
			zst.WithWindowSize(frame), zst.WithEncoderLevel(zst.SpeedFastest)); err != nil {
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
		err = fmt.Errorf("more than the tensor's %d bytes", len(dst))
	}
	return len(out), err
}
