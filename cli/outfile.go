package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ipcbench/bench/result"
)

// outFile returns the path of the result: the one that the user named, or one with the
// time in its name, to the millisecond, so that it is new. Whether it can be written is
// tried before anything is measured; nothing stands there until the result does, so that
// a run that is killed leaves nothing that looks like one.
func outFile(path string) (string, error) {
	if path == "-" {
		return "", hinted{usagef("--out -: the result goes to a file"), "--format result prints it, too"}
	}
	return writable("--out", cmp.Or(path, time.Now().Format("ipcbench-20060102-150405.000.json")))
}

// writable tries whether a file can be written that a flag names, and returns its
// path: what a link leads to is replaced, not the link.
func writable(flag, path string) (string, error) {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is no regular file", path)
	case err == nil:
		var old *os.File
		if old, err = os.OpenFile(path, os.O_WRONLY, 0); err == nil {
			err = old.Close()
		}
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	}
	if err == nil {
		err = result.TryWrite(path)
	}
	if p := (*fs.PathError)(nil); errors.As(err, &p) { // the name of the try means nothing to the user
		err = &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	if err != nil {
		return "", hinted{usagef("%s: %w", flag, err), "choose another file with " + flag}
	}
	return path, nil
}

// same reports whether two paths lead to one file, which need not exist yet, in folders
// that do.
func same(a, b string) bool {
	folderA, errA := os.Stat(filepath.Dir(a))
	folderB, errB := os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(folderA, folderB) && filepath.Base(a) == filepath.Base(b)
}
