package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/result"
)

// resultFile is the file that a run will write. Whether that can be done is tried
// before anything is measured; nothing stands at its path until the result does,
// so that a run that is killed leaves nothing that looks like one.
type resultFile struct {
	path string

	// Of a name that was not asked for: what stands before its number, and the
	// number. Nothing that exists is replaced.
	stem string
	n    int
}

// outFile returns the file that the user named, or one with the time in its name.
func outFile(path string) (*resultFile, error) {
	f := &resultFile{path: path}
	switch path {
	case "":
		f.stem = "ipcbench-" + time.Now().Format("20060102-150405")
		f.next()
	case "-":
		return nil, hinted{usagef("--out -: the result goes to a file"), "--format result prints it, too"}
	}
	var err error
	f.path, err = writable("--out", f.path)
	return f, err
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

// same reports whether two paths lead to one file, which need not exist yet.
func same(a, b string) bool {
	place := func(path string) string {
		path, _ = filepath.Abs(path) // fails only in a folder that is gone, where nothing can be written
		dir, base := filepath.Split(path)
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = real
		}
		return filepath.Join(dir, base)
	}
	return place(a) == place(b)
}

// next chooses the next name that does not exist, neither the file nor the folder
// of its profiles.
func (f *resultFile) next() {
	for {
		f.n++
		f.path = f.stem + ".json"
		if f.n > 1 {
			f.path = fmt.Sprintf("%s-%d.json", f.stem, f.n)
		}
		if !exists(f.path) && !exists(f.profiles()) {
			return
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// profiles returns the folder for the profiles of the result.
func (f *resultFile) profiles() string { return result.Stem(f.path) + ".profiles" }

// keep writes the result, also again and again. Two runs that chose one name get
// two.
func (f *resultFile) keep(r *bench.Result) error {
	for f.stem != "" {
		claim, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			if err = errors.Join(claim.Close(), r.WriteFile(f.path)); err != nil {
				_ = os.Remove(f.path) // an empty file would look like a result
				return err
			}
			f.stem = "" // from now on it is ours
			return nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		f.next()
	}
	return r.WriteFile(f.path)
}
