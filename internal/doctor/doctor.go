// Package doctor says what a machine would spoil of a run, why that matters and what
// fixes it. It looks and changes nothing.
//
// What the machine is like is read first, by gather; what that means for a run is said
// by the checks, which look at nothing else. Each is one entry of the list in checks.go.
package doctor

import (
	"slices"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
)

// What checks find is said in the types of package machine.
type (
	Status = machine.Status
	Check  = machine.Check
)

const (
	OK   = machine.OK
	Warn = machine.Warn
	Fail = machine.Fail
)

// Needs are what a run takes of its machine.
type Needs struct {
	Memory      Need            // bytes of a session, in all its processes
	Files       map[string]Need // bytes of files in a directory
	Mappings    Need            // of one process
	Descriptors Need            // of one process, open at the same time
	Threads     Need            // of all processes of a session
	Workers     Need            // that train at the same time
	Socket      int64           // bytes that a sender wants to have on the way; 0 if nothing large goes through sockets
	Spins       bool            // workers burn a processor while they wait
	Links       []link.Rate     // whose rates are set
}

// A Need is the largest of the run's cells.
type Need struct {
	N    int64
	Cell string // whose it is
}

// Raise makes n the need of this cell if that is larger.
func (n *Need) Raise(to int64, cell string) {
	if to > n.N {
		*n = Need{to, cell}
	}
}

// Names of checks that others know.
const (
	Build     = "build" // the race detector
	Leftovers = "leftovers"
)

// StolenShare is how much of the processors' time a hypervisor may give to others.
const StolenShare = 0.05

// Examine does all checks, in the order of their list. It watches the processors for
// that long, in which the caller does nothing.
func Examine(n Needs, watch time.Duration) []Check {
	return judge(gather(n, watch), n)
}

func judge(f *facts, n Needs) []Check {
	var all []Check
	for _, c := range checks {
		found := c.judge(f, n)
		found.Name, found.Why = c.name, c.why
		all = append(all, found)
	}
	return all
}

// Only returns the checks with one of these statuses.
func Only(all []Check, statuses ...Status) []Check {
	var some []Check
	for _, c := range all {
		if slices.Contains(statuses, c.Status) {
			some = append(some, c)
		}
	}
	return some
}
