package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// says runs a command and returns its output and whether it succeeded.
func says(dir string, env []string, name string, args ...string) (string, bool) {
	c := exec.Command(name, args...)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err == nil
}

// TestWheel: two builds are equal. A wheel installs without network into a new environment, where the command runs,
// with workers in Python too. An installed ipcbench_worker of another version and wheels of other machines are refused.
func TestWheel(t *testing.T) {
	skip.Long(t)
	python := "/usr/bin/python3"
	if out, ok := says(".", nil, python, "-c", "import numpy, xxhash, venv, ensurepip"); !ok {
		skip.Missing(t, "Python (Debian: python3-venv python3-numpy python3-xxhash): %s", out)
	}
	dir := t.TempDir()
	wheel := func(version, arch string) string {
		found, _ := filepath.Glob(filepath.Join(dir, version, "ipcbench-"+version+"-py3-none-manylinux2014_"+arch+".musllinux_1_1_"+arch+".whl"))
		check.Need(t, len(found) == 1, "%d wheels of version %s for %s", len(found), version, arch)
		return found[0]
	}
	build := func(version string) {
		out, ok := says("../..", []string{"DIST=" + filepath.Join(dir, version)}, "make", "wheel", "VERSION=v"+version)
		check.Need(t, ok, "make wheel: %s", out)
	}
	build("0.1.0")
	first := map[string][]byte{}
	for _, arch := range []string{"x86_64", "aarch64"} {
		first[arch] = check.Value(os.ReadFile(wheel("0.1.0", arch)))(t)
	}
	check.Must(t, os.RemoveAll(filepath.Join(dir, "0.1.0"))) // it must not exist: its files would be lost
	build("0.1.0")
	for arch, text := range first {
		check.That(t, bytes.Equal(text, check.Value(os.ReadFile(wheel("0.1.0", arch)))(t)), "the second wheel for %s differs", arch)
	}
	build("0.2.0")

	venv := filepath.Join(dir, "venv", "bin")
	out, ok := says(dir, nil, python, "-m", "venv", "--system-site-packages", "venv")
	check.Need(t, ok, "venv: %s", out)
	install := []string{"-m", "pip", "install", "--no-index", "--no-deps"}
	interpreter, program := filepath.Join(venv, "python3"), filepath.Join(venv, "ipcbench")
	arch := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	mine, other := arch[runtime.GOARCH], map[string]string{"amd64": "aarch64", "arm64": "x86_64"}[runtime.GOARCH]
	out, ok = says(dir, nil, interpreter, append(install, wheel("0.1.0", other))...)
	check.That(t, !ok && strings.Contains(out, "is not a supported wheel on this platform"), "wheel for %s: %s", other, out)
	out, ok = says(dir, nil, interpreter, append(install, wheel("0.1.0", mine))...)
	check.Need(t, ok, "pip: %s", out)
	out, ok = says(dir, nil, program, "version")
	check.That(t, ok && strings.HasPrefix(out, "ipcbench version v0.1.0, commit "), "version: %s", out)
	for _, args := range []string{"--transport shm-slab,http", "--transport shm-slab,http --language python:" + interpreter} {
		out, ok = says(dir, nil, program, append(strings.Fields("run --rounds 2 --blocks 1 --model cnn"), strings.Fields(args)...)...)
		check.That(t, ok && strings.Contains(out, "shm-slab"), "%s: %s", args, out)
	}

	// A peer imports the installed package, which is then replaced with another version.
	peer := check.Value(os.ReadFile("../../python/peers/py_pickle.py"))(t)
	check.Must(t, os.CopyFS(filepath.Join(dir, "peers"), os.DirFS("../../python/peers")))
	check.Must(t, os.WriteFile(filepath.Join(dir, "peers", "mine.py"), peer, 0o600))
	kept := filepath.Join(dir, "kept")
	check.Must(t, os.Link(program, kept)) // pip replaces the file and not its contents
	run := strings.Fields("run --rounds 2 --blocks 1 --model cnn --transport http --peer")
	run = append(run, "mine="+interpreter+" peers/mine.py")
	out, ok = says(dir, nil, kept, run...)
	check.That(t, ok && !strings.Contains(out, "unproved"), "a peer of the same version: %s", out)
	out, ok = says(dir, nil, interpreter, append(install, wheel("0.2.0", mine))...)
	check.Need(t, ok, "pip: %s", out)
	out, ok = says(dir, nil, kept, run...)
	check.That(t, !ok && strings.Contains(out, "cannot work for ipcbench v0.1.0: ") && strings.Contains(out, "ipcbench_worker v0.2.0 in "), "a peer of another version: %s", out)
	// Workers use the embedded package, whatever is installed.
	out, ok = says(dir, nil, kept, append(strings.Fields("run --rounds 2 --blocks 1 --model cnn --transport http --language"), "python:"+interpreter)...)
	check.That(t, ok, "workers: %s", out)
}

// TestRelease: what is no release is refused with one line, before anything is built.
func TestRelease(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dist")
	for version, text := range map[string]string{"banana": "must be like v0.1.0", "v1": "must be like v0.1.0", "v1.2.3 x": "must be like", "": "must be like", "v01.2.3": "must be like"} {
		out, ok := says("../..", []string{"NAME=ipcbench", "DIST=" + dir, "VERSION=" + version}, "scripts/release", "all")
		check.That(t, !ok && strings.Contains(out, text) && strings.Count(out, "\n") == 1, "VERSION=%s: %s", version, out)
	}
	check.That(t, os.IsNotExist(check.Err(os.Stat(dir))), "a refused release writes files")
}

// TestElsewhere: on another system the program builds and prints one line.
func TestElsewhere(t *testing.T) {
	skip.Long(t)
	for _, system := range []string{"darwin/arm64", "windows/amd64", "linux/386"} {
		of, on, _ := strings.Cut(system, "/")
		program := filepath.Join(t.TempDir(), "ipcbench.exe")
		out, ok := says(".", []string{"CGO_ENABLED=0", "GOOS=" + of, "GOARCH=" + on}, "go", "build", "-o", program, ".")
		check.Need(t, ok, "go build for %s: %s", system, out)
		if runtime.GOARCH == "amd64" && of == "linux" {
			out, ok = says(".", nil, program, "run")
			check.That(t, !ok && strings.HasPrefix(out, "ipcbench: needs 64-bit Linux, ") && strings.Count(out, "\n") == 1, "%s: %s", system, out)
		}
	}
}
