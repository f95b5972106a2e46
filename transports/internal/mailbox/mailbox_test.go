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
)

// newUpdate returns a lent package and the ledger that counts it.
func newUpdate(t *testing.T) (*tensor.Package, *tensor.Ledger) {
	t.Helper()
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.U8, Shape: []int{3}}})
	check.Must(t, err)
	ledger := &tensor.Ledger{}
	p, err := driver.NewBank(l, 1, ledger).Lend()
	check.Must(t, err)
	return p, ledger
}

// TestParks: a request waits, without polling, until a job is dispatched, and
// Collect until its update is in.
func TestParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane[driver.Job]()
		jobs := make(chan driver.Job, 1)
		go func() {
			j, err := l.Take(t.Context())
			check.Must(t, err)
			jobs <- j
		}()
		synctest.Wait()
		_, ok := l.Again()
		check.That(t, !ok, "a job is to be given again before there is one")
		check.Must(t, l.Dispatch(driver.Job{Round: 3, Client: 5}))
		j := <-jobs
		check.That(t, j.Round == 3 && j.Client == 5, "got job %+v", j)
		if j, ok := l.Again(); !ok || j.Client != 5 {
			t.Error("the job whose answer may be lost is not given again")
		}
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

// TestOutOfOrder: calls that no job allows are refused, and what they brought is
// released.
func TestOutOfOrder(t *testing.T) {
	l := NewLane[driver.Job]()
	update, ledger := newUpdate(t)
	if err := l.Deliver(Delivery{Package: update}); err == nil || ledger.Out() != 0 {
		t.Errorf("update for no job: got error %v, %d out", err, ledger.Out())
	}
	check.Must(t, l.Dispatch(driver.Job{}))
	err := l.Dispatch(driver.Job{})
	check.That(t, err != nil, "second dispatch: got no error")
	first, _ := newUpdate(t)
	second, ledger := newUpdate(t)
	check.Must(t, l.Deliver(Delivery{Package: first}))
	if err := l.Deliver(Delivery{Package: second}); err == nil || ledger.Out() != 0 {
		t.Errorf("second update: got error %v, %d out", err, ledger.Out())
	}
}

func TestFailedUpload(t *testing.T) {
	l := NewLane[driver.Job]()
	broken := errors.New("broken")
	check.Must(t, l.Dispatch(driver.Job{}))
	check.Must(t, l.Deliver(Delivery{Err: broken}))
	_, _, err := l.Collect(t.Context())
	check.That(t, errors.Is(err, broken), "got error %v, want %v", err, broken)
}

func TestClose(t *testing.T) {
	l := NewLane[driver.Job]()
	check.Must(t, l.Dispatch(driver.Job{}))
	update, ledger := newUpdate(t)
	check.Must(t, l.Deliver(Delivery{Package: update}))
	l.Close()
	l.Close()
	check.Equal(t, ledger.Out(), 0, "updates are out after the close")
	late, ledger := newUpdate(t)
	if err := l.Deliver(Delivery{Package: late}); !errors.Is(err, errOver) || ledger.Out() != 0 {
		t.Errorf("update after the close: got error %v, %d out", err, ledger.Out())
	}
	err := l.Dispatch(driver.Job{})
	check.That(t, err != nil, "dispatch after the close: got no error")
	empty := NewLane[driver.Job]()
	empty.Close()
	if _, err := empty.Take(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("take after the close: got error %v, want io.EOF", err)
	}
}

func TestContext(t *testing.T) {
	l := NewLane[driver.Job]()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	_, err := l.Take(ctx)
	check.That(t, errors.Is(err, gone), "take: got error %v, want %v", err, gone)
	check.Must(t, l.Dispatch(driver.Job{}))
	if _, _, err := l.Collect(ctx); !errors.Is(err, gone) {
		t.Errorf("collect: got error %v, want %v", err, gone)
	}
}

// TestRefused: who waits in vain hears why the last update was refused, if it was one for
// the job that is out.
func TestRefused(t *testing.T) {
	l := NewLane[driver.Job]()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
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
	_, _, err := l.Collect(t.Context())
	check.Need(t, err == nil, "%v", err)
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

// TestSettle: a lane has settled when its worker's request waits, or when it is
// closed; the end of the context is an error that says what was missing.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLane[driver.Job]()
		settled := make(chan error, 1)
		settle := func(ctx context.Context) { go func() { settled <- l.Settle(ctx) }() }
		pending := func() bool { synctest.Wait(); return len(settled) == 0 }

		ctx, cancel := context.WithCancelCause(t.Context())
		settle(ctx)
		check.Need(t, pending(), "settled without a request")
		why := errors.New("patience is over")
		cancel(why)
		err := <-settled
		check.That(t, errors.Is(err, why), "got %v, want the cause of the context's end", err)

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
