package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

// With pass=fd, a worker makes a new memfd for each tensor of an update. It sends the
// descriptors through the lane's socket, at most maxFiles per packet, before it posts
// the result. The format of such a packet:
//
//	offset  size
//	     0     1  passed
//	     1     8  serial of the update
//	     9     4  first tensor in this packet
const passFixed = 13

type (
	passingServer struct {
		*modelServer
		keeper
		incoming []*incoming // by lane
	}
	passingWorker struct {
		*modelWorker
		update *segmentSet // update of the current job
	}
)

// incoming receives a lane's updates. It keeps their descriptors until Collect.
type incoming struct {
	o       driver.Options
	arrived chan []*os.File // all descriptors of one update
	partial []*os.File      // part of an update; used by the connection's goroutine only

	released func(*segmentSet)

	mu     sync.Mutex
	serial uint64 // guarded by mu: serial of the latest issued update
	out    int    // guarded by mu: number of updates that are issued or lent
}

func newPassingServer(models *modelServer) *passingServer {
	s := &passingServer{modelServer: models, keeper: keeperOf(models.o)}
	s.own(s.end)
	for _, l := range s.lanes {
		in := &incoming{o: s.o, arrived: make(chan []*os.File, 1), released: s.released}
		l.take = in.take
		s.own(in.close)
		s.incoming = append(s.incoming, in)
	}
	return s
}

func (s *passingServer) Publish(ctx context.Context, p *tensor.Package) error {
	return errors.Join(s.modelServer.Publish(ctx, p), s.clear())
}

func (s *passingServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	update, err := s.incoming[n].issue()
	if err != nil {
		return err
	}
	return s.post(n, s.order(model, j, update))
}

func (in *incoming) issue() (slab.Handle, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.out == in.o.Depth {
		return slab.Handle{}, fmt.Errorf("all %d updates of the lane are in use", in.o.Depth)
	}
	in.out++
	in.serial++
	return slab.Handle{Length: uint64(in.o.Up.Size()), Generation: in.serial}, nil
}

func newPassingWorker(models *modelWorker) *passingWorker {
	w := &passingWorker{modelWorker: models}
	w.own(func() error { return w.update.close() })
	return w
}

func (w *passingWorker) Reserve() (_ *tensor.Package, err error) {
	w.update, err = makeSegmentSet(w.o.Up, w.order.update.Generation, func(i int) (*slab.Memory, error) {
		return slab.Memfd("ipcbench-update", segmentSize(w.o.Up, i), slab.ReadWrite, slab.Untouched.In(w.o.Pages))
	})
	if err != nil {
		return nil, err
	}
	return w.update.pkg, nil
}

func (w *passingWorker) Submit(ctx context.Context, p *tensor.Package) error {
	err := w.pass(ctx)
	if err = errors.Join(err, w.models.close(), w.update.close()); err != nil {
		return err
	}
	return w.post(p)
}

func (w *passingWorker) pass(ctx context.Context) error {
	span := w.o.Rec.Begin(phase.Send, w.order.job.ID(w.n))
	defer span.End()
	segments := filesIn(w.update.segments)
	err := endpoint.During(ctx, w.link.conn, func() (err error) {
		for first := 0; first < len(segments) && err == nil; first += maxFiles {
			packet := binary.LittleEndian.AppendUint64([]byte{passed}, w.update.serial)
			packet = binary.LittleEndian.AppendUint32(packet, uint32(first))
			err = w.link.send(packet, segments[first:min(first+maxFiles, len(segments))]...)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("pass descriptors: %w", err)
	}
	return nil
}

// take adds a packet's descriptors to the update. It takes ownership of files even if it
// fails.
func (in *incoming) take(packet []byte, files []*os.File) error {
	if err := in.fits(packet, files); err != nil {
		closeAll(files)
		return err
	}
	in.partial = append(in.partial, files...)
	if len(in.partial) < in.o.Up.Len() {
		return nil
	}
	select {
	case in.arrived <- in.partial:
		in.partial = nil
		return nil
	default:
		return errSequence // close will close in.partial
	}
}

func (in *incoming) fits(packet []byte, files []*os.File) error {
	if len(packet) != passFixed || packet[0] != passed {
		return errMessage
	}
	in.mu.Lock()
	serial := in.serial
	in.mu.Unlock()
	first := binary.LittleEndian.Uint32(packet[9:])
	if binary.LittleEndian.Uint64(packet[1:]) != serial || uint64(first) != uint64(len(in.partial)) {
		return errSequence
	}
	if len(files) == 0 || len(files) > in.o.Up.Len()-len(in.partial) {
		return errLength
	}
	return nil
}

func (s *passingServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	r, err := s.fetch(ctx, n)
	if err != nil {
		return collected(r, nil, err)
	}
	p, err := s.incoming[n].lend(ctx, r.update, s.lanes[n].gone)
	return collected(r, p, s.lanes[n].explain(err))
}

// lend waits for the descriptors, which the worker has sent before its result, and lends
// the update, whose handle is h.
func (in *incoming) lend(ctx context.Context, h slab.Handle, gone <-chan struct{}) (*tensor.Package, error) {
	var files []*os.File
	if in.o.Up.Len() > 0 {
		var err error
		if files, err = in.await(ctx, gone); err != nil {
			return nil, err
		}
	}
	defer closeAll(files) // Open has already closed those that it mapped
	b, err := takeSegmentSet(in.o.Up, h.Generation, func(i int) (*slab.Memory, error) {
		return slab.Open(files[i], segmentSize(in.o.Up, i), slab.ReadOnly, slab.Untouched.In(in.o.Pages))
	})
	if err != nil {
		return nil, err
	}
	b.pkg.Lend(in.o.Out, func(*tensor.Package) {
		in.released(b)
		in.mu.Lock()
		defer in.mu.Unlock()
		in.out--
	})
	return b.pkg, nil
}

func (in *incoming) await(ctx context.Context, gone <-chan struct{}) ([]*os.File, error) {
	select {
	case files := <-in.arrived:
		return files, nil
	case <-gone:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case files := <-in.arrived: // sent before the worker was gone
		return files, nil
	default:
		return nil, errors.Join(errGone, errors.New("its descriptors did not arrive"))
	}
}

// close closes descriptors that were not collected, after the worker has left.
func (in *incoming) close() error {
	closeAll(in.partial)
	select {
	case files := <-in.arrived:
		closeAll(files)
	default:
	}
	return nil
}
