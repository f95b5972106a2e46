package clock

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// An ID says which clock a process reads: which start of which machine, and in which
// time namespace. Empty is what nobody knows.
type ID struct {
	Boot string `json:"boot"`
	Time string `json:"time"`
}

// Here returns the ID of this process's clock.
func Here() ID {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ID{}
	}
	name, err := os.Readlink("/proc/self/ns/time")
	if errors.Is(err, fs.ErrNotExist) {
		name = "none" // a kernel without time namespaces
	}
	return ID{Boot: strings.TrimSpace(string(boot)), Time: name}
}

// Same reports whether two IDs name one clock. Copies of a virtual machine may have the
// same ID and a clock each, so that bounds have to hold zero besides.
func (a ID) Same(b ID) bool { return a == b && a.Boot != "" && a.Time != "" }
