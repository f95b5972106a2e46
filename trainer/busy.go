package trainer

import (
	"context"
	"sync"
)

// busy counts the lanes that are in the middle of a job, from the end of Receive
// to the end of Submit.
type busy struct {
	mu    sync.Mutex
	lanes int // guarded by mu
	none  *sync.Cond
}

func newBusy() *busy {
	b := &busy{}
	b.none = sync.NewCond(&b.mu)
	return b
}

func (b *busy) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lanes += n; b.lanes == 0 {
		b.none.Broadcast()
	}
}

// await waits until no lane is busy.
func (b *busy) await(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { // not between the look at ctx and the wait
		b.mu.Lock()
		defer b.mu.Unlock()
		b.none.Broadcast()
	})()
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.lanes > 0 && ctx.Err() == nil {
		b.none.Wait()
	}
	return context.Cause(ctx)
}
