package usage

import "github.com/prometheus/procfs"

// State describes the current state of a process, such as "stopped (T)". The letter is
// the one in /proc/PID/stat.
func State(pid int) string {
	letter := stat(pid).State
	switch letter {
	case "":
		return "gone"
	case "R":
		return "running (R)"
	case "S":
		return "sleeping (S)"
	case "D":
		return "waiting for a disk or the like (D)"
	case "T":
		return "stopped (T)"
	case "t":
		return "stopped by a debugger (t)"
	case "Z", "X":
		return "dead (" + letter + ")"
	}
	return "in state " + letter
}

// Stopped reports whether a process is stopped, and so runs nothing until it is
// continued.
func Stopped(pid int) bool {
	letter := stat(pid).State
	return letter == "T" || letter == "t"
}

// ChildrenOf returns the ids of the children of process pid, including zombies.
func ChildrenOf(pid int) (children []int, err error) {
	all, err := procfs.AllProcs()
	for _, p := range all {
		if stat(p.PID).PPID == pid {
			children = append(children, p.PID)
		}
	}
	return children, err
}

// stat returns the contents of /proc/PID/stat, or zero if the process has ended.
func stat(pid int) procfs.ProcStat {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}
	}
	s, err := p.Stat()
	if err != nil {
		return procfs.ProcStat{}
	}
	return s
}
