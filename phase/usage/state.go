package usage

import (
	"bytes"
	"fmt"
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

// stateLetter returns the third field of /proc/PID/stat, 0 if there is none.
func stateLetter(pid int) byte {
	var buf [512]byte
	stat := readFile(fmt.Sprintf("/proc/%d/stat", pid), buf[:])
	rest := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before it may hold anything
	if len(rest) < 2 || rest[0] != ' ' {
		return 0
	}
	return rest[1]
}
