package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/slab"
)

// TestPython: workers in Python keep the contract of package driver.
func TestPython(t *testing.T) {
	t.Parallel() // it often waits for a stopped process
	drivertest.RunPython(t, Slab)
}

// pythons opens a session of a worker in Python with the worker function fn, and returns
// its published model.
func pythons(t *testing.T, launcher trainer.Launcher, name, fn string) (*trainer.Session, *tensor.Package) {
	t.Helper()
	o := options()
	s := check.Value(trainer.Open(t.Context(), trainer.Config{
		Variant: parse(t, name), Down: o.Down, Up: o.Up, Workers: 1, Clients: 4, Func: fn, Launcher: launcher,
		Samples: 1000, Window: trainer.Timed,
	}))(t)
	t.Cleanup(func() { _, _ = s.Close() })
	model := check.Value(s.Reserve(0))(t)
	tensor.Fill(model, 1)
	model = check.Value(s.Publish(t.Context(), 0, model))(t)
	return s, model
}

// turn carries out one job on the session's worker.
func turn(ctx context.Context, s *trainer.Session, each func(u trainer.Update) error) error {
	return s.Round(ctx, trainer.Round{Clients: []trainer.Client{{ID: 2}}, Timed: true, Each: func(u trainer.Update) error {
		defer u.Release()
		return each(u)
	}})
}

func nothing(trainer.Update) error { return nil }

// TestPythonPages: in each setting of wait and copy, a worker in Python reads models and
// writes updates in the server's own pages. No tensor travels through a socket. Its
// counters equal a Go worker's.
func TestPythonPages(t *testing.T) {
	skip.Long(t)
	launcher := drivertest.Python(t, "shm-slab")
	for _, name := range []string{"shm-slab", "shm-slab:wait=spin", "shm-slab:copy=in", "shm-slab:copy=out"} {
		t.Run(name, func(t *testing.T) {
			s, model := pythons(t, launcher, name, "train")
			check.Must(t, turn(t.Context(), s, func(u trainer.Update) error {
				return tensor.Prove(u.Package, model, tensor.Key{Seed: 42, Client: 2})
			}))
			for what, writes := range map[string]bool{"models": false, "updates-0": true, "down-0": false, "up-0": true} {
				own, theirs := mapped(t, os.Getpid(), "/memfd:ipcbench-"+what), mapped(t, s.Places()[0].PID, "/memfd:ipcbench-"+what)
				check.Need(t, len(own) == 1 && len(theirs) == 1, "%s: %d mappings here, %d in the worker", what, len(own), len(theirs))
				got := *theirs[0].Perms
				check.Equal(t, theirs[0].Inode, own[0].Inode, what, "inode")
				check.Equal(t, got, procfs.ProcMapPermissions{Read: true, Write: writes, Shared: true}, what)
			}
			r := check.Value(s.Close())(t)
			got := r.Processes[0]
			counts := got.Counts[trainer.Timed]
			all := int64(model.Payload())
			copied := map[bool]int64{true: all}[strings.Contains(name, "copy=")]
			check.That(t, counts[phase.HandleBytes] == all && counts[phase.HandleTensors] == int64(model.Len()) && counts[phase.Copied] == copied,
				"it counted %v of %d bytes", counts, all)
			wire := counts[phase.WireSent] + counts[phase.WireReceived]
			check.That(t, wire != 0 && wire <= 2000, "%d bytes went through mailboxes and sockets", wire)
			for _, p := range []phase.Phase{phase.Receive, phase.Wait, phase.ReserveUpdate, phase.Train, phase.Submit} {
				sampled := slices.ContainsFunc(got.Samples, func(s phase.Sample) bool { return s.Phase == p && s.Client == 2 && s.End > s.Start })
				check.That(t, sampled, "no sample of phase %v among %v", p, got.Samples)
			}
			u, m := got.Usage[trainer.Timed], got.Memory
			check.That(t, u.CPU() > 0 && u.MinorFaults > 0 && u.IO != nil && len(got.CPUs) > 0, "usage %+v, processors %v", u, got.CPUs)
			check.That(t, m.RSS > 0 && m.Peak >= m.RSS && m.PSS != nil, "memory %+v", m)
			check.That(t, got.Software["numpy"] != "" && got.Software["kernel"] != "" && got.Import > 0,
				"software %v, imported in %v", got.Software, got.Import)
		})
	}
}

