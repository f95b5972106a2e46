package usage

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/procfs"
)

// A Memory is how much memory a process has resident.
//
// A page that several processes map counts whole in the RSS of each, so sums
// over processes are made of PSS, where each of them has its share.
type Memory struct {
	// the most resident memory during the block
	//
	// It is the peak since the process started, or since ResetPeak.
	Peak int64 `json:"peak_rss_bytes"`
	// resident memory: the sum of the next three
	RSS int64 `json:"rss_bytes"`
	// the heap and other private memory
	Anon int64 `json:"rss_anon_bytes"`
	// mapped files, such as the program
	File int64 `json:"rss_file_bytes"`
	// shared memory, such as that of memfd and of `/dev/shm`
	Shmem int64 `json:"rss_shmem_bytes"`
	// resident memory, where a page that several processes share counts in equal parts
	PSS *int64 `json:"pss_bytes,omitempty"`
}

// ReadMemory returns what this process has resident. It takes milliseconds in a
// process that maps gigabytes, as the kernel looks at every page.
//
// The peak is not getrusage's ru_maxrss: a process inherits that from the one
// which started it.
func ReadMemory() (Memory, error) {
	p, status, err := readStatus()
	if err != nil {
		return Memory{}, err
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

// ReadPeak returns the Peak of ReadMemory alone, without a look at every page.
func ReadPeak() (int64, error) {
	_, status, err := readStatus()
	return int64(status.VmHWM), err
}

func readStatus() (procfs.Proc, procfs.ProcStatus, error) {
	p, err := procfs.Self()
	var status procfs.ProcStatus
	if err == nil {
		status, err = p.NewStatus()
	}
	if err == nil && (status.VmHWM == 0 || status.VmRSS == 0) {
		err = errors.New("VmHWM or VmRSS is missing in /proc/self/status")
	}
	if err != nil {
		err = fmt.Errorf("usage: read memory: %w", err)
	}
	return p, status, err
}

// ResetPeak makes the peak of this process start again from what is resident
// now, for a process that outlives what is measured.
func ResetPeak() error {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("usage: reset peak: %w", err)
	}
	return nil
}
