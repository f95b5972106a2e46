package batched

import (
	"context"

	"ipcbench/phase"
)

// slots bounds how many handlers work at once. A handler holds a slot while it
// decodes, looks up or encodes, and never while it waits for a job or for the
// network: so a client that does not read takes nothing from the others.
type slots struct {
	free chan struct{} // nil: no bound
}

func newSlots(n int) slots {
	if n == 0 {
		return slots{}
	}
	return slots{make(chan struct{}, n)}
}

// take waits for a slot. Only a wait is timed.
func (s slots) take(ctx context.Context, t *tally) error {
	if s.free == nil {
		return nil
	}
	select {
	case s.free <- struct{}{}:
		return nil
	default:
	}
	defer t.begin(phase.Queue).end()
	select {
	case s.free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return refuse(stalled, "no handler was free in time")
	}
}

func (s slots) give() {
	if s.free != nil {
		<-s.free
	}
}
