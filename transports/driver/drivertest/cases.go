package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// testJob: every field of a job arrives as it was dispatched.
func testJob(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 1)
	for i, want := range []driver.Job{
		{},
		{Round: 1, Client: 7, Weight: 0.1, Device: "cuda:3", Config: []byte("lr=0.1"), Timed: true},
		{Round: 1 << 30, Client: 0, Weight: 1e300, Config: bytes.Repeat([]byte{0xff}, 1000)},
		{Round: 2}, // no field of the previous job is left
	} {
		s.Publish(uint64(i))
		var got driver.Job
		s.ExchangeBy(0, want, func(j driver.Job, model, update *tensor.Package) error {
			got = j
			got.Config = append([]byte(nil), j.Config...) // nil if empty
			return Stock(j, model, update)
		}).Release()
		check.Equal(t, got, want, "job", i)
	}
}

// testReceipts: receipts of all sizes arrive in both directions, and contain nothing of an
// earlier, longer one. The server keeps a copy of the caller's receipt.
func testReceipts(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 1)
	for _, size := range []int{0, 1, 63, 64, 1000, 4096, 32<<10 + 1, 3, 0} {
		down, up := bytes.Repeat([]byte{'d'}, size), bytes.Repeat([]byte{'u'}, size)
		m := check.Value(s.Server.Reserve(0))(t)
		tensor.Fill(m, 1)
		if size > 0 { // a reserved package has no receipt
			m.Receipt = bytes.Clone(down)
		}
		check.Must(t, check.Err(s.Server.Publish(t.Context(), 0, m)))
		for i := range m.Receipt {
			m.Receipt[i] = 'x'
		}
		p := s.ExchangeBy(0, driver.Job{}, func(_ driver.Job, model, u *tensor.Package) error {
			tensor.Fill(u, 2)
			if size > 0 {
				u.Receipt = append(u.Receipt[:0], up...)
			}
			if !bytes.Equal(model.Receipt, down) {
				return errors.New("the model's receipt differs")
			}
			return nil
		})
		check.That(t, bytes.Equal(p.Receipt, up),
			"receipt of %d bytes: the update's differs (%d bytes arrived)", size, len(p.Receipt))
		p.Release()
	}
}

// testLent: an update that is out is not changed by the next jobs of its lane or of another
// one, up to the session's depth. It can be read after Shutdown, whose error counts it
// (A18).
func testLent(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 2)
	model := s.Publish(7)
	var out []*tensor.Package
	var jobs []driver.Job
	for i := range 2 * s.Options.Depth {
		j := driver.Job{Round: 0, Client: i}
		out, jobs = append(out, s.Exchange(i%2, j)), append(jobs, j)
		for n, p := range out {
			check.Must(t, tensor.Prove(p, model, Key(jobs[n])), "update", n, "after exchange", i)
		}
	}
	hash := out[0].Hash()
	for _, p := range out[1:] {
		p.Release()
	}
	for i := range 10 { // lane 1 continues in the released memory
		s.Exchange(1, driver.Job{Round: 0, Client: 100 + i}).Release()
	}
	for _, w := range s.Workers {
		check.Must(t, w.Close())
	}
	err := s.Server.Shutdown(t.Context())
	check.Fails(t, err, "1 updates are still out", "shutdown with one update out")
	got := out[0].Hash()
	check.That(t, got == hash, "an update that is out changed after shutdown: hash %016x, want %016x", got, hash)
	out[0].Release()
}

// testCancel: every wait ends with its context, even for a lane that no worker has joined.
func testCancel(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 2)
	s.Publish(1)
	waits(t, "receive", func() error {
		_, _, err := s.Workers[0].Receive(waiting.Ending(t, moment))
		return err
	}, context.DeadlineExceeded)
	waits(t, "collect", func() error {
		failed := make(chan error, 1)
		go func() {
			_, _, err := s.Workers[1].Receive(t.Context()) // and never submits
			failed <- err
		}()
		check.Must(t, s.Server.Dispatch(t.Context(), 1, driver.Job{}))
		check.Must(t, <-failed)
		_, err := s.Server.Collect(waiting.Ending(t, moment), 1)
		return err
	}, context.DeadlineExceeded)
	update := check.Value(s.Workers[1].Reserve())(t)
	check.Must(t, s.Workers[1].Close()) // takes back the update and the model
	if err := s.Workers[1].Submit(t.Context(), update); err == nil {
		t.Error("submit on a lane that was closed: got no error")
	}
	nobody := Listen(t, variant(t, tr), driver.Options{Down: s.Options.Down, Up: s.Options.Up, Lanes: 1})
	nobody.Publish(1)
	waits(t, "collect where nobody came", func() error {
		ctx := waiting.Ending(t, moment)
		if err := nobody.Server.Dispatch(ctx, 0, driver.Job{}); err != nil {
			return err
		}
		_, err := nobody.Server.Collect(ctx, 0)
		return err
	}, context.DeadlineExceeded)
}

