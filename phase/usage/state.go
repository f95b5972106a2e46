package usage

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// State says what a process does right now, in words and by the letter of
// /proc/PID/stat, such as "stopped (T)".
func State(pid int) string {
	letter := stateLetter(pid)
	switch letter {
	case 0:
		return "gone"
	case 'R':
		return "running (R)"
	case 'S':
		return "sleeping (S)"
	case 'D':
		return "waiting for a disk or the like (D)"
	case 'T':
		return "stopped (T)"
	case 't':
		return "stopped by a debugger (t)"
	case 'Z', 'X':
		return fmt.Sprintf("dead (%c)", letter)
	}
	return fmt.Sprintf("in state %c", letter)
}

// Stopped reports whether a process runs nothing until it is continued.
func Stopped(pid int) bool {
	letter := stateLetter(pid)
	return letter == 'T' || letter == 't'
}

// Spent returns the CPU time of a process in ticks of the kernel, 0 if there is no
// such process. It tells whether a process gets on.
func Spent(pid int) (ticks int) {
	if fields := statFields(pid); len(fields) > 12 {
		user, _ := strconv.Atoi(fields[11]) // the kernel writes numbers
		system, _ := strconv.Atoi(fields[12])
		ticks = user + system
	}
	return ticks
}

// stateLetter returns the third field of /proc/PID/stat, 0 if there is none.
func stateLetter(pid int) byte {
	if fields := statFields(pid); len(fields) > 0 {
		return fields[0][0]
	}
	return 0
}

// statFields returns the fields of /proc/PID/stat from the third on, the state.
func statFields(pid int) []string {
	var buf [512]byte
	stat := readFile(fmt.Sprintf("/proc/%d/stat", pid), buf[:])
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may hold anything
}
