package pickle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/pickle"
)

// pair is a server and one worker in this process.
type pair struct {
	server *transports.Server
	worker *transports.Worker
	rec    *phase.Recorder
}

// one returns a lane's options.
func one(l *tensor.Layout) driver.Options {
	return driver.Options{Down: l, Up: l, Lanes: 1, Clients: 4, Depth: 2, Rec: phase.NewRecorder(1000)}
}

// endpoint returns that of a session in a directory of its own.
func endpoint(t *testing.T) *driver.Endpoint {
	t.Helper()
	dir, err := scratch.New(os.TempDir())
	check.Must(t, err)
	t.Cleanup(func() { check.Must(t, dir.Close()) })
	return driver.NewEndpoint(dir.Path())
}

func variant(t *testing.T, text string) transports.Variant {
	t.Helper()
	v, err := transports.Parse(text, []driver.Transport{pickle.New(), pickle.Storage()})
	check.Must(t, err)
	return v
}

func open(t *testing.T, text string, l *tensor.Layout) pair {
	t.Helper()
	v, e, o := variant(t, text), endpoint(t), one(l)
	s, err := transports.Listen(t.Context(), v, e, o)
	check.Must(t, err)
	w, err := transports.Dial(t.Context(), v, e, 0, o)
	check.Must(t, err)
	t.Cleanup(func() {
		check.Must(t, w.Close())
		check.Must(t, s.Shutdown(context.Background()))
	})
	return pair{s, w, o.Rec}
}

// round carries one job; during is called while the worker trains, after while
// its update is out.
func (p pair) round(t *testing.T, j driver.Job, during, after func()) {
	t.Helper()
	failed := make(chan error, 1)
	training, trained := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(failed)
		_, model, err := p.worker.Receive(t.Context())
		if err != nil {
			failed <- err
			return
		}
		close(training)
		<-trained
		u, err := p.worker.Reserve()
		if err == nil {
			if err = tensor.Train(u, model, tensor.Key{Round: j.Round, Client: j.Client}); err == nil {
				err = p.worker.Submit(t.Context(), u)
			}
		}
		failed <- err
	}()
	check.Must(t, p.server.Dispatch(t.Context(), 0, j))
	<-training
	during()
	close(trained)
	u, err := p.server.Collect(t.Context(), 0)
	check.Must(t, err)
	check.Must(t, <-failed)
	after()
	u.Release()
}

func publish(t *testing.T, s *transports.Server, seed uint64) {
	t.Helper()
	m, err := s.Reserve()
	check.Must(t, err)
	tensor.Fill(m, seed)
	_, err = s.Publish(t.Context(), m)
	check.Must(t, err)
}

// files returns the names in the session's directory of files below root, and
// when each was written.
func files(t *testing.T, root string) map[string]int64 {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "ipcbench-*", "*"))
	check.Must(t, err)
	written := map[string]int64{}
	for _, path := range found {
		info, err := os.Stat(path)
		check.Must(t, err)
		if name := filepath.Base(path); name != "lock" {
			written[name] = info.ModTime().UnixNano()
		}
	}
	return written
}

// TestStorage: B3: the model's file is written once a round, each client has one
// file, which its update replaces, and no shared memory is mapped.
func TestStorage(t *testing.T) {
	root := t.TempDir()
	if len(root) > 60 {
		t.Skip("the temporary directory's path leaves no room for sockets")
	}
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{50_000}}})
	check.Must(t, err)
	p := open(t, "storage:dir="+root, l)
	next, err := p.server.Reserve()
	check.Must(t, err)
	for round := range 2 {
		_, err = p.server.Publish(t.Context(), next)
		check.Must(t, err)
		next, err = p.server.Reserve() // which removes the model before
		check.Must(t, err)
		name := fmt.Sprint("model-", round+1)
		model := files(t, root)[name]
		check.Need(t, model != 0, "the model has no file")
		for client := range 3 {
			var job, update int64
			p.round(t, driver.Job{Round: round, Client: client}, func() {
				now := files(t, root)
				client := "client-" + string(rune('0'+client))
				if job = now[client]; job == 0 || len(now) != 2 {
					t.Errorf("while %s trains there are the files %v, want the model's and its own", client, now)
				}
				info, err := filepath.Glob(filepath.Join(root, "ipcbench-*", client))
				check.Must(t, err)
				size, err := os.Stat(info[0])
				check.Must(t, err)
				check.That(t, size.Size() <= 4096, "the job's file has %d bytes: the model is in it", size.Size())
			}, func() {
				now := files(t, root)
				check.That(t, now[name] == model, "the model was written again for a client")
				update = now["client-"+string(rune('0'+client))]
				check.That(t, update == 0, "the update's file was not removed when it was read")
			})
			maps, err := os.ReadFile("/proc/self/maps") // of both sides of this session
			check.Must(t, err)
			for _, shared := range []string{scratch.SharedMemory + "/", "memfd:"} {
				check.That(t, !bytes.Contains(maps, []byte(shared)), "%s is mapped:\n%s", shared, maps)
			}
		}
	}
}

