package floors

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/machine"
)

// modelBytes is what unix-stream moves and first-touch writes at a time: the
// histology model, since what fits into which cache decides.
const modelBytes = 66_608_288

const (
	smallestBuffer = 64 << 20  // of copy's two, even where caches are small
	largestBuffer  = 512 << 20 // even where caches are huge
	unknownBuffer  = 256 << 20 // where nobody knows
	copyChunks     = 8         // samples
)

// bufferSize returns how large each of the two buffers of copy has to be, so
// that a sweep over both of them passes through twice the last-level cache: by
// then nothing of the sweep before is left there. It never takes more than a
// quarter of the free memory; outside is false if the buffers are too small
// for that reason.
func bufferSize(llc, free int64) (size int64, outside bool) {
	size = max(smallestBuffer, min(llc, largestBuffer))
	if llc <= 0 {
		size = unknownBuffer
	}
	if most := free / 8; size > most {
		size = max(copyChunks<<20, most)
	}
	size = size / (copyChunks << 12) * (copyChunks << 12) // whole pages a chunk
	return size, llc <= 0 || size+copyChunks<<12 > llc
}

// Cached ends the condition of a floor whose memory was not outside of the caches.
const Cached = ",cached"

func measureCopy(*peer) ([]Series, error) {
	free, _ := machine.MemoryLimit()
	size, outside := bufferSize(machine.Read().LLC, free)
	variant := fmt.Sprintf("buffer=%dMiB", size>>20)
	if !outside {
		variant += Cached
	}
	src, err := mapped(size)
	if err != nil {
		return nil, err
	}
	dst, err := mapped(size)
	if err != nil {
		return nil, err
	}
	scramble(src)
	chunk := len(src) / copyChunks
	var samples []float64
	copy(dst, src) // touches dst
	for at := 0; at < len(src); at += chunk {
		start := time.Now()
		copy(dst[at:at+chunk], src[at:at+chunk])
		samples = append(samples, float64(chunk)/time.Since(start).Seconds())
	}
	if string(dst[len(dst)-8:]) != string(src[len(src)-8:]) {
		return nil, errors.New("the copy is not what was copied")
	}
	return []Series{{Variant: variant, Samples: samples}}, nil
}

// mapped returns fresh memory outside of the Go heap, where neither the
// collector nor the race detector looks. Its pages are there already: one by one they
// would take twice as long. It is not given back: the process ends with the measurement.
func mapped(size int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}

// scramble writes every byte of b with what cannot be compressed. It repeats
// after a little less than 64 KiB, so that no two pages are alike.
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

// measureFirstTouch writes memory that nobody has touched. What is written
// comes out of the cache, so that it costs next to nothing by itself.
func measureFirstTouch(*peer) ([]Series, error) {
	pattern := make([]byte, 16<<10)
	scramble(pattern)
	var samples []float64
	for range 3 {
		elapsed, err := firstTouch(pattern)
		if err != nil {
			return nil, err
		}
		samples = append(samples, modelBytes/elapsed.Seconds())
	}
	return []Series{{Variant: fmt.Sprintf("bytes=%d", modelBytes), Samples: samples}}, nil
}

func firstTouch(pattern []byte) (time.Duration, error) {
	fd, err := unix.MemfdCreate("ipcbench-floor", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, modelBytes); err != nil {
		return 0, fmt.Errorf("memfd of %d bytes: %w", modelBytes, err)
	}
	if free, source := machine.MemoryLimit(); free < 2*modelBytes {
		// The kernel would kill somebody, and not necessarily this process.
		return 0, fmt.Errorf("memfd of %d bytes: only %d bytes are free, says %s", modelBytes, free, source)
	}
	mem, err := unix.Mmap(fd, 0, modelBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return 0, fmt.Errorf("map %d bytes: %w", modelBytes, err)
	}
	defer unix.Munmap(mem)
	start := time.Now()
	for at := 0; at < len(mem); at += len(pattern) {
		copy(mem[at:], pattern)
	}
	return time.Since(start), nil
}
