package trainer

import (
	"fmt"
	"os"

	"ipcbench/phase/usage"
)

// A Place says where a process is.
type Place struct {
	Host string // the name of its machine
	PID  int    // its number there; 0 if it is goroutines of the server's process
	Here bool   // on this machine, where signals reach it
}

// here is the place of a process of this machine.
func here(pid int) Place {
	host, _ := os.Hostname() // for display; a machine without a name is one
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

// state says what the kernel says of the process.
func (p Place) state() string {
	if p.PID > 0 && p.Here {
		return fmt.Sprintf("%v is %s", p, usage.State(p.PID))
	}
	return fmt.Sprintf("it is %v", p)
}

// ProcessName returns the name of process n of a session in profiles.
func ProcessName(n int) string { return fmt.Sprintf("process-%d", n) }
