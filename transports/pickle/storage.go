package pickle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/gobs"
)

// Storage returns the transport "storage".
func Storage() driver.Transport { return storage{} }

// storage differs from pickle in that messages with tensors are files.
type storage struct{ pickle }

func (storage) Name() string { return "storage" }

func (s storage) Settings() []driver.Setting {
	return append(s.pickle.Settings(), driver.Setting{
		Name: "dir", Kind: driver.Path,
		Help: "directory for the session's files; empty is the temporary one",
	})
}

// Traits allows workers on other hosts only with a directory that is set, because each
// host has its own temporary directory.
func (storage) Traits(s driver.Settings) driver.Traits {
	if dir := s.Get("dir"); dir != "" && s.Reach() == driver.Network {
		return driver.Traits{Reach: driver.Network, Folder: dir}
	}
	return driver.Traits{Reach: driver.Host}
}

func (storage) Check(o driver.Options) error { return checkRoom(o) }

// Needs returns the disk space of the files.
func (storage) Needs(o driver.Options) (driver.Needs, error) {
	return driver.Needs{Dir: root(o), Bytes: int64(min(room(o), math.MaxInt64/2))}, nil
}

func (s storage) Footprint(o driver.Options) int64 { return s.pickle.Footprint(o) + inMemory(o) }

func (storage) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	dir, err := scratch.New(root(o))
	if err != nil {
		return nil, err
	}
	f, err := openFiles(o)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	s, err := listen(ctx, e, o)
	if err != nil {
		return nil, errors.Join(err, f.root.Close(), dir.Close())
	}
	return &storageServer{server: s, dir: dir, files: f}, nil
}

func (storage) Dial(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	f, err := openFiles(o)
	if err != nil {
		return nil, err
	}
	w, err := dial(ctx, e, n, o)
	if err != nil {
		return nil, errors.Join(err, f.root.Close())
	}
	return &storageWorker{worker: w, files: f}, nil
}

// Each model is a file of its own. A job is written to the client's file, which names the
// job's model, if any. The update replaces it. The connection carries only the names of
// clients' files.
type (
	storageServer struct {
		*server
		files
		dir *scratch.Dir
	}
	storageWorker struct {
		*worker
		files
		path string // the file of the current job's client
	}
)

// model returns the file of p, a published model.
func (s *storageServer) model(p *tensor.Package) string {
	return s.name(fmt.Sprintf("model-%d", s.models.Published(p).Serial))
}

func (s *storageServer) client(j driver.Job) string {
	return s.name(fmt.Sprintf("client-%d", j.Client))
}

// name returns the path of a session's file, relative to root.
func (s *storageServer) name(file string) string {
	return filepath.Join(filepath.Base(s.dir.Path()), file)
}

// Reserve removes the file of the model whose memory it returns.
func (s *storageServer) Reserve() (*tensor.Package, error) {
	p, err := s.models.Reserve()
	if err == nil {
		err = s.root.Remove(s.model(p))
	}
	if errors.Is(err, fs.ErrNotExist) { // a model that was never published has no file
		err = nil
	}
	return p, err
}

func (s *storageServer) Publish(ctx context.Context, p *tensor.Package) error {
	if err := s.server.Publish(ctx, p); err != nil {
		return err
	}
	return s.write(s.model(p), phase.OfRound(-1), gobs.Header{Receipt: p.Receipt}, p)
}

func (s *storageServer) Dispatch(ctx context.Context, n int, model *tensor.Package, j driver.Job) error {
	l, err := s.dispatch(ctx, n, j)
	h := gobs.Header{Job: j, Bare: model == nil}
	if !h.Bare {
		h.Path = s.model(model)
	}
	if err == nil {
		err = s.write(s.client(j), j.ID(n), h, nil)
	}
	if err != nil {
		return err
	}
	return l.send(ctx, j.ID(n), gobs.Header{Path: s.client(j)}, nil)
}

