package usage

import (
	"fmt"
	"os"

	"github.com/prometheus/procfs"
)

// A Memory is how much memory a process has resident.
//
// A page that several processes map counts whole in the RSS of each, so sums
// over processes are made of PSS, where each of them has its share.
type Memory struct {
	Peak  int64  `json:"peak_rss_bytes"`      // the largest RSS since the start, or since ResetPeak
	RSS   int64  `json:"rss_bytes"`           // Anon + File + Shmem
	Anon  int64  `json:"rss_anon_bytes"`      // the heap and other private memory
	File  int64  `json:"rss_file_bytes"`      // programs and other mapped files
	Shmem int64  `json:"rss_shmem_bytes"`     // memfd, /dev/shm and other shared memory
	PSS   *int64 `json:"pss_bytes,omitempty"` // absent where the kernel does not tell
}

// ReadMemory returns what this process has resident. It takes milliseconds in a
// process that maps gigabytes, as the kernel looks at every page.
//
// The peak is not getrusage's ru_maxrss: a process inherits that from the one
// which started it.
func ReadMemory() (Memory, error) {
	p, err := procfs.Self()
	if err != nil {
		return Memory{}, fmt.Errorf("usage: read memory: %w", err)
	}
	status, err := p.NewStatus()
	if err != nil {
		return Memory{}, fmt.Errorf("usage: read memory: %w", err)
	}
	if status.VmHWM == 0 || status.VmRSS == 0 {
		return Memory{}, fmt.Errorf("usage: read memory: VmHWM or VmRSS is missing in /proc/self/status")
	}
	m := Memory{
		Peak:  int64(status.VmHWM),
		RSS:   int64(status.VmRSS),
		Anon:  int64(status.RssAnon),
		File:  int64(status.RssFile),
		Shmem: int64(status.RssShmem),
	}
	if rollup, err := p.ProcSMapsRollup(); err == nil {
		pss := int64(rollup.Pss)
		m.PSS = &pss
	}
	return m, nil
}

// ResetPeak makes the peak of this process start again from what is resident
// now, for a process that outlives what is measured.
func ResetPeak() error {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("usage: reset peak: %w", err)
	}
	return nil
}