// TestPipeBytes: B1: the bytes through a worker's socket are at least those of
// the model in both directions, and grow with it.
func TestPipeBytes(t *testing.T) {
	for i, elems := range []int{1000, 10_000, 1_000_000} {
		l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{elems}}})
		check.Must(t, err)
		p := open(t, []string{"pickle", "pickle:network=tcp"}[i%2], l)
		publish(t, p.server, 1)
		before := p.rec.Counts()[phase.WireSent]
		p.round(t, driver.Job{}, func() {}, func() {})
		sent := p.rec.Counts()[phase.WireSent] - before
		want := int64(2 * l.Payload()) // both ends are in this process
		check.That(t, sent >= want && sent <= want+4096,
			"%d elements: %d bytes through the socket, want %d and at most 4096 more", elems, sent, want)
	}
}

// TestElements: one number at a time, gob needs more bytes for floats than they
// have.
func TestElements(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10_000}}})
	check.Must(t, err)
	p := open(t, "pickle:elems=on", l)
	publish(t, p.server, 1)
	before := p.rec.Counts()[phase.WireSent]
	p.round(t, driver.Job{}, func() {}, func() {})
	sent, payload := p.rec.Counts()[phase.WireSent]-before, int64(2*l.Payload())
	check.That(t, sent >= payload*5/4, "%d bytes for a payload of %d: floats went as bytes", sent, payload)
}

// TestReceiptIsTaken: a receipt that the caller writes to after Publish is not
// what its workers get.
func TestReceiptIsTaken(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}})
	check.Must(t, err)
	for _, name := range []string{"pickle", "storage"} {
		p := open(t, name, l)
		m, err := p.server.Reserve()
		check.Must(t, err)
		tensor.Fill(m, 1)
		m.Receipt = []byte("receipt")
		_, err = p.server.Publish(t.Context(), m)
		check.Must(t, err)
		clear(m.Receipt)
		check.Must(t, p.server.Dispatch(t.Context(), 0, driver.Job{}))
		_, model, err := p.worker.Receive(t.Context())
		check.Must(t, err)
		check.That(t, string(model.Receipt) == "receipt", "%s: the worker got %q, want what was published", name, model.Receipt)
		u, err := p.worker.Reserve()
		check.Must(t, err)
		check.Must(t, p.worker.Submit(t.Context(), u))
		got, err := p.server.Collect(t.Context(), 0)
		check.Must(t, err)
		got.Release()
	}
}

// TestPipeInPlaceOfFile: a pipe under the name of a file is refused, and nobody
// waits for its other end.
func TestPipeInPlaceOfFile(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}})
	check.Must(t, err)
	for _, name := range []string{"client-0", "client-0.part"} { // to be read, and to be written
		root := t.TempDir()
		p := open(t, "storage:dir="+root, l)
		s, w := p.server, p.worker
		publish(t, s, 1)
		found, err := filepath.Glob(filepath.Join(root, "ipcbench-*"))
		check.Must(t, err)
		path := filepath.Join(found[0], name)
		failed := make(chan error, 1)
		go func() {
			failed <- func() error {
				if name == "client-0.part" {
					if err := unix.Mkfifo(path, 0o600); err != nil {
						return err
					}
				}
				if err := s.Dispatch(t.Context(), 0, driver.Job{}); err != nil {
					return err
				}
				if _, _, err := w.Receive(t.Context()); err != nil {
					return err
				}
				u, err := w.Reserve()
				if err != nil {
					return err
				}
				if err := w.Submit(t.Context(), u); err != nil {
					return err
				}
				if err := errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)); err != nil {
					return err
				}
				update, err := s.Collect(t.Context(), 0)
				if err == nil {
					update.Release()
				}
				return err
			}()
		}()
		err = waiting.Receive(t, name+": an error, not the other end of a pipe", failed)
		check.That(t, err != nil && strings.Contains(err.Error(), path) && strings.HasPrefix(err.Error(), "storage: lane 0: "),
			"%s: error %v, want one that names the file and the lane", name, err)
	}
}

// TestMemoryBeforeHello: a worker makes its memory before it connects: the server
// waits for a hello for seconds only, and touching memory may take longer.
func TestMemoryBeforeHello(t *testing.T) {
	const size = 64 << 20
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.U8, Shape: []int{size}}})
	check.Must(t, err)
	most := 0
	for range 5 { // memory that tests before have left may go meanwhile
		if most = max(most, grownBeforeHello(t, l)); most >= size {
			return
		}
	}
	t.Errorf("the worker has touched %d bytes when it connects, want %d for its update", most, size)
}

