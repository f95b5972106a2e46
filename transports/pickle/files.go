package pickle

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"ipcbench/machine"
	"ipcbench/phase"
	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// files is the server's directory of models and updates.
type files struct {
	dir *scratch.Dir
	rec *phase.Recorder
}

func root(o driver.Options) string {
	if dir := o.Settings.Get("dir"); dir != "" {
		return dir
	}
	return os.TempDir()
}

// checkRoom makes sure that the files will be files, and that they fit.
func checkRoom(o driver.Options) error {
	dir := root(o)
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("storage: directory: %w", err)
	}
	if real == scratch.SharedMemory || strings.HasPrefix(real, scratch.SharedMemory+"/") {
		return fmt.Errorf("storage: dir=%s is shared memory: choose a directory on a disk, or transport shm-tensor", dir)
	}
	free, err := machine.Room(dir)
	if err != nil {
		return fmt.Errorf("storage: %w: set dir= to a directory that can be written to", err)
	}
	need := room(o)
	if need > float64(free) {
		return fmt.Errorf("storage: directory %s: files need %.0f bytes, %d are free: free some, or set dir= to another disk", dir, need, free)
	}
	if isTmpfs(dir) { // whose own limit may be more than there is
		if have, limit := machine.MemoryLimit(); need > float64(have) {
			return fmt.Errorf("storage: directory %s is a tmpfs, so that its files are memory: they need %.0f bytes, %d are available (%s): set dir= to a directory on a disk",
				dir, need, have, limit)
		}
	}
	return nil
}

// inMemory is how many bytes of the files lie in memory: all of them if their
// directory is a tmpfs, as /tmp is on some systems, and none otherwise.
func inMemory(o driver.Options) int64 {
	if !isTmpfs(root(o)) {
		return 0
	}
	return int64(min(room(o), math.MaxInt64/2))
}

func isTmpfs(dir string) bool {
	name, err := machine.FileSystem(dir) // Check tells of a directory that does not exist
	return err == nil && name == "tmpfs"
}

// room is how many bytes there may be in files at once: a model being written
// beside the one that it replaces, when there are no updates, or one model and an
// update for each lane. It is a float since those do not overflow.
func room(o driver.Options) float64 {
	elems := o.Settings.On("elems")
	down, up := fileSize(o.Down, elems), fileSize(o.Up, elems)
	return max(2*down, down+float64(o.Lanes)*up)
}

// fileSize is the most bytes of a file with tensors of layout l and a receipt of
// a page.
func fileSize(l *tensor.Layout, elems bool) float64 {
	const header, perValue = 8 << 10, 32
	size := float64(l.Payload())
	values := float64(l.Len()) + size/pieceSize
	if elems {
		size *= 2 // an i8 may take two bytes; larger elements grow by less
	}
	return header + perValue*values + size
}

func newFiles(o driver.Options) (*files, error) {
	dir, err := scratch.New(root(o))
	if err != nil {
		return nil, err
	}
	return &files{dir: dir, rec: o.Rec}, nil
}

func (f *files) modelPath() string { return filepath.Join(f.dir.Path(), "model") }

func (f *files) clientPath(client int) string {
	return filepath.Join(f.dir.Path(), fmt.Sprintf("client-%d", client))
}

// writeModel writes the model of a round, once for all clients.
func (f *files) writeModel(ctx context.Context, k *packer, p *tensor.Package) error {
	return writeFile(ctx, f.rec, phase.Whole(-1), f.modelPath(), func(enc *gob.Encoder) error {
		return k.encode(enc, header{Receipt: p.Receipt}, p)
	})
}

// writeJob writes a client's job to the client's file.
func (f *files) writeJob(ctx context.Context, id phase.ID, j driver.Job) (string, error) {
	path := f.clientPath(j.Client)
	return path, writeFile(ctx, f.rec, id, path, func(enc *gob.Encoder) error {
		return enc.Encode(header{Job: j, Path: f.modelPath()})
	})
}

// readUpdate waits for the word that the client's file holds its update now,
// reads it and removes it.
func (f *files) readUpdate(ctx context.Context, ln *lane, id phase.ID, update *tensor.Package) error {
	path := f.clientPath(id.Client)
	err := ln.stream.receive(ctx, id, func() error {
		var h header
		if err := ln.stream.next(&h); err != nil {
			return err
		}
		if h.Path != path {
			return fmt.Errorf("update is in %q, want %q", h.Path, path)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = readFile(f.rec, id, path, func(st *stream) error { return ln.decodeUpdate(st, id, update) })
	if err != nil {
		return err
	}
	return os.Remove(path)
}

func (f *files) close() error { return f.dir.Close() }

// readFiles reads the job from the client's file, and the model that it names.
func (w *worker) readFiles(path string) error {
	w.path = path
	var h header
	err := readFile(w.o.Rec, phase.ID{Lane: w.lane, Round: -1, Client: -1}, path, func(st *stream) error { return st.next(&h) })
	if err != nil {
		return err
	}
	w.job = h.Job
	return readFile(w.o.Rec, w.id(), h.Path, func(st *stream) error {
		var m header
		if err := st.next(&m); err != nil {
			return err
		}
		return w.packer.decode(st, w.id(), m, w.model)
	})
}

// writeFile replaces path by a file with one message. A reader sees the old file
// or the new one, never a part. The new one must not exist before: opening what
// somebody else put there, such as a pipe, might wait for ever.
func writeFile(ctx context.Context, rec *phase.Recorder, id phase.ID, path string, encode func(*gob.Encoder) error) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = newStream(f, rec).send(ctx, id, encode)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func readFile(rec *phase.Recorder, id phase.ID, path string, decode func(*stream) error) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0) // a pipe is not waited for
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err == nil {
		st := newStream(f, rec)
		st.id = id
		err = decode(st)
	}
	if errors.Is(err, io.EOF) { // which would mean that the session has ended
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}
