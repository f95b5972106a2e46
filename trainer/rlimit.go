package trainer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// Threads that a worker process has at least, and that this one may come to
// need besides those that it has. Where the kernel refuses a thread, the Go
// runtime ends the process: so there has to be room before one is started.
const (
	workerThreads = 6
	spareThreads  = 8
)

// fewThreads is the limit from which on nobody counts.
const fewThreads = 2048

// checkThreads reports that another process would not fit into the user's limit of
// threads, which does not hold for root.
func checkThreads() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &limit); err != nil || limit.Cur >= fewThreads || os.Geteuid() == 0 {
		return nil // a limit that cannot be read is not checked
	}
	if n := userThreads(os.Geteuid()); uint64(n+workerThreads+spareThreads) > limit.Cur {
		return fmt.Errorf("this user has %d threads, and another process and the server need up to %d more: %w",
			n, workerThreads+spareThreads, unix.EAGAIN)
	}
	return nil
}

// userThreads counts the threads of a user's processes that this one can see.
func userThreads(uid int) int {
	sum := 0
	all, _ := filepath.Glob("/proc/[0-9]*/status") // the pattern is well-formed
	for _, path := range all {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		threads, mine := 0, false
		for line := range bytes.Lines(status) {
			switch f := bytes.Fields(line); {
			case len(f) > 1 && string(f[0]) == "Threads:":
				threads, _ = strconv.Atoi(string(f[1])) // the kernel's own number
			case len(f) > 1 && string(f[0]) == "Uid:":
				mine = string(f[1]) == strconv.Itoa(uid)
			}
		}
		if mine {
			sum += threads
		}
	}
	return sum
}

// startError says what to try where the user's limit of threads keeps process n
// from starting.
func startError(n int, err error) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.EAGAIN) && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil {
		return fmt.Errorf("process %d: %w: the limit is %d (ulimit -u): raise it, or choose fewer workers or more lanes a process",
			n, err, limit.Cur)
	}
	return fmt.Errorf("process %d: %w", n, err)
}
