package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folders are the folders in which a process may open paths that its server names; nil
// allows all paths. The user of a host sets them for workers of a server elsewhere.
type Folders []string

// Find returns the allowed folder that contains dir, and the path of dir relative to it.
// It fails if dir is not absolute or in none of them.
func (f Folders) Find(dir string) (folder, rest string, err error) {
	i := slices.IndexFunc(f, func(folder string) bool {
		rest, err = filepath.Rel(folder, dir)
		return err == nil && filepath.IsLocal(rest)
	})
	switch {
	case i >= 0 && filepath.IsAbs(dir):
		return f[i], rest, nil
	case len(f) == 0:
		return "", "", fmt.Errorf("folder %q is not allowed, nor is any other: see agent --allow-dir", dir)
	}
	return "", "", fmt.Errorf("folder %q is not allowed, it must be in %s: see agent --allow-dir", dir,
		strings.Join(f, ", "))
}

// Open opens dir, or fails if it is not allowed. Symbolic links cannot lead out of an
// allowed folder. The caller must close the root.
func (f Folders) Open(dir string) (*os.Root, error) {
	if f == nil {
		return os.OpenRoot(dir)
	}
	folder, rest, err := f.Find(dir)
	if err != nil {
		return nil, err
	}
	allowed, err := os.OpenRoot(folder)
	if err != nil {
		return nil, err
	}
	defer allowed.Close()
	return allowed.OpenRoot(rest)
}
