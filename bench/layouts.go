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

// The address at which a linker puts a function may affect its speed: the same
// instructions were 1.75 times as slow 32 bytes further on. So each side of an
// interleaved run can have several layouts of one build, and the blocks of a cell use
// them in turn. Blocks then also differ by linking, and intervals include that.

// A BuildError reports an executable that cannot take part in an interleaved run.
type BuildError struct{ error }

func (b *BuildError) Unwrap() error { return b.error }

// A side is one of the two builds of an interleaved run.
type side struct {
	build string   // "base" or "head"
	flag  string   // flag that names its executables
	files []string // executables of its layouts; empty means this executable
}

func (o Options) sides() (base, head side) {
	return side{"base", "--against", o.Against}, side{"head", "--layouts", append([]string{""}, o.Layouts...)}
}

func (s side) name(i int) string { return cmp.Or(s.files[i], "this program") }

// layouts hashes all executables of the side. No two may be identical.
func (s side) layouts() ([]Layout, error) {
	var all []Layout
	for i, file := range s.files {
		if file == "" && (s.build == "base" || i > 0) {
			return nil, &BuildError{fmt.Errorf("%s: an entry of the list is empty: it must be files, separated by commas", s.flag)}
		}
		sum, err := digest(cmp.Or(file, reexec.Self))
		if err != nil {
			return nil, &BuildError{fmt.Errorf("%s: %w", s.flag, err)}
		}
		if j := slices.IndexFunc(all, func(l Layout) bool { return l.SHA256 == sum }); j >= 0 {
			return nil, &BuildError{fmt.Errorf("%s %s: the same bytes as %s: name another layout of the same commit", s.flag, file, s.name(j))}
		}
		all = append(all, Layout{File: filepath.Base(cmp.Or(s.files[i], os.Args[0])), SHA256: sum})
	}
	return all, nil
}

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

// checkBuilds asks every executable but the first for its build, which must be the same
// as first.
func (s side) checkBuilds(ctx context.Context, first machine.Environment) error {
	for i, file := range s.files[1:] {
		a, err := exchange.First(ctx, build(file), firstOrder(nil), patience)
		if err == nil {
			err = sameBuild(*a.Environment, first, s.name(0))
		}
		if err != nil {
			return fmt.Errorf("%s %s: %w", s.flag, s.name(i+1), err)
		}
	}
	return nil
}

// sameBuild returns an error that names the first difference between two builds: commit,
// uncommitted changes, Go version or race detector. [exchange.First] has checked that
// both follow the same rules.
func sameBuild(e, first machine.Environment, name string) error {
	for _, of := range []struct{ what, has, want string }{
		{"commit", e.Commit, first.Commit},
		{"changes since the commit", strconv.FormatBool(e.Dirty), strconv.FormatBool(first.Dirty)},
		{"Go version", e.Go, first.Go},
		{"race detector", strconv.FormatBool(e.Race), strconv.FormatBool(first.Race)},
	} {
		if of.has != of.want {
			return &BuildError{fmt.Errorf("%s: %s, but %s has %s: both must be layouts of one build", of.what, cmp.Or(of.has, "none"), name, cmp.Or(of.want, "none"))}
		}
	}
	return nil
}
