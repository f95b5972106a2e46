package pickle_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/scratch"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/pickle"
)

// alone returns a server without workers, and its options.
func alone(t *testing.T, tr driver.Transport) (driver.Server, driver.Options) {
	t.Helper()
	v, err := transports.NewVariant(tr, nil)
	check(t, err)
	dir, err := scratch.New(os.TempDir())
	check(t, err)
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "w", DType: tensor.F32, Shape: []int{10}}})
	check(t, err)
	o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 1, Depth: 1, Dir: dir.Path(), Settings: v.Settings}
	s, err := tr.Listen(t.Context(), o)
	check(t, err)
	t.Cleanup(func() {
		check(t, s.Shutdown(context.Background()))
		check(t, dir.Close())
	})
	return s, o
}

// TestErrorsNameTheTransport: pickle and storage share their code, and not their
// names.
func TestErrorsNameTheTransport(t *testing.T) {
	for _, tr := range []driver.Transport{pickle.Pipe(), pickle.Files()} {
		s, o := alone(t, tr)
		errs := map[string]error{}
		_, errs["dial"] = tr.Dial(t.Context(), s.Addr()+"x", 0, o)
		_, errs["stranger"] = tr.Dial(t.Context(), s.Addr(), 9, o)
		errs["dispatch"] = s.Dispatch(t.Context(), 0, driver.Job{})
		_, errs["collect"] = s.Collect(t.Context(), 0)
		publish(t, s, 1)
		_, err := s.Reserve()
		check(t, err)
		_, errs["reserve"] = s.Reserve()
		w, err := tr.Dial(t.Context(), s.Addr(), 0, o)
		check(t, err)
		p, err := w.Reserve()
		check(t, err)
		_, errs["second update"] = w.Reserve()
		check(t, w.Close())
		errs["submit"] = w.Submit(t.Context(), p)
		_, _, errs["receive"] = w.Receive(t.Context())
		wrong := o
		wrong.Dir = filepath.Join(o.Dir, "nowhere")
		_, errs["listen"] = tr.Listen(t.Context(), wrong)
		for act, err := range errs {
			if err == nil || !strings.HasPrefix(err.Error(), tr.Name()+": ") || strings.Count(err.Error(), tr.Name()+": ") > 1 {
				t.Errorf("%s: got error %v, want one that begins with %q", act, err, tr.Name())
			}
		}
	}
}

// TestOutOfDescriptors: a server that cannot take a connection says so, and
// takes it when it can.
func TestOutOfDescriptors(t *testing.T) {
	s, o := alone(t, pickle.Pipe())
	publish(t, s, 1)
	before := descriptors(t, func(now *unix.Rlimit) { now.Cur = uint64(nextDescriptor(t)) + 1 }) // one is left: the worker's own
	restore := func() { descriptors(t, func(now *unix.Rlimit) { *now = before }) }
	defer restore()

	type dialled struct {
		worker driver.Worker
		err    error
	}
	done := make(chan dialled, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		w, err := pickle.Pipe().Dial(ctx, s.Addr(), 0, o)
		done <- dialled{w, err}
	}()
	for {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		err := s.Dispatch(short, 0, driver.Job{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v, want a wait for the worker", err)
		}
		if errors.Is(err, unix.EMFILE) {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the last of many errors is %v, want one that says why nobody connects", err)
		}
	}
	restore()
	d := <-done
	check(t, d.err)
	check(t, d.worker.Close())
}

// nextDescriptor returns the lowest number that is free.
func nextDescriptor(t *testing.T) int {
	t.Helper()
	f, err := os.Open(os.DevNull)
	check(t, err)
	defer f.Close()
	return int(f.Fd())
}

// descriptors changes how many this process may have and returns what it was.
func descriptors(t *testing.T, change func(*unix.Rlimit)) unix.Rlimit {
	t.Helper()
	var before unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
	now := before
	change(&now)
	check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &now))
	return before
}

// TestShutdownAfterHello: a worker that was admitted is told of the end, however
// soon it comes.
func TestShutdownAfterHello(t *testing.T) {
	for range 300 {
		s, o := alone(t, pickle.Pipe())
		w, err := pickle.Pipe().Dial(t.Context(), s.Addr(), 0, o)
		check(t, err)
		ended := make(chan error, 1)
		go func() {
			_, _, err := w.Receive(t.Context())
			ended <- errors.Join(err, w.Close())
		}()
		check(t, s.Shutdown(t.Context()))
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Fatalf("got error %v, want io.EOF", err)
		}
	}
}
