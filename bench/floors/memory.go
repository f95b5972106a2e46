package floors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/machine"
	"ipcbench/tensor/pages"
)

// modelBytes is the size of a sample of unix-stream and first-touch: the histology
// model, because the rates depend on the caches that the bytes fit into.
const modelBytes = 66_608_288

const (
	smallestBuffer = 64 << 20  // even if caches are small
	largestBuffer  = 512 << 20 // even if caches are huge
	unknownBuffer  = 256 << 20 // if the last-level cache is unknown
	copyChunks     = 8         // number of samples
	leastCopy      = copyChunks << 20
)

// bufferSize returns the size of each of copy's two buffers, given the last-level
// cache (0 if unknown) and the free memory. Both together are twice the cache, so
// that nothing of the previous sweep remains in it, and at most a quarter of the free
// memory; if that is too little, outside is false.
func bufferSize(llc, free int64) (size int64, outside bool) {
	size = max(smallestBuffer, min(llc, largestBuffer))
	if llc <= 0 {
		size = unknownBuffer
	}
	if most := free / 8; size > most {
		size = max(leastCopy, most)
	}
	size = size / (copyChunks << 12) * (copyChunks << 12) // whole pages per chunk
	return size, llc <= 0 || size+copyChunks<<12 > llc
}

// Cached is the end of a condition whose memory was too small to be outside the caches.
const Cached = ",cached"

func measureCopy(p *peer) ([]Series, error) {
	free, _ := machine.MemoryLimit()
	size, outside := bufferSize(machine.Read().LLC, free)
	variant := fmt.Sprintf("buffer=%dMiB", size>>20)
	if !outside {
		variant += Cached
	}
	src, err := mapped(size, p.Pages)
	if err != nil {
		return nil, err
	}
	dst, err := mapped(size, p.Pages)
	if err != nil {
		return nil, err
	}
	scramble(src)
	chunk := len(src) / copyChunks
	var samples []float64
	copy(dst, src) // untimed, to warm up
	for at := 0; at < len(src); at += chunk {
		start := time.Now()
		copy(dst[at:at+chunk], src[at:at+chunk])
		samples = append(samples, float64(chunk)/time.Since(start).Seconds())
	}
	if string(dst[len(dst)-8:]) != string(src[len(src)-8:]) {
		return nil, errors.New("the copy differs from its source")
	}
	return []Series{{Variant: variant, Samples: samples}}, nil
}

// mapped returns memory outside the Go heap, which the garbage collector and the race
// detector ignore. It populates all pages at once, because single page faults take
// twice as long. It is never unmapped: the process ends after the measurement.
func mapped(size int64, s pages.Size) ([]byte, error) {
	mem, err := s.Map(-1, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err == nil {
		err = pages.Populate(mem)
	}
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}

// scramble fills b with bytes that cannot be compressed. They repeat after a little
// less than 64 KiB, so that no two pages are alike.
func scramble(b []byte) {
	const period = 64<<10 - 24
	x := uint64(0x9e3779b97f4a7c15)
	for at := 0; at < min(period, len(b)); at += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], x)
		copy(b[at:min(period, len(b))], word[:])
	}
	for at := period; at < len(b); at += period {
		copy(b[at:], b[:period])
	}
}

// measureFirstTouch writes untouched memory, from a pattern that stays in the cache, so
// that reading costs almost nothing.
func measureFirstTouch(p *peer) ([]Series, error) {
	pattern := make([]byte, 16<<10)
	scramble(pattern)
	var samples []float64
	for range 3 {
		elapsed, err := firstTouch(pattern, p.Pages)
		if err != nil {
			return nil, err
		}
		samples = append(samples, modelBytes/elapsed.Seconds())
	}
	return []Series{{Variant: fmt.Sprintf("bytes=%d", modelBytes), Samples: samples}}, nil
}

func firstTouch(pattern []byte, s pages.Size) (time.Duration, error) {
	f, err := sharedMemory(modelBytes)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	mem, err := s.Map(int(f.Fd()), modelBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("map %d bytes: %w", modelBytes, err)
	}
	defer pages.Unmap(mem)
	start := time.Now()
	for at := 0; at < len(mem); at += len(pattern) {
		copy(mem[at:], pattern)
	}
	return time.Since(start), nil
}
