package shm

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"ipcbench/internal/machine"
	"ipcbench/internal/scratch"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// PerTensor returns the transport shm-tensor, which keeps each tensor in its own segment.
func PerTensor() driver.Transport { return tensorTransport{root: scratch.SharedMemory} }

type tensorTransport struct {
	root string // directory in which sessions create theirs
}

func (tensorTransport) Name() string { return "shm-tensor" }

func (tensorTransport) Settings() []driver.Setting {
	return []driver.Setting{
		driver.OnOff("reuse", false, "reuse segments in every round instead of creating new ones"),
		{Name: "pass", Values: []string{"name", "fd", "pickle"}, Default: "name",
			Help: "pass updates as named files, as new memfds by descriptor, or serialized with gob through a socket"},
		{Name: "buffers", Values: []string{"lane", "client"}, Default: "lane",
			Help: "a lane's updates take turns in a few segments, or each client of a round has new ones"},
	}
}

func (tensorTransport) Traits(driver.Settings) driver.Traits {
	return driver.Traits{Reach: driver.Host}
}

// need holds the resources that a session needs.
type need struct {
	named     int64 // bytes of segments in a directory
	anonymous int64 // bytes of memfds
	mappings  int64 // of the server, which has the most
	files     int64 // descriptors open in one process
}

// Descriptors of a process in addition to tensors: some of its own, and per lane a
// socket, two mailboxes and the trainer's descriptors for the worker. The mappings are
// the Go runtime's.
const (
	filesOfProcess    = 100
	filesOfLane       = 8
	mappingsOfProcess = 1000
)

func needOf(o driver.Options) (n need, err error) {
	down, err := segmentBytes(o.Down)
	if err != nil {
		return n, err
	}
	up, err := segmentBytes(o.Up)
	if err != nil {
		return n, err
	}
	buffers := int64(o.Lanes) * int64(o.Depth)
	if o.Settings["buffers"] == "client" {
		buffers = max(buffers, int64(o.Clients))
	}
	if down > math.MaxInt64/4 || up > math.MaxInt64/4/buffers {
		return n, fmt.Errorf("%d buffers of %d bytes overflow", buffers, up)
	}
	n = need{
		named: 2*down + buffers*up, anonymous: controlBytes(o),
		mappings: mappingsOfProcess + 2*int64(o.Down.Len()) + buffers*int64(o.Up.Len()),
		files:    filesOfProcess + filesOfLane*int64(o.Lanes),
	}
	switch o.Settings["pass"] {
	case "fd":
		n.named -= buffers * up
		n.anonymous += buffers * up
		n.files += int64(o.Lanes) * int64(o.Up.Len())
	case "pickle": // with an update at each worker, and as much as gob leaves to the garbage collector
		n.named -= buffers * up
		n.anonymous += 2 * (buffers + int64(o.Lanes)) * up
		n.files += 2 * int64(o.Lanes)
	}
	return n, nil
}

// segmentBytes returns the size of a package's segments, in whole pages. It fails if a
// tensor has too many dimensions.
func segmentBytes(l *tensor.Layout) (int64, error) {
	page := int64(os.Getpagesize())
	total := int64(0)
	for i := range l.Len() {
		if rank := len(l.Spec(i).Shape); rank > maxRank {
			return 0, fmt.Errorf("tensor %d (%q) must have at most %[4]d dimensions, not %[3]d", i, l.Spec(i).Name, rank, maxRank)
		}
		total += (int64(segmentSize(l, i)) + page - 1) / page * page
	}
	return total, nil
}

func (t tensorTransport) Footprint(o driver.Options) int64 {
	n, err := needOf(o)
	if err != nil {
		return math.MaxInt64
	}
	return n.named + n.anonymous
}

func (t tensorTransport) Needs(o driver.Options) (driver.Needs, error) {
	n, err := needOf(o)
	return driver.Needs{Dir: t.root, Bytes: n.named, Mappings: n.mappings, Descriptors: n.files}, err
}

