package pages

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Lent memory that has at least one whole huge page, by address.
var (
	mu   sync.Mutex
	lent = map[uintptr]int{} // guarded by mu: its size
)

func add(at uintptr, n int) {
	mu.Lock()
	defer mu.Unlock()
	lent[at] = n
}

func remove(at uintptr) {
	mu.Lock()
	defer mu.Unlock()
	delete(lent, at)
}

// Forget leaves out of [Observe] all memory that was made before, of which some may be garbage.
func Forget() {
	mu.Lock()
	defer mu.Unlock()
	clear(lent)
}

// Observe returns the bytes of lent memory in whole aligned ranges of Bytes that are present, and how many of
// them are in huge pages that this process maps as such. Of memory on Go's heap under System, that is an upper bound,
// because the kernel counts huge pages by mapping.
func Observe() (whole, huge int64, err error) {
	mu.Lock()
	ranges := maps.Clone(lent)
	mu.Unlock()
	return observed(ranges)
}

func observed(ranges map[uintptr]int) (whole, huge int64, err error) {
	if len(ranges) == 0 { // reading takes long with many mappings
		return 0, 0, nil
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return 0, 0, fmt.Errorf("pages: %w", err)
	}
	defer f.Close()
	return observe(f, ranges)
}

// bounds returns the addresses in the first line of a mapping.
func bounds(line string) (from, to uintptr, ok bool) {
	first, rest, found := strings.Cut(line, "-")
	last, _, _ := strings.Cut(rest, " ")
	start, err := strconv.ParseUint(first, 16, 64)
	end, err2 := strconv.ParseUint(last, 16, 64)
	return uintptr(start), uintptr(end), found && err == nil && err2 == nil
}

// observe reads mappings in the format of smaps.
func observe(smaps io.Reader, ranges map[uintptr]int) (whole, huge int64, err error) {
	starts := slices.Sorted(maps.Keys(ranges))
	var part, present, found int64 // of the current mapping
	end := func() {
		part = min(part, present)
		whole, huge = whole+part, huge+min(part, found)
		part, present, found = 0, 0, 0
	}
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		if from, to, ok := bounds(lines.Text()); ok {
			end()
			i, _ := slices.BinarySearch(starts, from)
			for i = max(0, i-1); i < len(starts) && starts[i] < to; i++ {
				first := (max(from, starts[i]) + Bytes - 1) / Bytes
				last := min(to, starts[i]+uintptr(ranges[starts[i]])) / Bytes
				if last > first {
					part += int64(last-first) * Bytes
				}
			}
			continue
		}
		name, value, _ := strings.Cut(lines.Text(), ":")
		amount := map[string]*int64{"Rss": &present, "AnonHugePages": &found, "ShmemPmdMapped": &found, "FilePmdMapped": &found}[name]
		if amount == nil {
			continue
		}
		var kb int64
		if _, err := fmt.Sscanf(value, "%d kB", &kb); err != nil {
			return 0, 0, fmt.Errorf("pages: %q in smaps: %w", lines.Text(), err)
		}
		*amount += kb << 10
	}
	end()
	return whole, huge, lines.Err()
}
