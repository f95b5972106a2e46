package trainer

import (
	"fmt"
	"os"

	"ipcbench/phase/usage"
)

// A Place is where a process runs.
type Place struct {
	Host string // name of its machine
	PID  int    // process ID on that machine; 0 for goroutines of the server's process
	Here bool   // on this machine, so that signals can reach it
}

// here returns the place of a process on this machine.
func here(pid int) Place {
	host, _ := os.Hostname() // only displayed, so it may be empty
	return Place{Host: host, PID: pid, Here: true}
}

func (p Place) String() string {
	switch {
	case p.PID == 0:
		return "a goroutine"
	case p.Here:
		return fmt.Sprintf("pid %d", p.PID)
	}
	return fmt.Sprintf("pid %d on %s", p.PID, p.Host)
}

// state describes the process, with its state according to the kernel if it is on this machine.
func (p Place) state() string {
	if p.PID > 0 && p.Here {
		return fmt.Sprintf("%v is %s", p, usage.State(p.PID))
	}
	return fmt.Sprintf("it is %v", p)
}

// ProcessName returns the name of process n of a session in profiles.
func ProcessName(n int) string { return fmt.Sprintf("process-%d", n) }
