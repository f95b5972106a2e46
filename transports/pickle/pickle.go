package pickle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"ipcbench/transports"
)

// Pipe returns the transport "pickle".
func Pipe() transports.Transport { return driver{name: "pickle"} }

// Files returns the transport "storage".
func Files() transports.Transport { return driver{name: "storage", files: true} }

type driver struct {
	name  string
	files bool
}

func (d driver) Name() string { return d.name }

func (d driver) Settings() []transports.Setting {
	settings := []transports.Setting{
		transports.OnOff("elems", false, "send slices of numbers, which gob encodes one element at a time, instead of bytes"),
	}
	if d.files {
		settings = append(settings, transports.Setting{
			Name: "dir", Kind: transports.Path,
			Help: "directory in which the session makes its private one for the files; empty is the temporary directory",
		})
	}
	return settings
}

func (d driver) Check(o transports.Options) error {
	if !d.files {
		return nil
	}
	return checkRoom(o)
}

func (d driver) Footprint(o transports.Options) int64 {
	down, up := int64(o.Down.Size()), int64(o.Up.Size())
	n := int64(o.Lanes)
	// Two models and the updates in flight at the server; a model and an update
	// at each worker; and as much again, because gob allocates a buffer for all
	// that it decodes and the collector waits until the heap has doubled.
	heap := 2 * (2*down + n*(int64(o.Depth)*up+down+up))
	if d.files {
		heap += inMemory(o)
	}
	return heap
}

func (d driver) Listen(_ context.Context, o transports.Options) (transports.Server, error) {
	s := newServer(d.name, o)
	var err error
	if d.files {
		if s.files, err = newFiles(o); err != nil {
			return nil, fmt.Errorf("%s: listen: %w", d.name, err)
		}
	}
	path := filepath.Join(o.Dir, d.name+".sock")
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
		return nil, fmt.Errorf("%s: listen: %w", d.name, err)
	}
	s.accept(l)
	return s, nil
}

func (d driver) Dial(ctx context.Context, addr string, lane int, o transports.Options) (transports.Worker, error) {
	w := newWorker(d.name, lane, o) // before the server waits for its hello: that may take long
	conn, err := transports.Dial(ctx, "unix", addr)
	if err != nil {
		return nil, w.wrap("dial", err)
	}
	transports.Enlarge(conn)
	w.stream = newStream(conn, o.Rec)
	if err := w.hello(ctx); err != nil {
		conn.Close()
		return nil, w.wrap("dial", err)
	}
	return w, nil
}
