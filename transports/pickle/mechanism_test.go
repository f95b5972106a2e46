package pickle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/pickle"
)

func parse(t *testing.T, text string) transports.Variant {
	t.Helper()
	return drivertest.Parse(t, text, pickle.New(), pickle.Storage())
}

// open opens a session of one lane, whose model and update have elems floats.
func open(t *testing.T, text string, elems int) *drivertest.Session {
	t.Helper()
	return drivertest.Open(t, parse(t, text), drivertest.Vectors(t, tensor.F32, elems), 1)
}

// A file is one file of a session.
type file struct{ written, size int64 }

// files returns the files in the session's directory below root, by name.
func files(t *testing.T, root string) map[string]file {
	t.Helper()
	all := check.Value(os.ReadDir(directory(t, root)))(t)
	found := map[string]file{}
	for _, e := range all {
		info := check.Value(e.Info())(t)
		if e.Name() != "lock" {
			found[e.Name()] = file{info.ModTime().UnixNano(), info.Size()}
		}
	}
	return found
}

// TestStorage: B3: the model's file is written once per round. Each client has one file,
// which its update replaces. No shared memory is mapped.
func TestStorage(t *testing.T) {
	root := t.TempDir()
	s := open(t, "storage:dir="+root, 50_000)
	next, err := s.Server.Reserve(0)
	check.Must(t, err)
	for round := range 2 {
		check.Must(t, check.Err(s.Server.Publish(t.Context(), 0, next)))
		next, err = s.Server.Reserve(0) // and so removes the previous model
		check.Must(t, err)
		name := fmt.Sprint("model-", round+1)
		model := files(t, root)[name]
		check.Need(t, model.written != 0, "the model has no file")
		for n := range 3 {
			client := fmt.Sprint("client-", n)
			s.ExchangeBy(0, driver.Job{Round: round, Client: n}, func(j driver.Job, m, update *tensor.Package) error {
				now := files(t, root)
				check.That(t, len(now) == 2 && now[client].written != 0,
					"while %s trains there are the files %v, want the model's and its own", client, now)
				check.That(t, now[client].size <= 4096, "the job's file has %d bytes: the model is in it", now[client].size)
				return drivertest.Stock(j, m, update)
			}).Release()
			check.Equal(t, files(t, root), map[string]file{name: model}, "files when the update was read")
			maps, err := os.ReadFile("/proc/self/maps") // covers both ends of this session
			check.Must(t, err)
			for _, shared := range []string{scratch.SharedMemory + "/", "memfd:"} {
				check.That(t, !bytes.Contains(maps, []byte(shared)), "%s is mapped:\n%s", shared, maps)
			}
		}
	}
}

// TestPipeBytes: B1: the bytes through a worker's socket are the model, the update and a
// few more. With elems=on, gob encodes each float separately and needs more bytes than the
// floats.
func TestPipeBytes(t *testing.T) {
	for _, c := range []struct {
		text        string
		elems       int
		least, most float64 // bytes per byte of payload
	}{
		{"pickle", 1000, 1, 1}, {"pickle:network=tcp", 10_000, 1, 1}, {"pickle", 1_000_000, 1, 1}, {"pickle:elems=on", 10_000, 1.25, 2},
	} {
		s := open(t, c.text, c.elems)
		s.Publish(1)
		sent := func() float64 {
			ours, theirs := s.Counts()
			return float64(ours[phase.WireSent] + theirs[phase.WireSent])
		}
		before, payload := sent(), float64(2*s.Model.Payload())
		s.Exchange(0, driver.Job{}).Release()
		n := sent() - before
		check.That(t, n >= c.least*payload && n <= c.most*payload+4096, "%s: %v bytes through the socket for a payload of %v", c.text, n, payload)
	}
}

// TestPipeInPlaceOfFile: a named pipe in the place of a file is refused, without waiting
// for its other end.
func TestPipeInPlaceOfFile(t *testing.T) {
	for _, reading := range []bool{false, true} {
		root := t.TempDir()
		s := open(t, "storage:dir="+root, 10)
		s.Publish(1)
		client := filepath.Join(directory(t, root), "client-0")
		path := client + ".part"
		waiting.Do(t, "an error, not the other end of a pipe", func() {
			var err error
			if reading {
				path = client
				check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
				check.Must(t, drivertest.Turn(t.Context(), s.Workers[0].Worker, drivertest.Stock))
				check.Must(t, errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)))
				_, err = s.Server.Collect(t.Context(), 0)
			} else {
				check.Must(t, unix.Mkfifo(path, 0o600))
				err = s.Server.Dispatch(t.Context(), 0, driver.Job{})
			}
			check.Fails(t, err, path)
			check.Fails(t, err, "storage: lane 0: ")
		})
	}
}

