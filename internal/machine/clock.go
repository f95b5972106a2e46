package machine

import (
	"errors"
	"io/fs"
	"os"
)

// A Clock identifies the clock that a process reads, by the machine's boot id and the
// time namespace. Empty fields are unknown.
type Clock struct {
	Boot string `json:"boot"`
	Time string `json:"time"`
}

// OwnClock returns the clock of this process.
func OwnClock() Clock {
	name, err := os.Readlink("/proc/self/ns/time")
	if errors.Is(err, fs.ErrNotExist) {
		name = "none" // a kernel without time namespaces
	}
	return Clock{Boot: text("/", "proc/sys/kernel/random/boot_id"), Time: name}
}

// Same reports whether c and other are certainly one clock.
func (c Clock) Same(other Clock) bool { return c == other && c.Boot != "" && c.Time != "" }
