package trainer

import (
	"errors"
	"math"
	"sync"

	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
	"ipcbench/phase/usage"
)

// meter sums the usage and counters of one process per window. Its methods may be called
// concurrently: a lane may end while the process handles a mark.
type meter struct {
	rec     *phase.Recorder
	capture *capture.Capture // nil unless the process is profiled

	mu         sync.Mutex                  // guards the fields below
	usage      map[Window]usage.Usage      // so far
	counts     map[Window]map[string]int64 // so far
	window     Window                      // the open one
	paused     bool                        // usage is not added to the open window
	sinceUsage usage.Usage
	sinceCount map[string]int64
	memory     usage.Memory // at the end of the last timed window
	surveyed   bool         // no timed window has ended since memory was read
}

func newMeter(rec *phase.Recorder) *meter {
	return &meter{rec: rec, surveyed: true, usage: map[Window]usage.Usage{}, counts: map[Window]map[string]int64{}}
}

// begin opens the first window. It includes everything that this process has used since
// its start.
func (m *meter) begin(w Window) {
	m.window = w
	// Not nil, so that differences from later readings are not nil either.
	m.sinceUsage = usage.Usage{Queue: &usage.Queue{}, IO: &usage.IO{}}
}

// mark moves the process to window w, whose first round is round. Profiles are taken while
// w is Timed.
func (m *meter) mark(w Window, round int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w != Timed {
		if err := m.capture.Stop(); err != nil {
			return err
		}
	}
	if err := m.enter(w, round); err != nil {
		return err
	}
	if w == Timed {
		return m.capture.Start()
	}
	return nil
}

// enter ends the open window and begins w. m.mu must be held.
func (m *meter) enter(w Window, round int) error {
	if w == m.window {
		return nil
	}
	now, err := usage.Read()
	if err != nil {
		return err
	}
	counts := m.rec.Counts()
	if m.window == Timed {
		m.surveyed = false
	}
	if m.window != Outside {
		if !m.paused {
			m.usage[m.window] = m.usage[m.window].Add(now.Since(m.sinceUsage))
		}
		sum := m.counts[m.window]
		if sum == nil {
			sum = map[string]int64{}
			m.counts[m.window] = sum
		}
		for name, n := range counts {
			if d := n - m.sinceCount[name]; d != 0 {
				sum[name] += d
			}
		}
	}
	if w == Timed { // only samples of timed rounds are of use, and the room for samples is limited
		m.rec.From(round)
	} else {
		m.rec.Until(round)
	}
	m.window, m.paused, m.sinceUsage, m.sinceCount = w, false, now, counts
	return nil
}

// pause excludes the usage of the process from the open window until it is called with
// false. Counters are not paused, because the last bytes of a round may be counted after
// its end.
func (m *meter) pause(paused bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.window == Outside || m.paused == paused {
		return nil
	}
	now, err := usage.Read()
	if err != nil {
		return err
	}
	if paused {
		m.usage[m.window] = m.usage[m.window].Add(now.Since(m.sinceUsage))
	}
	m.paused, m.sinceUsage = paused, now
	return nil
}

// survey reads the resident memory of the process after a timed window, because the shared
// memory is gone at the end of a session. Its own cost is not part of any window.
func (m *meter) survey() (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.surveyed {
		return nil
	}
	m.memory, err = usage.ReadMemory()
	m.surveyed = err == nil
	return err
}

func (m *meter) totals() (Totals, error) {
	err := m.mark(Outside, math.MaxInt)
	m.mu.Lock()
	defer m.mu.Unlock()
	memory := m.memory
	var memErr error
	if memory.RSS == 0 { // the session ended before its first timed window did
		memory, memErr = usage.ReadMemory()
	} else {
		memory.Peak, memErr = usage.ReadPeak()
	}
	cpus, cpusErr := usage.Affinity()
	samples, lost := m.rec.Drain()
	return Totals{
			Samples: samples, Lost: lost, Counts: m.counts, Usage: m.usage, Memory: memory, CPUs: cpus,
			Profiles: m.capture.Pieces(),
		},
		errors.Join(err, memErr, cpusErr)
}
