// Package python holds what ipcbench runs in Python, and finds the interpreter for it:
// workers (ipcbench_worker) and reference rows (peers). The files are part of the
// program, which writes them where it needs them.
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

// Unpack writes the files below dir, which is the caller's alone, and builds the kernel
// of the worker function if there is a C compiler that can. Otherwise it is numpy's, and
// what ran says so.
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

// build makes kernel.so of kernel.c in dir, for the processor that it runs on, unless cc is
// missing, or has no headers of C, as without libc6-dev.
func build(ctx context.Context, dir string) {
	_ = exec.CommandContext(ctx, "cc", "-O3", "-march=native", "-falign-loops=64", "-shared", "-fPIC",
		"-o", filepath.Join(dir, "kernel.so"), filepath.Join(dir, "kernel.c")).Run()
}

// Worker returns what an interpreter runs as a worker process, where Unpack wrote to dir.
func Worker(dir string) string { return filepath.Join(dir, "ipcbench_worker") }

// In returns the file of a reference row, where Unpack wrote to dir.
func (r Row) In(dir string) string { return filepath.Join(dir, "peers", r.File) }
