package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Folders are those below which a process opens what its server names; nil is anywhere.
// A worker that is started for a server on another host opens nothing but what the user
// of its host has allowed.
type Folders []string

// Find returns the folder that dir is, or lies below, and the way from there.
func (f Folders) Find(dir string) (folder, rest string, err error) {
	i := slices.IndexFunc(f, func(folder string) bool {
		rest, err = filepath.Rel(folder, dir)
		return err == nil && filepath.IsLocal(rest)
	})
	switch {
	case i >= 0 && filepath.IsAbs(dir):
		return f[i], rest, nil
	case len(f) == 0:
		return "", "", fmt.Errorf("folder %q is not allowed, and no other is: see agent --allow-dir", dir)
	}
	return "", "", fmt.Errorf("folder %q is not allowed, only what lies below %s: see agent --allow-dir", dir, strings.Join(f, ", "))
}

// Open opens dir. No link leads out of what is allowed.
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
