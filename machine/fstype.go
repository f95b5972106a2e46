package machine

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// FileSystem returns the name of the type of the file system that path is on:
// "tmpfs", "ext4", "overlayfs", or its magic number if it is a rare one.
func FileSystem(path string) (string, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return "", fmt.Errorf("machine: file system of %s: %w", path, err)
	}
	return fileSystemName(s.Type), nil
}

func fileSystemName(magic int64) string {
	switch uint32(magic) {
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	case unix.HUGETLBFS_MAGIC:
		return "hugetlbfs"
	case unix.EXT4_SUPER_MAGIC:
		return "ext4" // or ext2 or ext3, which share the number
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.F2FS_SUPER_MAGIC:
		return "f2fs"
	case 0x2fc12fc1:
		return "zfs"
	case 0xca451a4e:
		return "bcachefs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	case unix.FUSE_SUPER_MAGIC:
		return "fuse"
	case unix.NFS_SUPER_MAGIC:
		return "nfs"
	case unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		return "cifs"
	case unix.V9FS_MAGIC:
		return "9p"
	case unix.CEPH_SUPER_MAGIC:
		return "ceph"
	case 0x0bd00bd0:
		return "lustre"
	case 0x47504653:
		return "gpfs"
	case unix.PROC_SUPER_MAGIC:
		return "proc"
	case unix.SYSFS_MAGIC:
		return "sysfs"
	}
	return fmt.Sprintf("%#x", uint32(magic))
}

// Room returns how many bytes files in dir may take, or why this process can make
// none there.
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
	return available(s), nil
}

func available(s unix.Statfs_t) int64 { return int64(s.Bavail) * s.Frsize }

// space returns nil if there is nothing at path.
func space(path string) *Space {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return nil
	}
	return &Space{
		FileSystem: fileSystemName(s.Type),
		Size:       int64(s.Blocks) * s.Frsize,
		Free:       available(s),
	}
}
