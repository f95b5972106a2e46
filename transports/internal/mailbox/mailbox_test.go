package mailbox

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// newUpdate returns a lent package and the ledger that counts it.
func newUpdate(t *testing.T) (*tensor.Package, *tensor.Ledger) {
	t.Helper()
	ledger := &tensor.Ledger{}
	p := check.Value(driver.NewBank(driver.Options{Up: drivertest.Vectors(t, tensor.U8, 3), Depth: 1, Out: ledger}).Lend())(t)
	return p, ledger
}

// refuses delivers an update and checks that it is refused with want and released.
func refuses(t *testing.T, l *Lane[driver.Job], want string) {
	t.Helper()
	update, ledger := newUpdate(t)
	check.Fails(t, l.Deliver(Delivery{Package: update}), want)
	check.Equal(t, ledger.Out(), 0, "updates are out after", want)
}

// TestParks: without polling, a request waits until a job is dispatched, and Collect until
// its update has arrived.
func TestParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane[driver.Job]()
		jobs := make(chan driver.Job, 1)
		go func() {
			j := check.Value(l.Take(t.Context()))(t)
			jobs <- j
		}()
		synctest.Wait()
		_, early := l.Unanswered()
		check.That(t, !early, "a job is to be given again before there is one")
		check.Must(t, l.Dispatch(driver.Job{Round: 3, Client: 5}))
		j := <-jobs
		check.That(t, j.Round == 3 && j.Client == 5, "got job %+v", j)
		again, ok := l.Unanswered()
		check.That(t, ok && again.Client == 5, "the job whose answer may be lost is not given again")
		update, ledger := newUpdate(t)
		collected := make(chan *tensor.Package, 1)
		go func() {
			p, _, err := l.Collect(t.Context())
			check.Must(t, err)
			collected <- p
		}()
		synctest.Wait()
		check.Must(t, l.Deliver(Delivery{Package: update}))
		(<-collected).Release()
		check.Equal(t, ledger.Out(), 0, "updates are out")
	})
}

// TestOutOfOrder: calls in the wrong order are refused, and updates delivered with them are
// released.
func TestOutOfOrder(t *testing.T) {
	l := NewLane[driver.Job]()
	refuses(t, l, "not out")
	check.Must(t, l.Dispatch(driver.Job{}))
	check.Fails(t, l.Dispatch(driver.Job{}), "holds a job")
	update, ledger := newUpdate(t)
	check.Must(t, l.Deliver(Delivery{Package: update}))
	refuses(t, l, "not out")
	l.Close()
	l.Close()
	check.Equal(t, ledger.Out(), 0, "updates are out after the close")
	refuses(t, l, errOver.Error())
	check.Fails(t, l.Dispatch(driver.Job{}), errOver.Error())
	empty := NewLane[driver.Job]()
	empty.Close()
	_, err := empty.Take(t.Context())
	check.Equal(t, err, io.EOF, "take after the close")
}

func TestFailedUpload(t *testing.T) {
	l := NewLane[driver.Job]()
	broken := errors.New("broken")
	check.Must(t, l.Dispatch(driver.Job{}))
	check.Must(t, l.Deliver(Delivery{Err: broken}))
	_, _, err := l.Collect(t.Context())
	check.Equal(t, err, broken)
}

// TestRefused: a wait ends with its context, and returns the cause. If the last update for
// the current job was refused, Collect also returns that reason.
func TestRefused(t *testing.T) {
	l := NewLane[driver.Job]()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := l.Take(ctx)
	check.Equal(t, err, gone, "take")
	waits := func(want string) {
		t.Helper()
		_, _, err := l.Collect(ctx)
		check.That(t, errors.Is(err, gone) && err.Error() == want, "got error %q, want %q", err, want)
	}
	l.Refused(errors.New("no job"))
	check.Must(t, l.Dispatch(driver.Job{}))
	waits("gone")
	l.Refused(errors.New("too short"))
	waits("gone (the last update was refused: too short)")
	check.Must(t, l.Deliver(Delivery{}))
	_, _, err = l.Collect(t.Context())
	check.Must(t, err)
	l.Refused(errors.New("came already"))
	check.Must(t, l.Dispatch(driver.Job{Round: 1}))
	waits("gone")
}

// TestBusy: a lane has one worker.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane[driver.Job]()
		go func() {
			_, err := l.Take(t.Context())
			check.That(t, errors.Is(err, io.EOF), "got error %v, want io.EOF", err)
		}()
		synctest.Wait()
		_, err := l.Take(t.Context())
		check.That(t, errors.Is(err, ErrBusy), "got error %v, want %v", err, ErrBusy)
		l.Close()
	})
}

// TestSettle: a lane has settled when its worker's request waits, or when it is closed. If
// the context ends first, the error names the missing request.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane[driver.Job]()
		settled := make(chan error, 1)
		settle := func(ctx context.Context) { go func() { settled <- l.Settle(ctx) }() }
		pending := func() bool { synctest.Wait(); return len(settled) == 0 }

		ctx, cancel := context.WithCancelCause(t.Context())
		settle(ctx)
		check.Need(t, pending(), "settled without a request")
		cancel(errors.New("patience is over"))
		check.Fails(t, <-settled, "not asked for a job: patience is over")

		settle(t.Context())
		check.Need(t, pending(), "settled without a request")
		go l.Take(t.Context())
		check.OK(t, <-settled, "a request waits, and Settle says")
		check.Must(t, l.Dispatch(driver.Job{}))
		synctest.Wait()
		settle(t.Context())
		check.Need(t, pending(), "settled while the lane works on its job")
		l.Close()
		check.OK(t, <-settled, "the lane is closed, and Settle says")
	})
}
