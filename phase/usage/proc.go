package usage

import (
	"bytes"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// The files that Read looks at are read here and not through procfs, which
// takes 60 µs and a hundred allocations for them: these would be counted as
// the cost of what lies between the marks.

// readFile fills buf from the start of a file of /proc, and returns what it
// got, nil for nothing.
func readFile(path string, buf []byte) []byte {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, buf)
	if err != nil || n <= 0 {
		return nil
	}
	return buf[:n]
}

// readQueue adds up what each thread has waited. /proc/self/schedstat is no
// short cut: it holds the main thread alone.
func readQueue() *Queue {
	const dir = "/proc/self/task"
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var q *Queue
	var entries [4096]byte
	var text [128]byte
	for {
		n, err := unix.ReadDirent(fd, entries[:])
		if err != nil {
			return nil
		}
		if n <= 0 {
			return q
		}
		_, _, threads := unix.ParseDirent(entries[:n], -1, nil)
		for _, thread := range threads {
			wait, ok := parseSchedstat(readFile(dir+"/"+thread+"/schedstat", text[:]))
			if !ok {
				continue // the thread is gone
			}
			if q == nil {
				q = &Queue{}
			}
			q.Wait += wait
		}
	}
}

// parseSchedstat takes the second number of "running waiting slices", in
// nanoseconds.
func parseSchedstat(text []byte) (time.Duration, bool) {
	_, rest, _ := bytes.Cut(text, []byte(" "))
	field, _, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(string(field), 10, 64)
	return time.Duration(n), err == nil && n >= 0
}

func readIO() *IO {
	var buf [512]byte
	return parseIO(readFile("/proc/self/io", buf[:]))
}

// parseIO returns nil if one of the four numbers is missing.
func parseIO(text []byte) *IO {
	var io IO
	found := 0
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		var field *int64
		switch string(key) {
		case "rchar":
			field = &io.ReadBytes
		case "wchar":
			field = &io.WrittenBytes
		case "syscr":
			field = &io.ReadCalls
		case "syscw":
			field = &io.WriteCalls
		default:
			continue
		}
		n, err := strconv.ParseInt(string(value), 10, 64)
		if err != nil {
			return nil
		}
		*field = n
		found++
	}
	if found != 4 {
		return nil
	}
	return &io
}