// moment is the longest wait of a call that waits in vain.
const moment = 30 * time.Millisecond

func waits(t *testing.T, what string, f func() error, want error) {
	t.Helper()
	waiting.Do(t, what, func() {
		err := f()
		check.Is(t, err, want, what)
	})
}

// testShutdown: waiting workers get io.EOF, and a second Close does no harm.
func testShutdown(t *testing.T, tr driver.Transport) {
	s := open(t, tr, small(t), 2)
	s.Publish(1)
	s.Exchange(1, driver.Job{}).Release()
	ends := make(chan error, len(s.Workers))
	for _, w := range s.Workers {
		go func() {
			_, _, err := w.Receive(context.Background())
			ends <- errors.Join(ignoreEOF(err), w.Close(), w.Close())
		}()
	}
	check.Must(t, s.Server.Shutdown(t.Context()))
	for range s.Workers {
		check.Must(t, <-ends)
	}
	check.Must(t, s.Server.Shutdown(t.Context()))
	err := s.Server.Dispatch(t.Context(), 0, driver.Job{})
	check.That(t, err != nil, "dispatch after shutdown: got no error")
}

// ignoreEOF returns nil for io.EOF, which a worker must get at the end. It returns an error
// if err is nil.
func ignoreEOF(err error) error {
	switch {
	case err == nil:
		return errors.New("receive after shutdown: got no error, want io.EOF")
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// testClone: A22: a reader that reads in place sees later writes, so the memory of an
// update is not reused while the update is out. With copy=out the reader gets a clone: the
// memory is free at once, each byte is copied once, and the footprint includes the clones.
func testClone(t *testing.T, tr driver.Transport) {
	if !has(tr, "copy") {
		t.Skip("the transport has no setting copy")
	}
	if has(tr, "shm") && !variant(t, tr).Settings.On("shm") {
		t.Skip("nothing is shared with shm=off")
	}
	feet := map[string]int64{}
	for _, copying := range []string{"off", "out"} {
		v := check.Value(transports.NewVariant(tr, driver.Settings{"copy": copying}))(t)
		l := small(t)
		s := Listen(t, v, driver.Options{Down: l, Up: l})
		feet[copying] = v.Footprint(s.Options)
		w := s.Dial(0)
		m := s.Publish(7)
		turn := func(client int) (written, p *tensor.Package) {
			t.Helper()
			check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{Client: client}))
			_, model, err := w.Receive(t.Context())
			check.Must(t, err)
			check.Need(t, w.Rec.Counts()[phase.HandleTensors] > 0, "copy=%s: nothing is shared", copying)
			seen(t, "model", copying, m, model)
			written = check.Value(w.Reserve())(t)
			check.Must(t, tensor.Train(written, model, Key(driver.Job{Client: client})))
			check.Must(t, w.Submit(t.Context(), written))
			p = check.Value(s.Server.Collect(t.Context(), 0))(t)
			return written, p
		}
		before, first := turn(0)
		seen(t, "update", copying, before, first)
		after, second := turn(1)
		free := &before.View(0)[0] == &after.View(0)[0]
		check.That(t, free == (copying == "out"), "copy=%s: the memory of an update that is out is used again: %v", copying, free)
		check.Must(t, tensor.Prove(first, m, Key(driver.Job{})))
		first.Release()
		second.Release()
		server, worker := s.Counts()
		want := int64(0)
		if copying == "out" {
			want = server[phase.HandleBytes] + worker[phase.HandleBytes]
		}
		got := server[phase.Copied] + worker[phase.Copied]
		check.That(t, got == want, "copy=%s: %d bytes were copied, want %d", copying, got, want)
	}
	more, want := feet["out"]-feet["off"], int64(3*small(t).Size())
	check.That(t, more == want, "copy=out takes %d bytes more, want %d: a model and %d updates", more, want, 2)
}

// seen checks that read sees a change of written if copy=off, and otherwise does not. It
// undoes the change.
func seen(t *testing.T, what, copying string, written, read *tensor.Package) {
	t.Helper()
	before := read.Hash()
	written.View(0)[0] ^= 1
	if changed := read.Hash() != before; changed != (copying == "off") {
		t.Errorf("copy=%s: the reader of a %s sees what is written to its memory: %v", copying, what, changed)
	}
	written.View(0)[0] ^= 1
}