func (w *storageWorker) Receive(ctx context.Context) (driver.Job, *tensor.Package, driver.Delivered, error) {
	var notice, job, model gobs.Header
	err := w.conn.receive(ctx, w.unknownJob(), &notice, nil)
	if err == nil {
		w.path, err = notice.Path, named(notice.Path)
	}
	if err == nil {
		err = w.read(notice.Path, w.unknownJob(), &job, nil)
	}
	if err == nil && !job.Bare {
		err = w.read(job.Path, job.Job.ID(w.lane), &model, w.model)
	}
	return w.accepted(job, err)
}

func (w *storageWorker) Submit(ctx context.Context, p *tensor.Package) error {
	id := w.job.ID(w.lane)
	if err := w.write(w.path, id, w.submitted(p), p); err != nil {
		return err
	}
	return w.conn.send(ctx, id, gobs.Header{Path: w.path}, nil)
}

func (s *storageServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	return s.collect(n, func(l *lane, id phase.ID, h *gobs.Header, p *tensor.Package) error {
		var notice gobs.Header
		err := l.receive(ctx, id, &notice, nil)
		path := s.client(l.job)
		if err == nil && notice.Path != path {
			err = fmt.Errorf("update must be in %q, not %q", path, notice.Path)
		}
		if err == nil {
			err = s.read(path, id, h, p)
		}
		if err != nil {
			return err
		}
		return s.root.Remove(path)
	})
}

func (s *storageServer) Shutdown(ctx context.Context) error {
	return errors.Join(s.server.Shutdown(ctx), s.root.Close(), s.dir.Close())
}

func (w *storageWorker) Close(cause error) error {
	return errors.Join(w.worker.Close(cause), w.root.Close())
}

// files writes and reads files of one message each, and counts their bytes. Paths are
// relative to the directory of the setting; no path or link can lead out of it.
type files struct {
	o              driver.Options
	root           *os.Root
	sent, received *phase.Counter
}

func openFiles(o driver.Options) (files, error) {
	dir, err := o.Folders.Open(root(o))
	if err != nil {
		return files{}, fmt.Errorf("directory: %w", err)
	}
	return files{o, dir, o.Rec.Counter(phase.WireSent), o.Rec.Counter(phase.WireReceived)}, nil
}

// named returns an error unless path is a file in a session's directory. The worker
// checks this because it writes to the path.
func named(path string) error {
	if dir, file := filepath.Split(path); !scratch.Named(filepath.Clean(dir)) || file == "" {
		return fmt.Errorf("file %.80q is not in a session's directory", path)
	}
	return nil
}

// write replaces path by a file with one message. Readers see the old or the new file,
// never a part. The temporary file must not exist, because opening a pipe, for example,
// could block forever.
func (f files) write(path string, id phase.ID, h gobs.Header, p *tensor.Package) error {
	part := path + ".part"
	to, err := f.open(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return err
	}
	err = gobs.NewEncoder(to, f.o.Rec, f.o.Settings.On("elems")).Encode(id, h, p)
	count(to, f.sent)
	if e := to.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = f.root.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path(path), err)
	}
	return nil
}

func (f files) read(path string, id phase.ID, h *gobs.Header, p *tensor.Package) error {
	from, err := f.open(path, os.O_RDONLY|unix.O_NONBLOCK) // does not block on a pipe
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		err = gobs.NewDecoder(from, f.o.Rec, f.o.Settings.On("elems")).Decode(id, h, p)
		count(from, f.received)
	}
	if errors.Is(err, io.EOF) { // io.EOF would mean that the session has ended
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", f.path(path), err)
	}
	return nil
}

func (f files) open(name string, flags int) (*os.File, error) {
	file, err := f.root.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.path(name), errors.Unwrap(err))
	}
	return file, nil
}

// path returns the full path of name, for messages.
func (f files) path(name string) string { return filepath.Join(f.root.Name(), name) }

func count(f *os.File, to *phase.Counter) {
	n, _ := f.Seek(0, io.SeekCurrent) // a regular file has a position
	to.Add(int(n))
}
