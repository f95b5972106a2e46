package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/reexec"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/http/store"
)

// roles are the processes that these tests start and kill.
var roles = reexec.Roles{"lane": workerRole, "server": serverRole}

// A given is the input of such a process. The transport is http-shm.
type given struct {
	Addr, Secret, Dir string
	Specs             []tensor.Spec
	OwnShm            bool // mount another /dev/shm first; needs its own mount namespace
}

func (g given) session() (transports.Variant, driver.Options, error) {
	v, err := transports.NewVariant(Local(), nil)
	if err != nil {
		return v, driver.Options{}, err
	}
	l, err := tensor.NewLayout(g.Specs)
	return v, driver.Options{Down: l, Up: l, Lanes: 1, Clients: 8, Depth: 2, Settings: v.Settings}, err
}

// workerRole trains until the session ends, and prints its counters.
func workerRole(question []byte) (any, error) {
	var g given
	if err := json.Unmarshal(question, &g); err != nil {
		return nil, err
	}
	if g.OwnShm {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return nil, fmt.Errorf("make mounts private: %w", err)
		}
		if err := unix.Mount("tmpfs", scratch.SharedMemory, "tmpfs", 0, ""); err != nil {
			return nil, fmt.Errorf("mount %s: %w", scratch.SharedMemory, err)
		}
	}
	v, o, err := g.session()
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	w, err := drivertest.Dial(ctx, v, endpoint.At(g.Addr, g.Secret), 0, o)
	if err == nil {
		err = drivertest.Serve(ctx, w.Worker, drivertest.Stock)
	}
	if err != nil {
		return nil, err
	}
	return w.Rec.Counts(), nil
}

// serverRole publishes a model, dispatches one job, and prints its address and secret.
func serverRole(question []byte) (any, error) {
	var g given
	if err := json.Unmarshal(question, &g); err != nil {
		return nil, err
	}
	v, o, err := g.session()
	if err != nil {
		return nil, err
	}
	ctx, e := context.Background(), endpoint.New(g.Dir)
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
	if err := s.Dispatch(ctx, 0, driver.Job{}); err != nil {
		return nil, err
	}
	fmt.Println(e.Addr(), e.Secret())
	waiting.Forever() // never collects
	return nil, nil
}

// apart returns the attributes of a process with its own namespaces. It skips the test if
// the machine refuses them.
func apart(t *testing.T) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		// Tried with unshare first, because a failed clone would leave Go's descriptors in
		// this process.
		if out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
			skip.Refused(t, "namespaces: %v: %s", err, out)
		}
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// TestNamespaces: A4, A5: a worker with its own network and mount namespaces and another
// /dev/shm reaches the server through its socket, but is remote. Every tensor travels as a
// body, and the reason is counted. The same worker without these namespaces is local.
func TestNamespaces(t *testing.T) {
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprint("remote=", remote), func(t *testing.T) {
			l := vectors(t, 5, 10_000)
			r := start(t, "http-shm", l, 1)
			want, attr := counts{phase.HandleTensors: 15, phase.BodyTensors: 0, phase.Fallback + store.Remote: 0}, &syscall.SysProcAttr{}
			if remote {
				want, attr = counts{phase.HandleTensors: 0, phase.BodyTensors: 15, phase.Fallback + store.Remote: 15}, apart(t)
			}
			k, err := drivertest.Spawn(t, "lane", given{Addr: r.Endpoint.Addr(), Secret: r.Endpoint.Secret(), Specs: l.Specs(), OwnShm: remote}, attr)
			if err != nil {
				skip.Refused(t, "namespaces: %v", err)
			}
			over := make(chan struct{})
			go func() {
				defer close(over)
				_, _ = k.Out.Peek(1) // its counters, or nothing if it has failed
			}()
			settled := make(chan error, 1) // the worker has joined, and proved that it is local if it is
			go func() { settled <- r.Server.Settle(t.Context()) }()
			select {
			case err := <-settled:
				check.Must(t, err)
			case <-over:
				<-k.Exited() // now all of its output has been read
				if remote && strings.Contains(k.Stderr.String(), "mount") {
					skip.Refused(t, "mounts: %s", k.Stderr)
				}
				t.Fatalf("worker: %s", k.Stderr)
			}
			for round := range 3 {
				r.Publish(uint64(round))
				check.Must(t, r.Carry(0, driver.Job{Round: round, Client: 1}))
			}
			waiting.Do(t, "shutdown", func() { check.Must(t, r.Server.Shutdown(t.Context())) })
			<-over
			var got counts
			check.Must(t, json.Unmarshal([]byte(k.Line(t)), &got))
			counted(t, "worker", got, want)
			r.counted(want, nil)
		})
	}
}

