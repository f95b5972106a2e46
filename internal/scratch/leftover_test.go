package scratch

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

const name = "ipcbench-0123456789abcdef"

var longAgo = time.Now().Add(-2 * settle)

// plant makes an old directory under root that looks like a session's, with old files.
func plant(t *testing.T, root, name string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	check.Must(t, os.Mkdir(dir, 0o700))
	for file, text := range files {
		path := filepath.Join(dir, file)
		check.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check.Must(t, os.WriteFile(path, []byte(text), 0o600))
		check.Must(t, os.Chtimes(path, longAgo, longAgo))
	}
	check.Must(t, os.Chtimes(dir, longAgo, longAgo))
	return dir
}

// others returns the text of a lock that names another kernel.
func others() string {
	return strings.Replace(ownerText(), boot(), "00000000-0000-0000-0000-000000000000", 1)
}

// TestNotOurs: a directory that only looks like ours is left alone with all its files, and
// the reason is given.
func TestNotOurs(t *testing.T) {
	data := map[string]string{"notes": "thesis"}
	dir := func(name string, files map[string]string) func(*testing.T, string) string {
		return func(t *testing.T, root string) string { return plant(t, root, name, files) }
	}
	for _, c := range []struct {
		name, why string
		plant     func(t *testing.T, root string) string
	}{
		{"mktemp", "name", dir("ipcbench-mine-x7Gq", data)},
		{"profiles", "name", dir("ipcbench-20261121-220814.profiles", data)},
		{"short", "name", dir("ipcbench-0123456789abcde", nil)},
		{"long", "name", dir(name+"0", nil)},
		{"capitals", "name", dir("ipcbench-0123456789ABCDEF", nil)},
		{"suffix", "name", dir(name+".gone.gone", nil)},
		{"no lock", "has no lock, but contains notes", dir(name, data)},
		{"no lock, gone", "has no lock, but contains notes", dir(name+goneSuffix, data)},
		{"no lock, a folder", "has no lock, but contains sub", dir(name, map[string]string{"sub/notes": ""})},
		{"new lock and more", "has no lock, but contains notes", dir(name, map[string]string{newLock: "", "notes": ""})},
		{"lock of another program", "not written by ipcbench", dir(name, map[string]string{lockName: "pid 1\n"})},
		{"empty lock", "not written by ipcbench", dir(name, map[string]string{lockName: "", "notes": ""})},
		{"lock with more in it", "not written by ipcbench", dir(name, map[string]string{lockName: ownerText() + "x"})},
		{"escapes in the lock", "not written by ipcbench", dir(name, map[string]string{lockName: strings.Replace(ownerText(), "since 2", "since \x1b[2J2", 1)})},
		{"another kernel", "another kernel", dir(name, map[string]string{lockName: others()})},
		{"newborn", "less than", func(t *testing.T, root string) string {
			dir := filepath.Join(root, name)
			check.Must(t, os.Mkdir(dir, 0o700)) // its lock may be written at any moment
			return dir
		}},
		{"open to others", "mode", func(t *testing.T, root string) string {
			dir := plant(t, root, name, map[string]string{lockName: ownerText()})
			check.Must(t, os.Chmod(dir, 0o755))
			return dir
		}},
		{"file", "mode", func(t *testing.T, root string) string {
			path := filepath.Join(root, name)
			check.Must(t, os.WriteFile(path, nil, 0o700))
			return path
		}},
		{"link", "mode", func(t *testing.T, root string) string {
			path := filepath.Join(root, name)
			check.Must(t, os.Symlink(plant(t, root, "elsewhere", map[string]string{lockName: ownerText()}), path))
			return path
		}},
		{"lock is a link", "too many levels", func(t *testing.T, root string) string {
			dir := plant(t, root, name, map[string]string{"real": ownerText()})
			check.Must(t, os.Symlink("real", filepath.Join(dir, lockName)))
			return dir
		}},
		{"lock is a folder", "not a regular file", dir(name, map[string]string{lockName + "/x": ""})},
		{"lock is a pipe", "not a regular file", func(t *testing.T, root string) string {
			dir := plant(t, root, name, nil)
			check.Must(t, unix.Mkfifo(filepath.Join(dir, lockName), 0o600))
			return dir
		}},
		{"new lock of somebody else", "not written by ipcbench", dir(name, map[string]string{newLock: "thesis"})},
		{"new lock is a pipe", "has no lock, but contains lock.new", func(t *testing.T, root string) string {
			dir := plant(t, root, name, nil)
			check.Must(t, unix.Mkfifo(filepath.Join(dir, newLock), 0o600))
			return dir
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := shortRoot(t)
			path := c.plant(t, root)
			before := tree(t, root)
			noLeftovers(t, root)
			check.Fails(t, check.Err(Inspect(path)), c.why, "inspect")
			check.Fails(t, Leftover{Path: path}.Remove(), c.why, "remove")
			check.Equal(t, tree(t, root), before)
		})
	}
}

