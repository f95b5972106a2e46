// Package python embeds ipcbench's Python programs and finds an interpreter for them.
// They are workers (ipcbench_worker) and reference rows (peers). [Unpack] writes their files to a
// directory.
package python

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed ipcbench_worker/*.py ipcbench_worker/*.c peers/*.py
var files embed.FS

// Unpack writes the files below dir, which only the caller may use, and compiles the
// kernel of the worker function. If that fails, for example without a C compiler, the
// programs use numpy instead, and their reports say so.
func Unpack(ctx context.Context, dir string) error {
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(to, 0o700)
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o600)
	})
	if err != nil {
		return fmt.Errorf("python: %w", err)
	}
	build(ctx, Worker(dir))
	return ctx.Err()
}

// build compiles kernel.c in dir to kernel.so, for this machine's processor. It ignores
// failures: cc, or C headers (libc6-dev), may be missing.
func build(ctx context.Context, dir string) {
	_ = exec.CommandContext(ctx, "cc", "-O3", "-march=native", "-falign-loops=64", "-shared", "-fPIC",
		"-o", filepath.Join(dir, "kernel.so"), filepath.Join(dir, "kernel.c")).Run()
}

// Worker returns the path that an interpreter runs as a worker process, after Unpack to dir.
func Worker(dir string) string { return filepath.Join(dir, "ipcbench_worker") }

// In returns the path of the row's program, after Unpack to dir.
func (r Row) In(dir string) string { return filepath.Join(dir, "peers", r.File) }
