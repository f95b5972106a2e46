package batched

import (
	"sync"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
)

// A task is a job and what its worker has to know besides.
type task struct {
	driver.Job
	id     uint64
	model  *tensor.Package // nil if it comes without one
	beside driver.Beside   // the model
}

// A lane is the server's end of one worker.
type lane struct {
	index int
	s     *server
	reply *pb.MessageHeader // of every response to this worker
	mail  *mailbox.Lane[task]
	bank  *driver.Bank
	tasks uint64 // dispatched so far: the id of the last one

	mu        sync.Mutex
	update    *tensor.Package // guarded by mu: where the task's results go; nil once they are here
	uploading bool            // guarded by mu: a handler writes to update
	closed    bool            // guarded by mu
	joined    bool            // guarded by mu: the worker is there
	worker    uint64          // guarded by mu: which one
	left      bool            // guarded by mu: and has gone, or was told to
	conns     int             // guarded by mu
}

// begin gives the memory of the update to a handler, and end takes it back.
// There is one at a time: a worker that comes back while the handler of its
// broken connection is still there has to wait.
func (l *lane) begin() (*tensor.Package, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, refuse(closing, "the session is over")
	case l.uploading:
		return nil, refuse(busy, "results of %s are coming in already", l.reply.Receiver)
	case l.update == nil:
		return nil, refuse(duplicateResults, "the results are here")
	}
	l.uploading = true
	return l.update, nil
}

// end delivers the update if whole, and otherwise keeps it for the next attempt.
func (l *lane) end(whole bool) error {
	l.mu.Lock()
	p, keep := l.update, !whole && !l.closed
	l.uploading = false
	if !keep {
		l.update = nil
	}
	l.mu.Unlock()
	switch {
	case whole: // mail releases what nobody waits for
		return l.mail.Deliver(mailbox.Delivery{Package: p, Delivered: driver.Delivered{Body: driver.All(p)}})
	case !keep:
		p.Release()
	}
	return nil
}

// close ends the lane: nothing is given or taken any more.
func (l *lane) close() {
	l.mail.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if !l.uploading && l.update != nil {
		l.update.Release()
		l.update = nil
	}
}

// join lets a worker have the lane, once. It may come again, since the answer may
// have been lost.
func (l *lane) join(worker uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined && worker != l.worker {
		return refuse(taken, "%s has or had another worker", l.reply.Receiver)
	}
	l.joined, l.worker = true, worker
	return nil
}

// leave says that the worker has gone, or will.
func (l *lane) leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.s.notify()
}

// connected counts the lane's connections. A worker that keeps its connection
// and has none is gone.
func (l *lane) connected(n int) {
	l.mu.Lock()
	l.conns += n
	l.mu.Unlock()
	l.s.notify()
}

func (l *lane) present() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joined && !l.left && (l.conns > 0 || l.s.cfg.perCall)
}
