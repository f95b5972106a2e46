// Package doctor checks a machine for problems that distort runs, and names remedies.
// It changes nothing.
//
// First, gather reads the facts about the machine. Then each check judges these facts and
// reads nothing else. The list of checks is in checks.go.
package doctor

import (
	"slices"
	"time"

	"ipcbench/internal/link"
	"ipcbench/internal/machine"
)

// The results of checks have types of package machine.
type (
	Status = machine.Status
	Check  = machine.Check
)

const (
	OK   = machine.OK
	Warn = machine.Warn
	Fail = machine.Fail
)

// Needs are the resources that a run needs.
type Needs struct {
	Memory      Need            // bytes of memory of all processes of a session
	Files       map[string]Need // bytes of files, by directory
	Mappings    Need            // memory mappings of one process
	Descriptors Need            // descriptors of one process at the same time
	Threads     Need            // threads of all processes of a session
	Workers     Need            // workers that train at the same time
	Socket      int64           // bytes that a sender should have in flight; 0 if sockets carry nothing large
	Spins       bool            // workers spin while they wait
	Links       []link.Rate     // rates of the run's links
}

// A Need is the largest need of all cells of a run for one resource.
type Need struct {
	N    int64
	Cell string // the cell with this need
}

// Raise sets n to the need of cell if that is larger.
func (n *Need) Raise(to int64, cell string) {
	if to > n.N {
		*n = Need{to, cell}
	}
}

// Names of checks that other packages refer to.
const (
	Build     = "build" // commit and race detector
	Leftovers = "leftovers"
)

// StolenShare is the share of processor time that a hypervisor may give to other machines
// without a warning.
const StolenShare = 0.05

// Examine does all checks, in the order of display. It observes the processors' load for
// the duration watch, during which this process must be idle.
func Examine(n Needs, watch time.Duration) []Check {
	return judge(gather(n, watch))
}

func judge(f *facts) []Check {
	var all []Check
	for _, c := range checks {
		found := c.judge(f)
		found.Name, found.Why = c.name, c.why
		all = append(all, found)
	}
	return all
}

// Only returns the checks with one of these statuses.
func Only(all []Check, statuses ...Status) []Check {
	return slices.DeleteFunc(slices.Clone(all), func(c Check) bool { return !slices.Contains(statuses, c.Status) })
}
