package shm

import (
	"context"
	"errors"
	"sync"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// With buffers=client, each client of a round has segments of its own for its update. The server
// makes them before the round's first job and keeps all of them until it publishes the next
// model, as BlazeFL does. With pass=fd the workers make them, and only the second half holds.

// A keeper closes updates that were released: at once, or with buffers=client when the next model
// is published or another round begins with the same one.
type keeper struct {
	most int // number of clients whose updates it keeps

	mu   sync.Mutex
	kept []*segmentSet // guarded by mu
	over bool          // guarded by mu: the session has ended
}

func keeperOf(o driver.Options) keeper {
	if o.Settings.Get("buffers") == "client" {
		return keeper{most: o.Clients}
	}
	return keeper{}
}

// released takes an update that its user does not need any more. Its caller cannot return errors.
func (k *keeper) released(b *segmentSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) >= k.most {
		_ = k.close()
	}
	if k.kept = append(k.kept, b); k.most == 0 || k.over {
		_ = k.close()
	}
}

// clear closes all updates that are kept.
func (k *keeper) clear() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.close()
}

// close is clear with mu held.
func (k *keeper) close() (err error) {
	for _, b := range k.kept {
		err = errors.Join(err, b.close())
	}
	k.kept = nil
	return err
}

// end is clear at the session's end.
func (k *keeper) end() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	return k.close()
}

// A clientServer is the server with buffers=client and pass=name.
type clientServer struct {
	*modelServer
	keeper
	jobs []*segmentSet // by lane: memory for the current job's update

	unused []*segmentSet // guarded by keeper.mu
}

func newClientServer(models *modelServer) *clientServer {
	s := &clientServer{modelServer: models, keeper: keeperOf(models.o), jobs: make([]*segmentSet, models.o.Lanes)}
	s.own(func() error {
		s.kept = append(append(s.kept, s.unused...), s.jobs...) // nothing else is running
		return s.end()
	})
	return s
}

func (s *clientServer) Publish(ctx context.Context, p *tensor.Package) error {
	err := errors.Join(s.modelServer.Publish(ctx, p), s.clear())
	s.mu.Lock()
	defer s.mu.Unlock()
	for err == nil && len(s.unused) < s.o.Clients {
		err = s.add()
	}
	return err
}

// add makes segments for one more client. It is called with mu held.
func (s *clientServer) add() error {
	_, b, err := s.newUpdate(nil)
	if err == nil {
		s.unused = append(s.unused, b)
	}
	return err
}

func (s *clientServer) Dispatch(_ context.Context, n int, model *tensor.Package, j driver.Job) error {
	b, err := s.next()
	if err != nil {
		return err
	}
	s.jobs[n] = b
	return s.post(n, s.order(model, j, b.handle()))
}

// next returns segments that no client has used.
func (s *clientServer) next() (*segmentSet, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unused) == 0 {
		if err := s.add(); err != nil { // for another round with the same model
			return nil, err
		}
	}
	b := s.unused[0]
	s.unused = s.unused[1:]
	return b, nil
}

func (s *clientServer) Collect(ctx context.Context, n int) (*tensor.Package, driver.Delivered, error) {
	r, err := s.fetch(ctx, n)
	if err != nil {
		return collected(r, nil, err)
	}
	b := s.jobs[n]
	s.jobs[n] = nil
	b.pkg.Lend(s.o.Out, func(*tensor.Package) { s.released(b) })
	return collected(r, b.pkg, nil)
}
