package usage

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// A System is the CPU time of a whole machine, summed over its processors. The kernel
// counts it in steps of 10 ms.
//
// ReadSystem returns the time since the machine started, and Since the time between two
// marks.
type System struct {
	Busy  time.Duration `json:"busy_ns"`  // time in which processors were busy
	Idle  time.Duration `json:"idle_ns"`  // time in which processors were idle
	Steal time.Duration `json:"steal_ns"` // time that the hypervisor gave to other machines
}

// ReadSystem returns the machine's CPU time since it started.
func ReadSystem() (System, error) {
	var buf [512]byte // the first line fits
	s, err := parseStat(readFile("/proc/stat", buf[:]))
	if err != nil {
		return System{}, fmt.Errorf("usage: /proc/stat: %w", err)
	}
	return s, nil
}

// Since returns the CPU time between v, which was read earlier, and s.
func (s System) Since(v System) System {
	// Idle time may decrease slightly when a processor goes offline.
	return System{Busy: max(0, s.Busy-v.Busy), Idle: max(0, s.Idle-v.Idle), Steal: max(0, s.Steal-v.Steal)}
}

// tick is the unit of /proc/stat: USER_HZ is 100 on every platform of Go.
const tick = 10 * time.Millisecond

// parseStat parses the first line of /proc/stat: "cpu" and then user, nice, system,
// idle, iowait, irq, softirq and steal. It ignores guest and guest_nice, which are parts
// of user and nice.
func parseStat(text []byte) (System, error) {
	line, _, ok := bytes.Cut(text, []byte("\n"))
	fields := bytes.Fields(line)
	if !ok || len(fields) < 9 || string(fields[0]) != "cpu" {
		return System{}, fmt.Errorf("unexpected first line %q", line)
	}
	var t [8]time.Duration
	for i := range t {
		n, err := strconv.ParseInt(string(fields[i+1]), 10, 64)
		if err != nil {
			return System{}, err
		}
		t[i] = time.Duration(n) * tick
	}
	return System{Busy: t[0] + t[1] + t[2] + t[5] + t[6], Idle: t[3] + t[4], Steal: t[7]}, nil
}
