package machine

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// FileSystem returns the type of the file system that path is on, such as "tmpfs" or
// "ext4", as the kernel names it when it is mounted.
func FileSystem(path string) (string, error) {
	real, err := filepath.Abs(path)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return "", fmt.Errorf("machine: file system of %s: %w", path, err)
	}
	return typeOf(mounts("/"), real), nil
}

// escapes are how /proc/self/mountinfo writes paths.
var escapes = strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`)

// mountOf returns the mount with the longest mount point that contains path, or nil if none is known.
func mountOf(mounts []*procfs.MountInfo, path string) (at *procfs.MountInfo) {
	for _, m := range mounts { // a later mount hides an earlier one at the same mount point
		inside := strings.HasPrefix(escapes.Replace(path)+"/", strings.TrimSuffix(m.MountPoint, "/")+"/")
		if inside && (at == nil || len(m.MountPoint) >= len(at.MountPoint)) {
			at = m
		}
	}
	return at
}

// typeOf returns the file-system type of the mount that path is on.
func typeOf(mounts []*procfs.MountInfo, path string) string {
	switch m := mountOf(mounts, path); {
	case m == nil:
		return unknown
	case m.FSType == "overlay":
		return "overlayfs" // the name in older results
	default:
		return m.FSType
	}
}

// hugePages returns for which files the tmpfs that path is on uses huge pages, as its option huge says. It
// is empty for another file system.
func hugePages(mounts []*procfs.MountInfo, path string) string {
	if m := mountOf(mounts, path); m != nil && m.FSType == "tmpfs" {
		return cmp.Or(m.SuperOptions["huge"], "never")
	}
	return ""
}

// Room returns the free bytes for files in dir, or an error if this process cannot
// create files there.
func Room(dir string) (int64, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, err
	}
	if !info.IsDir() {
		return 0, &os.PathError{Op: "use", Path: dir, Err: unix.ENOTDIR}
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return 0, &os.PathError{Op: "write to", Path: dir, Err: err}
	}
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * s.Frsize, nil
}

// EnlargeShm returns how to start a container with need bytes of shared memory. Its default is 64 MB.
func EnlargeShm(need int64) string {
	return fmt.Sprintf("in a container: docker run --shm-size=%dm; in Kubernetes: an emptyDir with medium: Memory at /dev/shm", need>>20+1)
}

// space returns nil if path does not exist.
func space(path string) *Space {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return nil
	}
	name, _ := FileSystem(path) // path exists, because Statfs succeeded
	return &Space{FileSystem: name, Size: int64(s.Blocks) * s.Frsize, Free: int64(s.Bavail) * s.Frsize}
}
