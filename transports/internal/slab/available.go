package slab

import (
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckDir reports why this process can make no files in dir.
func CheckDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "use", Path: dir, Err: unix.ENOTDIR}
	}
	if err == nil {
		if e := unix.Access(dir, unix.W_OK|unix.X_OK); e != nil {
			err = &os.PathError{Op: "write to", Path: dir, Err: e}
		}
	}
	return err
}

// Available returns how many more bytes of memory this process can expect to
// get, and what limits them. Memory behind a memfd or in /dev/shm is part of it.
//
// It has to be asked before memory is made: reserving pages beyond the limit of
// a control group wakes the kernel's killer, and is no error that anybody could
// report. Swap space does not count; page cache that can be dropped does.
func Available() (int64, string) { return available(os.DirFS("/")) }

func available(root fs.FS) (bytes int64, limit string) {
	bytes, limit = math.MaxInt64, "nothing"
	if kib, ok := field(root, "proc/meminfo", "MemAvailable:"); ok {
		bytes, limit = kib<<10, "MemAvailable"
	}
	text, _ := fs.ReadFile(root, "proc/self/cgroup") // none: no control groups
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // 4:memory:/user, or 0::/user for version 2
		if len(f) != 3 {
			continue
		}
		dir, most, used, cache := "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"
		if f[1] != "" {
			dir, most, used, cache = dir+"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		}
		if f[1] != "" && f[1] != "memory" {
			continue
		}
		// The limits of all enclosing groups hold. In a container the path may be
		// the host's: then only the root of the mount is there, and it is ours.
		for p := path.Clean("/" + f[2]); ; p = path.Dir(p) {
			group := path.Join(dir, p)
			if n, ok := field(root, path.Join(group, most), ""); ok {
				taken, _ := field(root, path.Join(group, used), "")
				dropped, _ := field(root, path.Join(group, "memory.stat"), cache)
				if left := max(0, n-max(0, taken-dropped)); left < bytes {
					bytes, limit = left, "the memory cgroup's "+most
				}
			}
			if p == "/" {
				break
			}
		}
	}
	return bytes, limit
}

// field returns the number that follows key at the start of a line of a file, or
// the file's only number if key is empty.
func field(root fs.FS, name, key string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if key != "" {
			if len(f) < 2 || f[0] != key {
				continue
			}
			f = f[1:]
		}
		if len(f) == 0 {
			break
		}
		n, err := strconv.ParseInt(f[0], 10, 64)
		return n, err == nil && n >= 0 // "max" in version 2 is no number, no limit in version 1 is a huge one
	}
	return 0, false
}
