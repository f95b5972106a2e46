package pickle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"ipcbench/transports/driver"
)

// Pipe returns the transport "pickle".
func Pipe() driver.Transport { return transport{name: "pickle"} }

// Files returns the transport "storage".
func Files() driver.Transport { return transport{name: "storage", files: true} }

type transport struct {
	name  string
	files bool
}

func (t transport) Name() string { return t.name }

func (t transport) Settings() []driver.Setting {
	settings := []driver.Setting{
		driver.OnOff("elems", false, "send slices of numbers, which gob encodes one element at a time, instead of bytes"),
	}
	if t.files {
		settings = append(settings, driver.Setting{
			Name: "dir", Kind: driver.Path,
			Help: "directory in which the session makes its private one for the files; empty is the temporary directory",
		})
	}
	return settings
}

func (t transport) Check(o driver.Options) error {
	if !t.files {
		return nil
	}
	return checkRoom(o)
}

func (t transport) Footprint(o driver.Options) int64 {
	down, up := int64(o.Down.Size()), int64(o.Up.Size())
	n := int64(o.Lanes)
	// Two models and the updates in flight at the server; a model and an update
	// at each worker; and as much again, because gob allocates a buffer for all
	// that it decodes and the collector waits until the heap has doubled.
	heap := 2 * (2*down + n*(int64(o.Depth)*up+down+up))
	if t.files {
		heap += inMemory(o)
	}
	return heap
}

func (t transport) Listen(_ context.Context, o driver.Options) (driver.Server, error) {
	s := newServer(t.name, o)
	var err error
	if t.files {
		if s.files, err = newFiles(o); err != nil {
			return nil, fmt.Errorf("%s: listen: %w", t.name, err)
		}
	}
	path := filepath.Join(o.Dir, t.name+".sock")
	l, err := net.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			l.Close()
		}
	}
	if err != nil {
		if s.files != nil {
			err = errors.Join(err, s.files.close())
		}
		return nil, fmt.Errorf("%s: listen: %w", t.name, err)
	}
	s.accept(l)
	return s, nil
}

func (t transport) Dial(ctx context.Context, addr string, lane int, o driver.Options) (driver.Worker, error) {
	w := newWorker(t.name, lane, o) // before the server waits for its hello: that may take long
	conn, err := driver.Dial(ctx, "unix", addr)
	if err != nil {
		return nil, w.wrap("dial", err)
	}
	driver.Enlarge(conn)
	w.stream = newStream(conn, o.Rec)
	if err := w.hello(ctx); err != nil {
		conn.Close()
		return nil, w.wrap("dial", err)
	}
	return w, nil
}
