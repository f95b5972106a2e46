package shm

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
)

// list returns the names of a session's segments.
func list(t *testing.T, s *drivertest.Session) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(inodes(t, s)))
}

// inodes returns the inode numbers of a session's segments, by name.
func inodes(t *testing.T, s *drivertest.Session) map[string]uint64 {
	t.Helper()
	var models *modelServer
	switch d := s.Driver.(type) {
	case *namedServer:
		models = d.modelServer
	case *passingServer:
		models = d.modelServer
	case *clientServer:
		models = d.modelServer
	case *picklingServer:
		models = d.modelServer
	}
	all := map[string]uint64{}
	for _, e := range check.Value(os.ReadDir(models.names.dir))(t) {
		if e.Name() != "lock" {
			all[e.Name()] = check.Value(e.Info())(t).Sys().(*syscall.Stat_t).Ino
		}
	}
	return all
}

func count(all []string, prefix string) (n int) {
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// TestOneSegmentATensor: A3, B4, B5, B6, A29: each live tensor has one file, and all
// workers share the model's. Every buffer exists before a round's first job. Names are short
// and differ by role, lane and tensor. Names and buffers are new in each round, except with
// reuse=on.
func TestOneSegmentATensor(t *testing.T) {
	for _, name := range []string{
		"shm-tensor", "shm-tensor:reuse=on", "shm-tensor:pass=fd", "shm-tensor:pass=pickle", "shm-tensor:buffers=client",
	} {
		s := open(t, name, options())
		s.Dial(1)
		reuse := strings.Contains(name, "reuse")
		tensors, updates := s.Options.Down.Len(), s.Options.Lanes*s.Options.Depth*s.Options.Up.Len()
		switch {
		case strings.Contains(name, "pass"):
			updates = 0 // they have no names
		case strings.Contains(name, "client"):
			updates = s.Options.Clients * s.Options.Up.Len()
		}
		var before []string
		used := map[uint64]bool{} // inodes of earlier rounds
		for round := range 4 {
			all, fresh := list(t, s), 0
			for segment, inode := range inodes(t, s) {
				if strings.HasPrefix(segment, "update-") && !used[inode] {
					fresh++
				}
			}
			want := updates
			if reuse && round > 0 {
				want = 0
			}
			check.Equal(t, fresh, want, name, "new buffers before round", round)
			check.Equal(t, count(all, "model-"), tensors*min(round+1, 2), name, "segments of models with two workers")
			check.Equal(t, count(all, "update-"), updates, name, "buffers before the first job")
			for _, n := range all {
				check.That(t, len(n) <= 64, "%s: name %s has %d bytes", name, n, len(n))
			}
			if round > 1 {
				check.Equal(t, slices.Equal(all, before), reuse, name, "segments are those of the round before")
			}
			before = all
			var out []*tensor.Package // use every buffer
			for client := range s.Options.Lanes * s.Options.Depth {
				out = append(out, s.Exchange(client%s.Options.Lanes, driver.Job{Round: round, Client: client}))
			}
			for _, inode := range inodes(t, s) {
				used[inode] = true
			}
			for _, p := range out {
				p.Release()
			}
			s.Publish(uint64(round))
		}
	}
}

// TestDamagedSegment: A3: a segment that was damaged after it was made is refused with an
// error that names the tensor, and is not read.
func TestDamagedSegment(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"header": func(path string) error {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{0xff}, 32)
			return errors.Join(err, f.Close())
		},
		"truncated": func(path string) error { return os.Truncate(path, 10) },
		"longer":    func(path string) error { return os.Truncate(path, 1<<20) },
		"removed":   os.Remove,
		"a link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path))
		},
	} {
		s := open(t, "shm-tensor", options())
		check.Must(t, damage(filepath.Join(s.Driver.(*namedServer).names.dir, list(t, s)[0]))) // the first tensor of a model
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		_, _, err := s.Workers[0].Receive(t.Context())
		check.Fails(t, err, "weights", name)
	}
}

