package pickle

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

func root(o driver.Options) string {
	if dir := o.Settings.Get("dir"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// checkRoom makes sure that the files will be files, and that they fit.
func checkRoom(o driver.Options) error {
	dir := root(o)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if real == scratch.SharedMemory || strings.HasPrefix(real, scratch.SharedMemory+"/") {
		return fmt.Errorf("dir=%s is shared memory: choose a directory on a disk, or transport shm-tensor", dir)
	}
	free, err := machine.Room(dir)
	if err != nil {
		return fmt.Errorf("%w: set dir= to a directory that can be written to", err)
	}
	need := room(o)
	if need > float64(free) {
		return fmt.Errorf("directory %s: files need %.0f bytes, %d are free: free some, or set dir= to another disk", dir, need, free)
	}
	if isTmpfs(dir) { // whose own limit may be more than there is
		if have, limit := machine.MemoryLimit(); need > float64(have) {
			return fmt.Errorf("directory %s is a tmpfs, so that its files are memory: they need %.0f bytes, %d are available (%s): set dir= to a directory on a disk",
				dir, need, have, limit)
		}
	}
	return nil
}

// inMemory is how many bytes of the files lie in memory: all of them if their
// directory is a tmpfs, as /tmp is on some systems, and none otherwise.
func inMemory(o driver.Options) int64 {
	if !isTmpfs(root(o)) {
		return 0
	}
	return int64(min(room(o), math.MaxInt64/2))
}

func isTmpfs(dir string) bool {
	name, err := machine.FileSystem(dir) // Check tells of a directory that does not exist
	return err == nil && name == "tmpfs"
}

// room is how many bytes there may be in files at once: two models and an update for
// each lane. It is a float since those do not overflow.
func room(o driver.Options) float64 {
	elems := o.Settings.On("elems")
	down, up := fileSize(o.Down, elems), fileSize(o.Up, elems)
	return 2*down + float64(o.Lanes)*up
}

// fileSize is the most bytes of a file with tensors of layout l and a receipt of
// a page.
func fileSize(l *tensor.Layout, elems bool) float64 {
	const header, perValue = 8 << 10, 32
	size := float64(l.Payload())
	values := float64(l.Len()) + size/pieceSize
	if elems {
		size *= 2 // an i8 may take two bytes; larger elements grow by less
	}
	return header + perValue*values + size
}
