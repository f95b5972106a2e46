// Package proc reads /proc, mostly for other processes. For a process that has ended, it
// returns zero values.
package proc

import (
	"encoding/binary"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// All returns the ids of all processes.
func All() (pids []int) {
	entries, _ := os.ReadDir("/proc") // /proc always exists
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Read returns the text of a file of a process, such as "environ" or "maps".
func Read(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)) // fails if the process has ended
	return string(text)
}

// Network returns a name for the network namespace of a process.
func Network(pid int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)) // fails if the process has ended
	return name
}

// Alive reports whether a process has not ended.
func Alive(pid int) bool {
	stat := Read(pid, "stat")
	return stat != "" && !strings.Contains(stat, ") Z ")
}

// Descriptors returns the number of open descriptors of a process.
func Descriptors(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // fails if the process has ended
	return len(entries)
}

// Resident returns the number of bytes of memory that a process has in use.
func Resident(pid int) (int, error) {
	var size, pages int
	_, err := fmt.Sscan(Read(pid, "statm"), &size, &pages)
	return pages * os.Getpagesize(), err
}

// Absent returns the number of pages that b, memory of this process, touches and that its
// page table does not have, so that the next write to each causes a page fault. Unlike a
// count of faults, it does not depend on what the kernel moves meanwhile: a page in
// migration or in swap is not absent.
func Absent(t testing.TB, b []byte) (pages int) {
	t.Helper()
	if len(b) == 0 {
		return 0
	}
	size := uintptr(os.Getpagesize())
	first := reflect.ValueOf(b).Pointer()
	last := first + uintptr(len(b)) - 1
	entries := make([]byte, 8*(last/size-first/size+1))
	f := check.Value(os.Open("/proc/self/pagemap"))(t)
	defer f.Close()
	check.Must(t, check.Err(f.ReadAt(entries, int64(8*(first/size)))))
	for i := 0; i < len(entries); i += 8 {
		// In swap or migration; shared; or only this process's. The page of zeroes, which
		// reads of untouched memory get, has none of them.
		if binary.NativeEndian.Uint64(entries[i:])&(1<<62|1<<61|1<<56) == 0 {
			pages++
		}
	}
	return pages
}