// TestOneWriter: A25: the kernel lets only one process open a slab for writing. For the
// models it is the server; for a lane's updates it is the lane's worker, when it joins.
func TestOneWriter(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 2)
	tryAll := func(when string, flag int, want error) {
		t.Helper()
		for _, ref := range []*store.SlabRef{r.server.memory.models.ref, r.server.memory.lanes[0].ref, r.server.memory.lanes[1].ref} {
			err := openAsUser(ref.Path, flag)
			check.That(t, errors.Is(err, want), "%s: open %s with flags %x: got %v, want %v", when, filepath.Base(ref.Path), flag, err, want)
		}
	}
	tryAll("workers are there", os.O_RDWR, fs.ErrPermission)
	tryAll("workers are there", os.O_RDONLY, nil)
	check.Must(t, r.Workers[0].Close())
	tryAll("one has left", os.O_RDWR, fs.ErrPermission)
	r.Workers[0] = r.Dial(0)
	tryAll("another has come", os.O_RDWR, fs.ErrPermission)
	r.Publish(1)
	r.Prove(0, driver.Job{})
	r.Prove(1, driver.Job{})
	r.counted(counts{phase.HandleTensors: 4, phase.BodyTensors: 0}, nil)
}

// openAsUser opens a file without root's permission to open every file.
func openAsUser(path string, flag int) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, because it has lost its capabilities
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&head, &none[0]); err != nil {
			done <- err
			return
		}
		fd, err := unix.Open(path, flag|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Close(fd)
		}
		done <- err
	}()
	return <-done
}

// TestServerIsKilled: A23, A24, A28: if a server is killed while its worker reads, the
// worker gets an error, and its view stays readable. The server's leftovers are listed, can
// be removed, and do not disturb a new session.
func TestServerIsKilled(t *testing.T) {
	g := given{Dir: t.TempDir(), Specs: vectors(t, 3, 100_000).Specs()}
	k := check.Value(drivertest.Spawn(t, "server", g, nil))(t)
	addr, secret, _ := strings.Cut(k.Line(t), " ")
	v, o, err := g.session()
	check.Must(t, err)
	w := check.Value(drivertest.Dial(t.Context(), v, endpoint.At(addr, secret), 0, o))(t)
	left := filepath.Dir(w.Driver.(*worker).shared.ref.Path) // the server's directory in shared memory
	waiting.Do(t, "a turn", func() {
		err := drivertest.Turn(t.Context(), w.Worker, func(j driver.Job, model, update *tensor.Package) error {
			k.Kill()
			want := tensor.Alloc(o.Down)
			tensor.Fill(want, 1)
			check.That(t, model.Hash() == want.Hash(), "the model changed when its server was killed")
			return drivertest.Stock(j, model, update)
		})
		check.Fails(t, err, "results")
		_, _, err = w.Receive(t.Context())
		check.Fails(t, err, "receive")
	})
	check.Must(t, w.Close())

	r := open(t, "http-shm", o.Down, 1) // while the leftovers exist
	r.Publish(2)
	r.Prove(0, driver.Job{})
	found := check.Value(scratch.Leftovers(scratch.SharedMemory))(t)
	i := slices.IndexFunc(found, func(f scratch.Leftover) bool { return f.Path == left })
	check.Need(t, i >= 0, "%s is not listed among %v", left, found)
	check.Must(t, found[i].Remove())
	r.Prove(0, driver.Job{Round: 1})
}