// TestPythonHostile: invalid data in the mailbox of a worker in Python ends it with an
// error that has the reason.
func TestPythonHostile(t *testing.T) {
	skip.Long(t)
	size := uint64(options().Down.Size())
	posting := func(change func(t *order)) func(o *outbox) error {
		good := order{job: driver.Job{Client: 2}, model: slab.Handle{Length: size}, update: slab.Handle{Length: size, Generation: 1}}
		change(&good)
		return func(o *outbox) error {
			n, err := good.put(o.message)
			return errors.Join(err, o.post(n))
		}
	}
	cases := []struct {
		post func(o *outbox) error
		want string
	}{
		{func(o *outbox) error { o.sent += 5; return o.post(0) }, "message out of sequence: number 6 after 0"},
		{func(o *outbox) error { return o.post(1 << 30) }, "message length is out of bounds: 1073741824 bytes in "},
		{func(o *outbox) error { return o.post(orderFixed - 17) }, "message is malformed"},
		{func(o *outbox) error {
			n, err := (&order{}).put(o.message)
			binary.LittleEndian.PutUint32(o.message[n-4:], 1<<31)
			return errors.Join(err, o.post(n))
		}, "message is malformed"},
		{posting(func(t *order) { t.model.Offset = 1 << 40 }), " bytes at 1099511627776: none of the 2 packages"},
		{posting(func(t *order) { t.update.Offset = 64 }), "handle to 40064 bytes at 64: none of the 2 packages"},
	}
	var sessions []*drivertest.Session
	var lanes []drivertest.Lane
	for range cases {
		s := listen(t, "shm-slab", options())
		sessions, lanes = append(sessions, s), append(lanes, drivertest.Lane{Variant: s.Variant, At: s.Endpoint, Options: s.Options})
	}
	wait := drivertest.Lanes(t, lanes)
	for i, c := range cases {
		check.Must(t, c.post(sessions[i].Driver.(*slabServer).lanes[0].out))
	}
	for i, got := range wait() {
		check.That(t, strings.Contains(got.Error, cases[i].want) && !strings.Contains(got.Error, "Traceback"),
			"got error %q, want %q", got.Error, cases[i].want)
	}
}

// TestPythonFaults: a worker function that writes into the model raises an error, and the
// model is unchanged. A worker function that never returns does not keep its process alive.
func TestPythonFaults(t *testing.T) {
	skip.Long(t)
	t.Parallel()
	launcher := drivertest.Python(t, "shm-slab")
	t.Run("scribble", func(t *testing.T) {
		t.Parallel()
		s, model := pythons(t, launcher, "shm-slab", "scribble")
		before := model.Hash()
		err := turn(t.Context(), s, nothing)
		for _, want := range []string{"round 0, client 2", "process 0 failed: worker function scribble: ValueError: ", "read-only", "script.py"} {
			check.Fails(t, err, want)
		}
		check.That(t, model.Hash() == before, "the model changed")
	})
	t.Run("hang", func(t *testing.T) {
		t.Parallel()
		s, _ := pythons(t, launcher, "shm-slab", "hang")
		err := turn(waiting.Ending(t, 20*time.Millisecond), s, nothing)
		check.Is(t, err, context.DeadlineExceeded)
		waiting.Promise(t, "B25", 2*time.Second, func() { _, _ = s.Close() }) // less than the time until a kill
	})
}

// TestPythonControl: an invalid message on the control socket, or its end, ends the process
// with an error that has the reason.
func TestPythonControl(t *testing.T) {
	skip.Long(t)
	launcher := drivertest.Python(t, "shm-slab")
	hello := fmt.Sprintf(`{"hello":{"protocol":4,"build":%q}}`, trainer.Build())
	for frames, want := range map[string]string{
		"":                                       "waiting for an assignment: ",
		"\xff\xff\xff\xff":                       "message of 4294967295 bytes, must be at most 1073741824",
		framed(`{"hello":`):                      "waiting for an assignment: ",
		framed(hello[:len(hello)-1] + `,"x":1}`): "must be one object with one key",
		framed(strings.Replace(hello, ":4,", ":5,", 1)):            "the server sent hello ",
		framed(hello) + framed(`{"mark":{"window":"","round":1}}`): "mark instead of an assignment",
		framed(hello) + framed(`{"assign":{"process":0}}`):         "assign: lanes must be of type list",
		framed(hello) + framed(`{"bring":{}}`):                     "unknown type of message 'bring'",
		framed(hello) + framed(`{"ping":{"to":1}}`):                "ping has an unknown field 'to'",
		framed(hello) + framed(strings.Repeat("[", 1<<17)):         "nested too deeply",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			p := check.Value(launcher.Launch(0))(t)
			_, _ = p.Conn().Write([]byte(frames))
			if frames == "" {
				check.Must(t, p.Conn().Close())
			}
			waiting.Receive(t, "the end of the process", p.Exited())
			check.Must(t, p.Stop())
			got := p.Stderr()
			check.That(t, strings.Contains(got, want) && !strings.Contains(got, "Traceback"),
				"it ends with %v and says %q, want %q", p.Err(), got, want)
		})
	}
}

func framed(text string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
}
