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
	"ipcbench/internal/profile/capture"
	"ipcbench/report/doc"
)

// outFile returns the path of the result: the given one, or a new name with the time in
// milliseconds. It checks that the path is writable but creates nothing, so that a killed run
// leaves no incomplete file.
func outFile(path string) (string, error) {
	if path == "-" {
		return "", hinted{usagef("--out must be a file, not -"), "--format result also prints the result"}
	}
	return writable("--out", cmp.Or(path, time.Now().Format("ipcbench-20060102-150405.000.json")))
}

// writable checks that the file of a flag can be written, and returns its path with symbolic
// links resolved: the target is replaced, not the link.
func writable(flag, path string) (string, error) {
	link, err := os.Readlink(path)
	if real, evalErr := filepath.EvalSymlinks(path); evalErr == nil {
		path = real
	} else if err == nil {
		return "", hinted{usagef("%s: %s is a link to %s, which does not exist", flag, path, link), "remove the link, or choose another file with " + flag}
	}
	info, err := os.Stat(path)
	stdout, statErr := os.Stdout.Stat()
	switch {
	case err == nil && statErr == nil && os.SameFile(info, stdout): // a second writer would replace it
		err = fmt.Errorf("%s is the standard output", path)
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
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
	if p := (*fs.PathError)(nil); errors.As(err, &p) { // hides the name of the temporary file
		err = &fs.PathError{Op: p.Op, Path: path, Err: p.Err}
	}
	if err != nil {
		return "", hinted{usagef("%s: %w", flag, err), "choose another file with " + flag}
	}
	return path, nil
}

// keep writes a result to path or, if that fails, to a new file in TMPDIR. It returns the
// path of the file, which is empty if there is none, and the error of the first try.
func keep(r *result.Result, path string) (file string, err error) {
	if err = r.WriteFile(path); err == nil {
		return path, nil
	}
	f, err2 := os.CreateTemp("", filepath.Base(result.Stem(path))+"-*.json")
	if err2 == nil {
		if err2 = errors.Join(r.Write(f), f.Close()); err2 == nil {
			return f.Name(), fmt.Errorf("%w: the result is in %s instead", err, f.Name())
		}
		_ = os.Remove(f.Name())
	}
	return "", err
}

// same reports whether two paths name the same file. The files need not exist, but their
// directories must.
func same(a, b string) bool {
	folderA, errA := os.Stat(filepath.Dir(a))
	folderB, errB := os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(folderA, folderB) && filepath.Base(a) == filepath.Base(b)
}

func kindNames() []string {
	return doc.Each(capture.Kinds(), func(k capture.Kind) string { return k.Name })
}

// profileFolder creates the directory for the profiles of the result at path. It is called
// before measuring, so that a failure costs nothing.
func profileFolder(path string) (string, error) {
	dir := result.Stem(path) + ".profiles"
	err := os.Mkdir(dir, 0o755)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = result.TryWrite(filepath.Join(dir, "try"))
	}
	if err != nil {
		hint := "profiles are stored beside the result: choose another directory with --out"
		return "", hinted{usagef("--profile: %w", err), hint}
	}
	return dir, nil
}