// grownBeforeHello returns by how much this process has grown when a worker connects.
func grownBeforeHello(t *testing.T, l *tensor.Layout) int {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	check.Must(t, err)
	defer listener.Close()
	debug.FreeOSMemory() // so that nothing is used again without being touched
	before := resident(t)
	dialled := make(chan error, 1)
	go func() {
		_, err := transports.Dial(t.Context(), variant(t, "pickle"), driver.EndpointAt("unix:"+listener.Addr().String(), "secret"), 0, one(l))
		dialled <- err
	}()
	conn, err := listener.Accept()
	check.Must(t, err)
	grown := resident(t) - before
	check.Must(t, conn.Close())
	if err := <-dialled; err == nil {
		t.Error("dialled what closed the connection")
	}
	return grown
}

// resident returns how much memory this process has.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	check.Must(t, err)
	var size, pages int
	_, err = fmt.Sscan(string(text), &size, &pages)
	check.Must(t, err)
	return pages * os.Getpagesize()
}

// TestStorageInMemory: files in a tmpfs are memory: they count in the footprint,
// and do not fit if the memory does not, however large the tmpfs is.
func TestStorageInMemory(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=1p"); err != nil {
		skip.Refused(t, "a mount of a tmpfs: %v", err)
	}
	t.Cleanup(func() { check.Must(t, unix.Unmount(root, 0)) })
	const size = 16 << 40 // more than any memory, less than the tmpfs
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.U8, Shape: []int{size}}})
	check.Must(t, err)
	v, err := transports.Parse("storage:dir="+root, []driver.Transport{pickle.Storage()})
	check.Must(t, err)
	o := driver.Options{Down: l, Up: l, Lanes: 2, Clients: 2, Depth: 2, Settings: v.Settings}
	if err := v.Transport.Check(o); err == nil || !strings.Contains(err.Error(), "is a tmpfs") || !strings.Contains(err.Error(), "are available (") {
		t.Errorf("got %v, want that the tmpfs is memory and that there is not enough", err)
	}
	pipe, err := transports.Parse("pickle", []driver.Transport{pickle.New()})
	check.Must(t, err)
	files, heap := v.Transport.Footprint(o), pipe.Transport.Footprint(o)
	check.That(t, files >= heap+3*size,
		"footprint of %d bytes, without files %d: want three files of %d more", files, heap, int64(size))
	// A name for /dev/shm is /dev/shm.
	link := filepath.Join(t.TempDir(), "link")
	check.Must(t, os.Symlink(scratch.SharedMemory, link))
	o.Settings = driver.Settings{"dir": link, "elems": "off"}
	check.Fails(t, v.Transport.Check(o), "is shared memory", "a link to", scratch.SharedMemory)
}

// TestStorageRefuses: shared memory is no disk, and files that do not fit are
// told before anything starts.
func TestStorageRefuses(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.U8, Shape: []int{1 << 50}}})
	check.Must(t, err)
	small, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.U8, Shape: []int{1}}})
	check.Must(t, err)
	for _, c := range []struct {
		text, want string
		l          *tensor.Layout
	}{
		{"storage:dir=/dev/shm", "is shared memory", small},
		{"storage:dir=/does/not/exist", "no such file", small},
		{"storage", "bytes, ", l},
	} {
		v, err := transports.Parse(c.text, []driver.Transport{pickle.Storage()})
		check.Must(t, err)
		err = v.Transport.Check(driver.Options{Down: c.l, Up: c.l, Lanes: 1, Clients: 1, Depth: 1, Settings: v.Settings})
		check.Fails(t, err, c.want, c.text)
	}
}

// TestOutside: a link out of the directory is not followed, neither to read a job nor to
// write an update.
func TestOutside(t *testing.T) {
	root, other := t.TempDir(), filepath.Join(t.TempDir(), "thesis")
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}})
	check.Must(t, err)
	check.Must(t, os.WriteFile(other, []byte("thesis"), 0o600))
	p := open(t, "storage:dir="+root, l)
	publish(t, p.server, 1)
	check.Must(t, p.server.Dispatch(t.Context(), 0, driver.Job{}))
	found, err := filepath.Glob(filepath.Join(root, "ipcbench-*", "client-0"))
	check.Must(t, err)
	check.Must(t, errors.Join(os.Remove(found[0]), os.Symlink(other, found[0])))
	_, _, err = p.worker.Receive(t.Context())
	if err == nil || !strings.Contains(err.Error(), "path escapes from parent") || !strings.Contains(err.Error(), found[0]) {
		t.Errorf("got error %v", err)
	}
	if text, err := os.ReadFile(other); string(text) != "thesis" {
		t.Errorf("the other file: got %q, %v", text, err)
	}
}
