package drivertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
)

// A Child is this program, started again in a role.
type Child struct {
	*reexec.Process
	Out    *bufio.Reader   // its standard output
	Stderr *reexec.Excerpt // complete when it has ended
}

// Spawn starts this program in a role that is in the table given to [MainWith], with a
// question. The child is killed when the test ends. An error means that the machine refuses
// the attributes.
func Spawn(t testing.TB, role string, question any, attr *syscall.SysProcAttr) (*Child, error) {
	t.Helper()
	from, to, err := os.Pipe()
	check.Must(t, err)
	c := &Child{Out: bufio.NewReader(from), Stderr: &reexec.Excerpt{Most: 64 << 10}}
	command := reexec.Command{Role: role, Question: question, Attr: attr, Stdout: to, Stderr: c.Stderr}
	c.Process, err = reexec.Start(t.Context(), command)
	to.Close()
	t.Cleanup(func() {
		if err == nil {
			c.Kill()
		}
		from.Close()
	})
	return c, err
}

// Kill kills the child, unless it has ended, and waits for its end.
func (c *Child) Kill() {
	_ = c.Signal(syscall.SIGKILL)
	<-c.Exited()
}

// Line returns the next line of the child's output, and fails the test if there is none.
func (c *Child) Line(t testing.TB) string {
	t.Helper()
	line, err := c.Out.ReadString('\n')
	check.Need(t, err == nil, "the child says %q: %v", line, err)
	return strings.TrimSuffix(line, "\n")
}

// A Remote is the question of a role that is one end of a session in a process of its own.
// The session has one layout, for models and updates.
type Remote struct {
	Variant, Addr, Secret string // a server gets its directory as Addr
	Specs                 []tensor.Spec
	Lanes                 int
	Scribbles             bool // whether a worker writes into the model
}

// Remote returns the question for the worker of lane 0.
func (s *Session) Remote() Remote {
	return Remote{Variant: s.Variant.String(), Addr: s.Endpoint.Addr(), Secret: s.Endpoint.Secret(), Specs: s.Options.Down.Specs(), Lanes: s.Options.Lanes}
}

// read returns the session that a question describes, of one of the transports.
func (r *Remote) read(question []byte, all []driver.Transport) (v transports.Variant, o driver.Options, err error) {
	if err = json.Unmarshal(question, r); err != nil {
		return v, o, err
	}
	v, err = transports.Parse(r.Variant, all)
	l, wrong := tensor.NewLayout(r.Specs)
	return v, driver.Options{Down: l, Up: l, Lanes: r.Lanes, Clients: 8, Depth: 2, Settings: v.Settings}, errors.Join(err, wrong)
}

// Work is the role of the worker of lane 0, with the stock worker function. It returns its
// counters.
func Work(question []byte, all ...driver.Transport) (any, error) {
	var r Remote
	v, o, err := r.read(question, all)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	w, err := Dial(ctx, v, endpoint.At(r.Addr, r.Secret), 0, o)
	if err != nil {
		return nil, err
	}
	err = Serve(ctx, w.Worker, func(j driver.Job, model, update *tensor.Package) error {
		if r.Scribbles {
			model.View(0)[0]++
		}
		return Stock(j, model, update)
	})
	return w.Rec.Counts(), err
}

// Lead starts a server in a process of its own, with a model like that of [Session.Publish](1)
// and one job. The session has one lane, models and updates have layout l, and the server's
// directory is dir. The endpoint is for its worker.
func Lead(t testing.TB, v transports.Variant, l *tensor.Layout, dir string) (*Child, *endpoint.Endpoint) {
	t.Helper()
	c := check.Value(Spawn(t, "lead", Remote{Variant: v.String(), Addr: dir, Specs: l.Specs(), Lanes: 1}, nil))(t)
	addr, secret, _ := strings.Cut(c.Line(t), " ")
	return c, endpoint.At(addr, secret)
}

// lead is the role of a server. It publishes a model, prints its address and secret, and
// dispatches one job.
func lead(question []byte, all ...driver.Transport) (any, error) {
	var r Remote
	v, o, err := r.read(question, all)
	if err != nil {
		return nil, err
	}
	ctx, e := context.Background(), endpoint.New(r.Addr)
	s, err := transports.Listen(ctx, v, e, o)
	if err != nil {
		return nil, err
	}
	m, err := s.Reserve(0)
	if err != nil {
		return nil, err
	}
	tensor.Fill(m, 1)
	if _, err := s.Publish(ctx, 0, m); err != nil {
		return nil, err
	}
	fmt.Println(e.Addr(), e.Secret()) // first, because some transports dispatch to a connected worker only
	if err := s.Dispatch(ctx, 0, driver.Job{}); err != nil {
		return nil, err
	}
	waiting.Forever() // never collects
	return nil, nil
}

// testServerKilled: A23, A24, A28: if a server is killed while its worker reads, the worker
// gets an error, and its view stays readable. The server's leftovers are listed, can be
// removed, and do not disturb a new session.
func testServerKilled(t *testing.T, tr driver.Transport) {
	if Inside(t, tr) {
		t.Skip("no server to kill: the transport does not leave this process")
	}
	variants(t, tr, func(t *testing.T, v transports.Variant) {
		l, dir := small(t), check.Value(scratch.New(scratch.Roots()[0]))(t)
		defer dir.Close()
		o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 8, Depth: 2, Settings: v.Settings}
		if err := v.Check(o); err != nil {
			t.Skip(err) // a setting that the transport's defaults exclude
		}
		before := names()
		c, e := Lead(t, v, l, dir.Path())
		w := check.Value(Dial(t.Context(), v, e, 0, o))(t)
		err := Turn(t.Context(), w.Worker, func(j driver.Job, model, update *tensor.Package) error {
			c.Kill()
			want := tensor.Alloc(l)
			tensor.Fill(want, 1)
			check.Equal(t, model.Hash(), want.Hash(), "the model after the death of its server")
			return Stock(j, model, update)
		})
		if err == nil { // shared memory accepts an update, which is never collected
			_, _, err = w.Receive(t.Context())
		}
		check.That(t, ignoreEOF(err) != nil && err != nil, "the worker got %v, want that its server has gone", err)
		check.Must(t, w.Close())

		s := Open(t, v, l, 1) // while the leftovers exist
		s.Publish(2)
		s.Prove(0, driver.Job{})
		for _, left := range check.Value(scratch.Leftovers(scratch.Roots()...))(t) {
			if left.PID == c.PID() {
				check.Must(t, left.Remove())
			}
		}
		owned := slices.DeleteFunc(names(), func(path string) bool {
			owner, _ := os.ReadFile(path + "/lock") // of others, which may end now
			return slices.Contains(before, path) || !strings.HasPrefix(string(owner), fmt.Sprintf("pid %d,", c.PID()))
		})
		check.That(t, len(owned) == 0, "not listed, or not removed: %v", owned)
		s.Prove(0, driver.Job{Round: 1})
	})
}
