package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
)

func kindNames() []string {
	return each(capture.Kinds(), func(k capture.Kind) string { return k.Name })
}

// isResult reports whether a file is a result, and not a profile.
func isResult(path string) (bool, error) {
	head, err := result.Peek(path)
	if err != nil {
		return false, usageError{err}
	}
	if bytes.HasPrefix(head, []byte("go 1.")) && bytes.Contains(head, []byte("trace")) {
		return false, hinted{usagef("%s: an execution trace", path), "go tool trace " + path}
	}
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")), nil
}

// profileFolder makes the folder for the profiles of the result at path, before anything
// is measured.
func profileFolder(path string) (string, error) {
	dir := result.Stem(path) + ".profiles"
	err := os.Mkdir(dir, 0o755)
	if err == nil || errors.Is(err, fs.ErrExist) {
		var try *os.File
		if try, err = os.CreateTemp(dir, "try"); err == nil {
			err = errors.Join(try.Close(), os.Remove(try.Name()))
		}
	}
	if err != nil {
		return "", hinted{usagef("--profile: %w", err), "the profiles go beside the result: choose another place with --out"}
	}
	return dir, nil
}
