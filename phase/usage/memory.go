package usage

import (
	"errors"
	"fmt"
	"os"

	"github.com/prometheus/procfs"

	"ipcbench/tensor/pages"
)

// A Memory is the resident memory of a process.
//
// A page that several processes map counts fully in the RSS of each. Sums over processes
// therefore use PSS, in which each process has its share.
type Memory struct {
	// the largest resident memory during the block
	//
	// It is the peak since the start of the process, or since ResetPeak.
	Peak int64 `json:"peak_rss_bytes"`
	// resident memory: the sum of the next three
	RSS int64 `json:"rss_bytes"`
	// the heap and other private memory
	Anon int64 `json:"rss_anon_bytes"`
	// mapped files, such as the program
	File int64 `json:"rss_file_bytes"`
	// shared memory, such as memfds and files in `/dev/shm`
	Shmem int64 `json:"rss_shmem_bytes"`
	// resident memory, in which pages shared by several processes count in equal parts;
	// absent if the kernel does not count it
	PSS *int64 `json:"pss_bytes,omitempty"`
	// memory of tensors in whole aligned ranges of 2 MiB
	Whole int64 `json:"whole_bytes,omitempty"`
	// the part of it in huge pages that this process maps as such; of Go's heap, unless a size of
	// pages was asked for, an upper bound
	Huge int64 `json:"huge_bytes,omitempty"`
}

// ReadMemory returns the resident memory of this process. It takes milliseconds if the
// process maps gigabytes, because the kernel visits every page.
//
// The peak is not getrusage's ru_maxrss, because a process inherits ru_maxrss from the
// process that started it.
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
	m.Whole, m.Huge, err = pages.Observe()
	return m, err
}

// ReadPeak returns only the Peak of ReadMemory, without visiting every page.
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

// ResetPeak sets the peak of this process to its current resident memory. Processes that
// outlive a measurement need it.
func ResetPeak() error {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return fmt.Errorf("usage: reset peak: %w", err)
	}
	return nil
}
