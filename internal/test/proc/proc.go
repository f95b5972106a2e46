// Package proc reads what /proc tells of other processes. It tells nothing of one that has
// ended.
package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// All returns the ids of all processes.
func All() (pids []int) {
	entries, _ := os.ReadDir("/proc") // which is there
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Read returns the text of a file of a process: "environ", "maps".
func Read(pid int, name string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name)) // or it has ended
	return string(text)
}

// Network names the network of a process.
func Network(pid int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid)) // or it has ended
	return name
}

// Alive reports whether a process has not ended.
func Alive(pid int) bool {
	stat := Read(pid, "stat")
	return stat != "" && !strings.Contains(stat, ") Z ")
}

// Descriptors returns how many a process has.
func Descriptors(pid int) int {
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // or it has ended
	return len(entries)
}

// Resident returns how many bytes of memory a process has in use.
func Resident(pid int) (int, error) {
	var size, pages int
	_, err := fmt.Sscan(Read(pid, "statm"), &size, &pages)
	return pages * os.Getpagesize(), err
}