func (t tensorTransport) Check(o driver.Options) error {
	n, err := needOf(o)
	if err == nil {
		err = n.check(t.root)
	}
	if err == nil {
		err = exclusive(o.Settings)
	}
	return err
}

// exclusive returns an error if settings exclude each other.
func exclusive(s driver.Settings) error {
	switch pass, client := s.Get("pass"), s.Get("buffers") == "client"; {
	case s.On("reuse") && pass == "fd":
		return errors.New("reuse=on and pass=fd exclude each other: pass=fd needs new segments")
	case s.On("reuse") && client:
		return errors.New("reuse=on and buffers=client exclude each other: a client's segments are new in each round")
	case pass == "pickle" && client:
		return errors.New("pass=pickle and buffers=client exclude each other: serialized updates are not in segments")
	}
	return nil
}

// check returns an error if the machine lacks these resources. root is for named segments.
func (n need) check(root string) error {
	free, err := machine.Room(root)
	if err != nil {
		return fmt.Errorf("segments are files: %w: mount a writable tmpfs there (%s), or use shm-slab, which needs no files", err, machine.EnlargeShm(n.named))
	}
	if n.named > free {
		return fmt.Errorf("segments need %d bytes in %s, %d are available: enlarge it (%s), or use shm-slab, which does not use it",
			n.named, root, free, machine.EnlargeShm(n.named))
	}
	if err := checkMemory(n.named + n.anonymous); err != nil {
		return err
	}
	limits := machine.ReadLimits()
	if n.mappings > limits.Mappings {
		return fmt.Errorf("segments need %d mappings in one process, vm.max_map_count is %d: raise it, or use shm-slab, which needs a few", n.mappings, limits.Mappings)
	}
	if n.files > limits.Descriptors {
		return fmt.Errorf("the session needs %d descriptors in one process, the limit is %d: raise it (ulimit -Hn), or use fewer workers or pass=name", n.files, limits.Descriptors)
	}
	return nil
}

func (t tensorTransport) Listen(ctx context.Context, e *endpoint.Endpoint, o driver.Options) (driver.Server, error) {
	base, err := newServer(o)
	s := &modelServer{server: base, reuse: o.Settings.On("reuse")}
	if err == nil {
		err = s.make(t.root)
	}
	var driven driver.Server
	if err == nil {
		driven, err = updatesOver(s)
	}
	if err == nil {
		err = s.open(ctx, e, s.names.dir)
	}
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	return driven, nil
}

// updatesOver returns the server whose updates come as the settings say.
func updatesOver(s *modelServer) (driver.Server, error) {
	switch settings := s.o.Settings; {
	case settings["pass"] == "fd":
		return newPassingServer(s), nil
	case settings["pass"] == "pickle":
		return newPicklingServer(s)
	case settings["buffers"] == "client":
		return newClientServer(s), nil
	}
	named := &namedServer{modelServer: s}
	return named, named.make()
}

func (t tensorTransport) Dial(ctx context.Context, e *endpoint.Endpoint, n int, o driver.Options) (driver.Worker, error) {
	w, dir, files, err := join(ctx, e, n, o)
	if w == nil {
		return nil, err
	}
	streams := 0
	if o.Settings["pass"] == "pickle" {
		streams = 1
	}
	if err == nil && (len(files) != streams || !filepath.IsAbs(dir)) {
		err = fmt.Errorf("welcome with %d descriptors and directory %q must have %d and an absolute path", len(files), dir, streams)
	}
	var driven driver.Worker
	if err == nil {
		driven, err = updatesFrom(newModelWorker(w, dir), files)
	} else {
		closeAll(files)
	}
	if err == nil {
		err = w.agree(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, w.Close(err))
	}
	return driven, nil
}

// updatesFrom returns the worker for the server of [updatesOver]. It takes ownership of files.
func updatesFrom(models *modelWorker, files []*os.File) (driver.Worker, error) {
	switch models.o.Settings["pass"] {
	case "fd":
		return newPassingWorker(models), nil
	case "pickle":
		return newPicklingWorker(models, files[0])
	}
	return newNamedWorker(models), nil
}
