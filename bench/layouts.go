package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"ipcbench/bench/exchange"
	"ipcbench/internal/machine"
	"ipcbench/internal/reexec"
)

// Where a linker puts a function may decide how fast it is: the same instructions have
// taken 1.75 times as long 32 bytes further on. So a side of an interleaved run can have
// several layouts of one build, and each block of a cell runs in the next one.
// Blocks then differ by what linkers do too, and that is in the intervals.

// A BuildError is that of a file which cannot take part in an interleaved run.
type BuildError struct{ error }

func (b *BuildError) Unwrap() error { return b.error }

// A side is one of the two builds of an interleaved run.
type side struct {
	build string   // base or head
	flag  string   // that names files of it
	files []string // the executables of its layouts; empty is this one
}

// sides returns both builds.
func (o Options) sides() (base, head side) {
	return side{"base", "--against", o.Against}, side{"head", "--layouts", append([]string{""}, o.Layouts...)}
}

// name says which file is meant.
func (s side) name(i int) string { return cmp.Or(s.files[i], "this program") }

// layouts reads all files, of which no two may be the same.
func (s side) layouts() ([]Layout, error) {
	var all []Layout
	for i, file := range s.files {
		if file == "" && (s.build == "base" || i > 0) {
			return nil, &BuildError{fmt.Errorf("%s: an entry of the list is empty: want files with commas between them", s.flag)}
		}
		sum, err := digest(cmp.Or(file, reexec.Self))
		if err != nil {
			return nil, &BuildError{fmt.Errorf("%s: %w", s.flag, err)}
		}
		if j := slices.IndexFunc(all, func(l Layout) bool { return l.SHA256 == sum }); j >= 0 {
			return nil, &BuildError{fmt.Errorf("%s %s: the same bytes as %s: want another layout of its commit", s.flag, file, s.name(j))}
		}
		all = append(all, Layout{File: filepath.Base(cmp.Or(s.files[i], os.Args[0])), SHA256: sum})
	}
	return all, nil
}

// digest returns the SHA-256 of a file.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", cmp.Or(err, fmt.Errorf("%s: no regular file", path))
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), err
}

// alike asks all files but the first one which build they are: that of the first.
func (s side) alike(ctx context.Context, first machine.Environment) error {
	for i, file := range s.files[1:] {
		a, err := exchange.First(ctx, build(file), firstOrder(nil), patience)
		if err == nil {
			err = sameBuild(*a.Environment, first, s.name(0))
		}
		if err != nil {
			return &BuildError{fmt.Errorf("%s %s: %w", s.flag, s.name(i+1), err)}
		}
	}
	return nil
}

// sameBuild reports in what a layout is not of the build that another one is of. That both
// follow the rules of this program is known.
func sameBuild(e, first machine.Environment, name string) error {
	for _, of := range []struct{ what, has, want string }{
		{"commit", e.Commit, first.Commit},
		{"changes since the commit", strconv.FormatBool(e.Dirty), strconv.FormatBool(first.Dirty)},
		{"Go version", e.Go, first.Go},
		{"race detector", strconv.FormatBool(e.Race), strconv.FormatBool(first.Race)},
	} {
		if of.has != of.want {
			return fmt.Errorf("%s: %s, where %s has %s: want layouts of one build", of.what, cmp.Or(of.has, "none"), name, cmp.Or(of.want, "none"))
		}
	}
	return nil
}
