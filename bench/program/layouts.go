package program

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/internal/reexec"
)

// layouts hashes all executables of a build. No two may be identical.
func (p *Program) layouts() ([]result.Layout, error) {
	var all []result.Layout
	for i, file := range p.files {
		if file == "" && (p.name == result.Base || i > 0) {
			err := fmt.Errorf("%s: an entry of the list is empty: it must be files, separated by commas", p.flag)
			return nil, &BuildError{err}
		}
		sum, err := digest(cmp.Or(file, reexec.Self))
		if err != nil {
			return nil, &BuildError{fmt.Errorf("%s: %w", p.flag, err)}
		}
		if j := slices.IndexFunc(all, func(l result.Layout) bool { return l.SHA256 == sum }); j >= 0 {
			return nil, &BuildError{fmt.Errorf("%s %s: the same bytes as %s: name another layout of the same commit",
				p.flag, file, p.fileName(j))}
		}
		all = append(all, result.Layout{File: filepath.Base(cmp.Or(file, os.Args[0])), SHA256: sum})
	}
	return all, nil
}

func (p *Program) fileName(layout int) string { return cmp.Or(p.files[layout], "this program") }

func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s: not a regular file", path))
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}