func tree(t *testing.T, root string) string {
	t.Helper()
	var list strings.Builder
	check.Must(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		fmt.Fprintln(&list, path, e.Type())
		return err
	}))
	return list.String()
}

// TestUnfinished: if a process is killed while it makes or removes a directory, the rest is
// found and removed, whatever the moment.
func TestUnfinished(t *testing.T) {
	for _, c := range []struct {
		name, dir string
		files     map[string]string
		lockAge   time.Duration
		mode      fs.FileMode // of the parent
	}{
		{name: "no lock yet", dir: name},
		{name: "lock without its name", dir: name, files: map[string]string{newLock: ownerText()}},
		{name: "empty lock without its name", dir: name, files: map[string]string{newLock: ""}},
		{name: "being removed", dir: name + goneSuffix, files: map[string]string{lockName: ownerText(), "segment": "x"}},
		{name: "below a directory with a setgid bit", dir: name, files: map[string]string{lockName: ownerText()}, mode: fs.ModeSetgid},
		{name: "removed but for the directory", dir: name + goneSuffix},
		{name: "of another kernel, long ago", dir: name, files: map[string]string{lockName: others()}, lockAge: foreign + time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := shortRoot(t)
			check.Must(t, os.Chmod(root, 0o700|c.mode))
			dir := plant(t, root, c.dir, c.files)
			if c.lockAge > 0 {
				old := time.Now().Add(-c.lockAge)
				check.Must(t, os.Chtimes(filepath.Join(dir, lockName), old, old))
			}
			left := leftovers(t, root)
			check.Need(t, len(left) == 1 && left[0].Path == dir, "got %v, want %s", left, dir)
			check.Must(t, left[0].Remove())
			empty(t, root)
		})
	}
}

// TestMounts: a mount in a directory is not removed, even one of the same file system.
func TestMounts(t *testing.T) {
	root := shortRoot(t)
	precious := plant(t, root, "precious", map[string]string{"notes": "thesis"})
	dir := plant(t, root, name, map[string]string{lockName: ownerText(), "sub/x": ""})
	sub := filepath.Join(dir, "sub")
	if err := unix.Mount(precious, sub, "", unix.MS_BIND, ""); err != nil {
		skip.Refused(t, "mount: %v", err)
	}
	defer func() { check.Must(t, unix.Unmount(sub, 0)) }()
	check.Fails(t, check.Err(Inspect(dir)), "sub is a mount")
	own := check.Value(New(root))(t)
	sub2 := filepath.Join(own.Path(), "sub")
	check.Must(t, os.Mkdir(sub2, 0o700))
	check.Must(t, unix.Mount(precious, sub2, "", unix.MS_BIND, ""))
	check.Fails(t, own.Close(), "is a mount", "close")
	check.Must(t, unix.Unmount(filepath.Join(own.Path()+goneSuffix, "sub"), 0))
	check.OK(t, check.Err(os.Stat(filepath.Join(precious, "notes"))))
	left := leftovers(t, root)
	check.Need(t, len(left) == 1 && left[0].Path == own.Path()+goneSuffix, "got %v, want what could not be closed", left)
	check.Must(t, left[0].Remove())
}

// TestTwoUsers: another user's leftovers, and directories that look like them, are not
// removed.
func TestTwoUsers(t *testing.T) {
	root := check.Value(os.MkdirTemp("/tmp", "scratch"))(t) // both users can write there
	defer func() { check.Must(t, os.RemoveAll(root)) }()
	check.Must(t, os.Chmod(root, 0o777|fs.ModeSticky))
	mine, myPath := owned(t, root, nil)
	kill(t, mine)
	other := &syscall.Credential{Uid: 65534, Gid: 65534}
	if os.Geteuid() != 0 {
		skip.Refused(t, "a second user: this needs root")
	}
	theirs, theirPath := owned(t, root, other)
	kill(t, theirs)
	left := leftovers(t, root)
	check.That(t, len(left) == 1 && left[0].Path == myPath, "got %v, want %s alone", left, myPath)
	check.Fails(t, (Leftover{Path: theirPath}).Remove(), "another user", "remove")
	check.OK(t, check.Err(os.Stat(filepath.Join(theirPath, lockName))))
}