// directory returns the directory of the only session with files below root.
func directory(t *testing.T, root string) string {
	t.Helper()
	found := check.Value(filepath.Glob(filepath.Join(root, "ipcbench-*")))(t)
	check.Need(t, len(found) == 1, "got %q, want one directory", found)
	return found[0]
}

// aloneEnv marks the process that TestMemoryBeforeHello starts.
const aloneEnv = "IPCBENCH_TEST_ALONE"

// TestMemoryBeforeHello: a worker allocates its memory before it connects. The server waits
// only seconds for a hello, and touching memory may take longer.
func TestMemoryBeforeHello(t *testing.T) {
	if os.Getenv(aloneEnv) == "" { // a process of its own, in which no memory of earlier tests is unmapped meanwhile
		again := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestMemoryBeforeHello$")
		again.Env = append(os.Environ(), aloneEnv+"=1")
		out, err := again.CombinedOutput()
		check.That(t, err == nil, "%v: %s", err, out)
		return
	}
	const size = 64 << 20
	l := drivertest.Vectors(t, tensor.U8, size)
	listener := check.Value(net.Listen("unix", filepath.Join(t.TempDir(), "s")))(t)
	defer listener.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // so none is freed in between
	before := check.Value(proc.Resident(os.Getpid()))(t)
	dialled := make(chan error, 1)
	go func() {
		_, err := drivertest.Dial(t.Context(), parse(t, "pickle"), endpoint.At("unix:"+listener.Addr().String(), "secret"), 0,
			driver.Options{Down: l, Up: l, Lanes: 1, Clients: 4, Depth: 2})
		dialled <- err
	}()
	conn := check.Value(listener.Accept())(t)
	grown := check.Value(proc.Resident(os.Getpid()))(t) - before
	check.That(t, grown >= size*15/16, "the worker has touched %d bytes when it connects, want about %d for its update", grown, size)
	check.Must(t, conn.Close())
	check.That(t, <-dialled != nil, "dialled what closed the connection")
}

// TestStorageInMemory: files on a tmpfs count as memory. They are part of the footprint,
// and are refused if memory is short, however large the tmpfs is.
func TestStorageInMemory(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1p"); err != nil {
		skip.Refused(t, "a mount of a tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(root, 0)) })
	const size = 16 << 40 // more than any memory, less than the tmpfs
	l, v := drivertest.Vectors(t, tensor.U8, size), parse(t, "storage:dir="+root)
	o := driver.Options{Down: l, Up: l, Lanes: 2, Clients: 2, Depth: 2, Settings: v.Settings}
	err := v.Subject.Check(o)
	check.Fails(t, err, "is a tmpfs")
	check.Fails(t, err, "are available (")
	files, heap := v.Subject.Footprint(o), pickle.New().Footprint(o)
	check.That(t, files >= heap+3*size,
		"footprint of %d bytes, without files %d: want three files of %d more", files, heap, int64(size))
}

// TestStorageRefuses: a directory in shared memory, a missing one, and files that do not
// fit are errors before anything starts.
func TestStorageRefuses(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	check.Must(t, os.Symlink(scratch.SharedMemory, link))
	for _, c := range []struct {
		text, want string
		size       int
	}{
		{"storage:dir=/dev/shm", "is in shared memory", 1},
		{"storage:dir=" + link, "is in shared memory", 1},
		{"storage:dir=/does/not/exist", "no such file", 1},
		{"storage", "bytes, ", 1 << 50},
	} {
		v, l := parse(t, c.text), drivertest.Vectors(t, tensor.U8, c.size)
		err := v.Subject.Check(driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1, Settings: v.Settings})
		check.Fails(t, err, c.want, c.text)
	}
}

// TestOutside: a worker does not follow a link out of the directory to read a job.
func TestOutside(t *testing.T) {
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "thesis")
	check.Must(t, os.WriteFile(other, []byte("thesis"), 0o600))
	s := open(t, "storage:dir="+root, 10)
	s.Publish(1)
	check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
	job := filepath.Join(directory(t, root), "client-0")
	check.Must(t, errors.Join(os.Remove(job), os.Symlink(other, job)))
	_, _, err := s.Workers[0].Receive(t.Context())
	check.Fails(t, err, "path escapes from parent")
	check.Fails(t, err, job)
	text := check.Value(os.ReadFile(other))(t)
	check.Equal(t, string(text), "thesis", "the other file")
}

// TestShutdownAfterHello: an admitted worker learns of the end, however soon it comes.
func TestShutdownAfterHello(t *testing.T) {
	for range 300 {
		s := open(t, "pickle", 10)
		w, ended := s.Workers[0], make(chan error, 1)
		go func() {
			_, _, err := w.Receive(t.Context())
			ended <- errors.Join(err, w.Close())
		}()
		check.Must(t, s.Server.Shutdown(t.Context()))
		err := <-ended
		check.Need(t, errors.Is(err, io.EOF), "got error %v, want io.EOF", err)
	}
}
