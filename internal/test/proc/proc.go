// Package proc reads /proc for other processes. For a process that has ended, it returns
// zero values.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
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
