package batched

import (
	"sync"

	"ipcbench/tensor"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/mailbox"
)

// A task is a job with its model.
type task struct {
	driver.Job
	id     uint64          // from 1 in each lane
	model  *tensor.Package // nil if the job comes without a model
	beside driver.Beside   // receipt, rows and version of the model
}

// A lane is the server's end of one worker.
type lane struct {
	index int
	s     *server
	reply *pb.MessageHeader // header of every response to this worker
	mail  *mailbox.Lane[task]
	bank  *driver.HeapBank // memory of the updates
	tasks uint64           // number of dispatched tasks, and the id of the last one

	mu        sync.Mutex
	update    *tensor.Package // guarded by mu: memory for results; nil once they have arrived
	uploading bool            // guarded by mu: a handler writes to update
	closed    bool            // guarded by mu
	joined    bool            // guarded by mu: a worker has joined
	worker    uint64          // guarded by mu: number of that worker
	left      bool            // guarded by mu: it has left, or was told to quit
	conns     int             // guarded by mu
}

// begin lends the memory of the update to a handler, until end. Only one handler can have
// it: a worker that reconnects while its broken connection's handler is running must
// retry.
func (l *lane) begin() (*tensor.Package, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, refuse(closing, "the session is over")
	case l.uploading:
		return nil, refuse(busy, "another upload of results from %s is in progress", l.reply.Receiver)
	case l.update == nil:
		return nil, refuse(duplicateResults, "the results were already received")
	}
	l.uploading = true
	return l.update, nil
}

// end delivers a whole update. Otherwise it keeps the memory for the next attempt, or
// releases it if the lane is closed.
func (l *lane) end(whole bool) error {
	l.mu.Lock()
	p, keep := l.update, !whole && !l.closed
	l.uploading = false
	if !keep {
		l.update = nil
	}
	l.mu.Unlock()
	switch {
	case whole: // Deliver releases the package if no Collect can return it
		return l.mail.Deliver(mailbox.Delivery{Package: p, Delivered: driver.Delivered{Body: driver.All(p)}})
	case !keep:
		p.Release()
	}
	return nil
}

// close ends the lane. Waiting calls return, and later uploads are refused.
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

// join assigns the lane to a worker, and refuses every other worker from then on. The
// same worker may join again, because the response may have been lost.
func (l *lane) join(worker uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.joined && worker != l.worker {
		return refuse(taken, "%s belongs to another worker", l.reply.Receiver)
	}
	l.joined, l.worker = true, worker
	return nil
}

// leave notes that the worker has left, or will.
func (l *lane) leave() {
	l.mu.Lock()
	l.left = true
	l.mu.Unlock()
	l.s.notify()
}

func (l *lane) connected(n int) {
	l.mu.Lock()
	l.conns += n
	l.mu.Unlock()
	l.s.notify()
}

// present reports whether the lane's worker has joined and not left. A worker that keeps
// its connection has left if it has none.
func (l *lane) present() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.joined && !l.left && (l.conns > 0 || l.s.cfg.perCall)
}
