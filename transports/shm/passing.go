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
	"ipcbench/transports/internal/slab"
)

// With pass=fd a worker makes a new memfd for each tensor of an update and
// passes the descriptors through the lane's socket, in packets of at most
// maxFiles, before it posts the receipt:
//
//	offset  size
//	     0     8  serial of the update
//	     8     4  first tensor in this packet
const passFixed = 12

// pass sends the descriptors of a bundle.
func pass(ctx context.Context, l *link, b *bundle, rec *phase.Recorder, id phase.ID) error {
	span := rec.Begin(phase.Send, id)
	defer span.End()
	stop := l.obey(ctx)
	files := make([]*os.File, len(b.segments))
	for i, m := range b.segments {
		files[i] = m.File()
	}
	var err error
	for first := 0; first < len(files) && err == nil; first += maxFiles {
		packet := binary.LittleEndian.AppendUint64(nil, b.serial)
		packet = binary.LittleEndian.AppendUint32(packet, uint32(first))
		err = l.send(packet, files[first:min(first+maxFiles, len(files))]...)
	}
	if !stop() && err != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("pass descriptors: %w", err)
	}
	return nil
}

// passing is the server's side: descriptors arrive on each lane's connection and
// wait there for Collect.
type passing struct {
	o      driver.Options
	ledger *tensor.Ledger
	lanes  []passingLane
}

type passingLane struct {
	arrived chan []*os.File // all descriptors of one update
	gone    chan struct{}   // closed when the worker has left
	partial []*os.File      // of the connection's goroutine

	mu     sync.Mutex
	serial uint64 // guarded by mu: of the job that was issued last
	out    int    // guarded by mu: updates that are issued or lent
}

func newPassing(o driver.Options, ledger *tensor.Ledger) *passing {
	p := &passing{o: o, ledger: ledger, lanes: make([]passingLane, o.Lanes)}
	for i := range p.lanes {
		p.lanes[i].arrived, p.lanes[i].gone = make(chan []*os.File, 1), make(chan struct{})
	}
	return p
}

func (p *passing) handle(serial uint64) slab.Handle {
	return slab.Handle{Length: uint64(p.o.Up.Size()), Generation: serial}
}

func (p *passing) issue(n int) (slab.Handle, error) {
	l := &p.lanes[n]
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out == p.o.Depth {
		return slab.Handle{}, fmt.Errorf("all %d updates of the lane are out", p.o.Depth)
	}
	l.out++
	l.serial++
	return p.handle(l.serial), nil
}

// passed takes the next packet of lane n.
func (p *passing) passed(n int, packet []byte, files []*os.File) error {
	l := &p.lanes[n]
	if err := p.fits(l, packet, files); err != nil {
		closeAll(files)
		return err
	}
	l.partial = append(l.partial, files...)
	if len(l.partial) < p.o.Up.Len() {
		return nil
	}
	select {
	case l.arrived <- l.partial:
		l.partial = nil
		return nil
	default:
		return errSequence // left() closes them
	}
}

func (p *passing) fits(l *passingLane, packet []byte, files []*os.File) error {
	if len(packet) != passFixed {
		return errMessage
	}
	l.mu.Lock()
	serial := l.serial
	l.mu.Unlock()
	first := binary.LittleEndian.Uint32(packet[8:])
	if binary.LittleEndian.Uint64(packet) != serial || uint64(first) != uint64(len(l.partial)) {
		return errSequence
	}
	if len(files) == 0 || len(files) > p.o.Up.Len()-len(l.partial) {
		return errLength
	}
	return nil
}

// lend waits for the descriptors of the update, which were sent before the
// message that named it, and maps them.
func (p *passing) lend(ctx context.Context, n int, h slab.Handle) (*tensor.Package, error) {
	l := &p.lanes[n]
	l.mu.Lock()
	want := p.handle(l.serial)
	l.mu.Unlock()
	if h != want {
		return nil, fmt.Errorf("update %+v, the job was given %+v: %w", h, want, slab.ErrStale)
	}
	var files []*os.File
	if p.o.Up.Len() > 0 {
		var err error
		if files, err = l.await(ctx); err != nil {
			return nil, err
		}
	}
	b, err := takeBundle(p.o.Up, h.Generation, func(i int) (*slab.Memory, error) {
		f := files[i]
		files[i] = nil
		return slab.Open(f, segmentSize(p.o.Up, i), slab.ReadOnly, slab.Untouched)
	})
	if err != nil {
		closeAll(files) // closing those that are nil does nothing
		return nil, err
	}
	b.pkg.Lend(p.ledger, func(*tensor.Package) {
		_ = b.close() // the package is gone either way
		l.mu.Lock()
		defer l.mu.Unlock()
		l.out--
	})
	return b.pkg, nil
}

func (l *passingLane) await(ctx context.Context) ([]*os.File, error) {
	select {
	case files := <-l.arrived:
		return files, nil
	case <-l.gone:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case files := <-l.arrived: // sent before the worker went
		return files, nil
	default:
		return nil, errors.Join(errGone, errors.New("its descriptors did not arrive"))
	}
}

func (p *passing) left(n int) {
	l := &p.lanes[n]
	closeAll(l.partial)
	l.partial = nil
	close(l.gone)
}

// close drops the descriptors of updates that nobody collected. All workers have
// left.
func (p *passing) close() {
	for i := range p.lanes {
		select {
		case files := <-p.lanes[i].arrived:
			closeAll(files)
		default:
		}
	}
}