// TestPassManyDescriptors: more descriptors than one message holds arrive in several
// messages.
func TestPassManyDescriptors(t *testing.T) {
	var elems []int
	for i := range 2*maxFiles + 1 {
		elems = append(elems, i%3)
	}
	o := options()
	o.Down = drivertest.Vectors(t, tensor.I64, elems...)
	o.Up = o.Down
	s := open(t, "shm-tensor:pass=fd", o)
	noMore := descriptors(t)
	for i := range 3 {
		j := driver.Job{Client: i}
		p := s.Exchange(0, j)
		check.Must(t, tensor.Prove(p, s.Model, drivertest.Key(j)))
		p.Release()
	}
	noMore()
}

// TestSmallSharedMemory: if /dev/shm is too small, such as Docker's 64 MB, the error before
// the first round has both sizes and the remedies.
func TestSmallSharedMemory(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64M"); err != nil {
		skip.Refused(t, "a small tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(root, 0)) })
	o, small := options(), tensorTransport{root: root}
	o.Down = drivertest.Vectors(t, tensor.F32, 64<<20)
	o.Up, o.Settings = o.Down, parse(t, "shm-tensor").Settings
	err := small.Check(o)
	n, _ := needOf(o)
	for _, want := range []string{fmt.Sprint(n.named), fmt.Sprint(64 << 20), "--shm-size", "shm-slab"} {
		check.Fails(t, err, want)
	}
	// Without the check, Listen returns an error instead of causing a fault, and leaves
	// nothing behind.
	for _, o.Pages = range []pages.Size{pages.System, pages.Small, pages.Huge} {
		check.Fails(t, check.Err(small.Listen(t.Context(), endpoint.New(private(t)), o)), "no space left", "listen")
		entries := check.Value(os.ReadDir(root))(t)
		check.That(t, len(entries) == 0, "listen left %v", entries)
	}
}

// TestCheckDirectory: if no file can be made in /dev/shm, the error comes before anything
// starts, and has a remedy.
func TestCheckDirectory(t *testing.T) {
	o := options()
	o.Settings = parse(t, "shm-tensor").Settings
	refused := func(name, root, want string) {
		t.Helper()
		for _, w := range []string{root, want, "shm-slab"} {
			check.Fails(t, tensorTransport{root: root}.Check(o), w, name)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	check.Must(t, os.WriteFile(file, nil, 0o600))
	refused("a file", file, "not a directory")
	refused("missing", file+"s", "no such file")

	private := t.TempDir()
	check.Must(t, os.Chmod(private, 0o500))
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with its user
		if os.Getuid() == 0 {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno == unix.EINVAL {
				t.Log("a namespace that has root alone, who may use every directory")
				return
			} else if errno != 0 {
				t.Error(errno)
			}
		}
		refused("of another user", private, "permission denied")
	}()
	<-done

	frozen := t.TempDir()
	if err := unix.Mount("tmpfs", frozen, "tmpfs", unix.MS_RDONLY, ""); err != nil {
		skip.Refused(t, "a mount of a tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(frozen, 0)) })
	refused("read-only", frozen, "read-only file system")
}

func TestCheckRefuses(t *testing.T) {
	o := options()
	o.Lanes = 1000
	n, err := needOf(o) // no descriptors for tensors, but some for every lane
	check.Must(t, err)
	check.That(t, n.files >= 8000, "%d descriptors for 1000 lanes, want 8 each at least", n.files)
	var files unix.Rlimit
	check.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	check.Fails(t, (need{files: int64(files.Max) + 1}).check(os.TempDir()), "ulimit -Hn")

	checks := func(name, want string, lanes, depth int, shape ...int) {
		t.Helper()
		v, o := parse(t, name), options()
		o.Down = drivertest.Layout(t, tensor.Spec{Name: "t", DType: tensor.U8, Shape: shape})
		o.Up, o.Lanes, o.Depth, o.Settings = o.Down, lanes, depth, v.Settings
		check.Fails(t, v.Subject.Check(o), want, name)
		f := v.Subject.Footprint(o)
		check.That(t, f > 0, "%s: footprint of %d bytes", name, f)
	}
	checks("shm-tensor:pass=fd:reuse=on", "exclude each other", 1, 2, 1)
	checks("shm-tensor", "dimensions", 1, 2, make([]int, maxRank+1)...)
	checks("shm-slab", "are available (", 2, 2, 1<<50)
	for _, name := range variants { // sizes that overflow
		checks(name, "", 1000, 1000, 1<<61)
	}
}
