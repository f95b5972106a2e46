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
	"ipcbench/transports/internal/gobs"
)

// root returns the directory in which the session's own directory is created.
func root(o driver.Options) string {
	if dir := o.Settings.Get("dir"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// checkRoom returns an error if the files would be in shared memory or would not fit.
func checkRoom(o driver.Options) error {
	dir := root(o)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("directory: %w", err)
	}
	if real == scratch.SharedMemory || strings.HasPrefix(real, scratch.SharedMemory+"/") {
		return fmt.Errorf("dir=%s is in shared memory: use a directory on a disk, or transport shm-tensor", dir)
	}
	free, err := machine.Room(dir)
	if err != nil {
		return fmt.Errorf("%w: set dir=DIR to a writable directory", err)
	}
	need := room(o)
	if need > float64(free) {
		return fmt.Errorf("directory %s: files need %.0f bytes, %d are free: free some space or set dir=DIR to another disk", dir, need, free)
	}
	if isTmpfs(dir) { // its free space may exceed the available memory
		if have, limit := machine.MemoryLimit(); need > float64(have) {
			return fmt.Errorf("directory %s is a tmpfs, so its files use memory: they need %.0f bytes, %d are available (%s): set dir=DIR to a directory on a disk",
				dir, need, have, limit)
		}
	}
	return nil
}

// inMemory returns the number of file bytes that use memory: all if the directory is a
// tmpfs, as /tmp is on some systems, and 0 otherwise.
func inMemory(o driver.Options) int64 {
	if !isTmpfs(root(o)) {
		return 0
	}
	return int64(min(room(o), math.MaxInt64/2))
}

func isTmpfs(dir string) bool {
	name, err := machine.FileSystem(dir) // Check reports a missing directory
	return err == nil && name == "tmpfs"
}

// room returns the maximum number of bytes in files: two models, and an update per lane.
// It is a float to avoid overflow.
func room(o driver.Options) float64 {
	elems := o.Settings.On("elems")
	down, up := fileSize(o.Down, elems), fileSize(o.Up, elems)
	return 2*down + float64(o.Lanes)*up
}

// fileSize bounds the size of a file with tensors of layout l and a receipt of one page.
func fileSize(l *tensor.Layout, elems bool) float64 {
	const header, perValue = 8 << 10, 32
	size := float64(l.Payload())
	values := float64(l.Len()) + size/gobs.PieceSize
	if elems {
		size *= 2 // an i8 may take two bytes; larger elements grow by less
	}
	return header + perValue*values + size
}
