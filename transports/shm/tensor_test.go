package shm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// list returns the names of a session's segments.
func list(t *testing.T, s *session) []string {
	t.Helper()
	var models *modelServer
	switch d := s.Driver.(type) {
	case *namedServer:
		models = d.modelServer
	case *passingServer:
		models = d.modelServer
	}
	entries := check.Value(os.ReadDir(models.names.dir))(t)
	var all []string
	for _, e := range entries {
		if e.Name() != "lock" {
			all = append(all, e.Name())
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

// A3, B4, B5, B6, A29: one file a tensor while it is alive; one model for all
// workers; every buffer of the round before its first job; names that differ by
// role, lane and tensor, and are short.
func TestOneSegmentATensor(t *testing.T) {
	for _, name := range []string{"shm-tensor", "shm-tensor:reuse=on", "shm-tensor:pass=fd"} {
		v, o := parse(t, name)
		s, _ := listening(t, v, o)
		w := dialled(t, s)
		other := check.Value(s.dial(1))(t)
		tensors, updates := o.Down.Len(), o.Lanes*o.Depth*o.Up.Len()
		if strings.Contains(name, "pass=fd") {
			updates = 0 // they have no names
		}
		for round := range 3 {
			all := list(t, s)
			if n := count(all, "model-"); n != tensors*min(round+1, 2) && (strings.Contains(name, "reuse") || n != tensors) {
				t.Errorf("%s: %d segments of models with two workers, want %d for each model that exists", name, n, tensors)
			}
			check.Equal(t, count(all, "update-"), updates, name, "buffers before the first job")
			check.Must(t, exchange(s, w, driver.Job{Round: round}))
			s.Publish(uint64(round))
		}
		all := list(t, s)
		unique := slices.Compact(slices.Sorted(slices.Values(all)))
		check.That(t, len(unique) == len(all), "%s: names are not unique: %v", name, all)
		for _, n := range all {
			check.That(t, len(n) <= 64, "%s: name %s has %d bytes", name, n, len(n))
		}
		check.Must(t, other.Close())
	}
}

// B6: the segments of a round are new ones, unless they are reused.
func TestSegmentsAreNewEachRound(t *testing.T) {
	for name, reuse := range map[string]bool{"shm-tensor": false, "shm-tensor:reuse=on": true} {
		v, o := parse(t, name)
		s, _ := listening(t, v, o)
		w := dialled(t, s)
		check.Must(t, exchange(s, w, driver.Job{}))
		s.Publish(2)
		first := list(t, s)
		for round := range 2 {
			check.Must(t, exchange(s, w, driver.Job{Round: round}))
			s.Publish(uint64(round))
		}
		check.Equal(t, slices.Equal(first, list(t, s)), reuse, name, "segments are the same after two rounds")
	}
}

// A3: a segment that was damaged after it was made is refused by its reader, by
// name of the tensor, and never read.
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
		v, o := parse(t, "shm-tensor")
		s, _ := listening(t, v, o)
		w := dialled(t, s)
		all := list(t, s)
		victim := all[slices.IndexFunc(all, func(n string) bool { return strings.HasPrefix(n, "model-") })]
		check.Must(t, damage(filepath.Join(s.Driver.(*namedServer).names.dir, victim)))
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		if _, _, err := w.Receive(t.Context()); err == nil || !strings.Contains(err.Error(), "weights") {
			t.Errorf("%s: got %v, want an error that names the tensor", name, err)
		}
	}
}

// More descriptors than one message holds arrive in several.
func TestPassManyDescriptors(t *testing.T) {
	var specs []tensor.Spec
	for i := range 2*maxFiles + 1 {
		specs = append(specs, tensor.Spec{Name: fmt.Sprint(i), DType: tensor.I64, Shape: []int{i % 3}})
	}
	l := check.Value(tensor.NewLayout(specs))(t)
	v, o := parse(t, "shm-tensor:pass=fd")
	o.Down, o.Up = l, l
	s, m := listening(t, v, o)
	w := dialled(t, s)
	before := filesNow(t)
	for i := range 3 {
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{Client: i}))
		_, model, err := w.Receive(t.Context())
		check.Must(t, err)
		u := check.Value(w.Reserve())(t)
		check.Must(t, tensor.Train(u, model, drivertest.Key(driver.Job{Client: i})))
		check.Must(t, w.Submit(t.Context(), u))
		p := check.Value(s.Server.Collect(t.Context(), 0))(t)
		check.Must(t, tensor.Prove(p, m, drivertest.Key(driver.Job{Client: i})))
		p.Release()
	}
	if after := filesNow(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// A small /dev/shm, such as Docker's 64 MB, is an error with both figures and
// what to do about it, before the first round.
func TestSmallSharedMemory(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=64M"); err != nil {
		skip.Refused(t, "a small tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(root, 0)) })
	v, o := parse(t, "shm-tensor")
	l := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "big", DType: tensor.F32, Shape: []int{64 << 20}}}))(t)
	o.Down, o.Up = l, l
	v.Transport = tensorTransport{root: root}
	err := v.Transport.Check(o)
	n, _ := needOf(o)
	for _, want := range []string{fmt.Sprint(n.named), fmt.Sprint(64 << 20), "--shm-size", "shm-slab"} {
		check.Fails(t, err, want)
	}
	// Without the check it is an error, too, and not a fault; nothing is left.
	check.Fails(t, check.Err(v.Transport.Listen(t.Context(), driver.NewEndpoint(private(t)), o)), "no space left", "listen")
	entries := check.Value(os.ReadDir(root))(t)
	check.That(t, len(entries) <= 0, "listen left %v", entries)
}

