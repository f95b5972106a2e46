package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ipcbench/bench"
)

// resultFile is the file that a run will write. It is claimed before anything is
// measured, so that a place where nothing can be written is told at once, and
// two runs never take the same name.
type resultFile struct {
	path string
	made bool // by us, and empty so far
}

// outFile claims the file that the user named, or one with the time in its name.
func outFile(path string) (*resultFile, error) {
	const mode = 0o644
	if path == "" {
		stamp := time.Now().Format("20060102-150405")
		for n := 1; ; n++ {
			path = "ipcbench-" + stamp + ".json"
			if n > 1 {
				path = fmt.Sprintf("ipcbench-%s-%d.json", stamp, n)
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
			if err == nil {
				return &resultFile{path, true}, f.Close()
			}
			if !errors.Is(err, fs.ErrExist) {
				return nil, cannotWrite(err)
			}
		}
	}
	// The result replaces the file that a link leads to, not the link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			return nil, cannotWrite(err)
		}
		return &resultFile{path, true}, f.Close()
	case err != nil:
		return nil, cannotWrite(err)
	case !info.Mode().IsRegular():
		return nil, cannotWrite(fmt.Errorf("%s is no regular file", path))
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, cannotWrite(err)
	}
	return &resultFile{path: path}, f.Close()
}

func cannotWrite(err error) error {
	return hinted{usagef("--out: %w", err), "choose another file with --out"}
}

// keep writes the result.
func (f *resultFile) keep(r *bench.Result) error {
	err := r.WriteFile(f.path)
	if err == nil {
		f.made = false
	}
	return err
}

// discard removes the file if it was claimed and never written: an empty one
// would look like a result.
func (f *resultFile) discard() {
	if f.made {
		_ = os.Remove(f.path) // best effort: the run's own error matters more
	}
}