// A /dev/shm in which no file can be made is refused before anything starts, with
// what to try.
func TestCheckDirectory(t *testing.T) {
	v, o := parse(t, "shm-tensor")
	refused := func(name, root, want string) {
		t.Helper()
		v.Transport = tensorTransport{root: root}
		err := v.Transport.Check(o)
		for _, w := range []string{root, want, "shm-slab"} {
			check.Fails(t, err, w, name)
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
		runtime.LockOSThread() // and never unlocked: the thread ends with its user
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
	v, o := parse(t, "shm-tensor:pass=fd:reuse=on")
	check.Fails(t, v.Transport.Check(o), "exclude each other")
	v, o = parse(t, "shm-tensor")
	o.Down = check.Value(tensor.NewLayout([]tensor.Spec{{Name: "deep", DType: tensor.U8, Shape: make([]int, maxRank+1)}}))(t)
	check.Fails(t, v.Transport.Check(o), "dimensions")
	v, o = parse(t, "shm-tensor") // which has no descriptors for tensors, but some for every lane
	o.Lanes = 1000
	n := check.Value(needOf(o))(t)
	check.That(t, n.files >= 8000, "%d descriptors for 1000 lanes, want 8 each at least", n.files)
	var files unix.Rlimit
	check.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	check.Fails(t, (need{files: int64(files.Max) + 1}).check(os.TempDir()), "ulimit -Hn")
	v, o = parse(t, "shm-slab")
	o.Down = check.Value(tensor.NewLayout([]tensor.Spec{{Name: "huge", DType: tensor.U8, Shape: []int{1 << 50}}}))(t)
	check.Fails(t, v.Transport.Check(o), "are available (")
	for _, name := range variants { // sizes that overflow
		v, o := parse(t, name)
		o.Down = check.Value(tensor.NewLayout([]tensor.Spec{{Name: "huge", DType: tensor.U8, Shape: []int{1 << 61}}}))(t)
		o.Up, o.Lanes, o.Depth = o.Down, 1000, 1000
		if err := v.Transport.Check(o); err == nil {
			t.Errorf("%s: got no error", name)
		}
		f := v.Transport.Footprint(o)
		check.That(t, f > 0, "%s: footprint of %d bytes", name, f)
	}
}
