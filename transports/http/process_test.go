package http

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/http/store"
)

// childEnv says what a re-executed test binary is to be: a worker or a server
// that these tests start themselves, and kill.
const childEnv = "IPCBENCH_TEST_HTTP"

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	drivertest.Main(m, append(presets(), New(), Local())...)
}

// childSpec is what a child reads from its standard input. It ends with it.
type childSpec struct {
	Addr, Secret, Dir string
	Variant           string
	Lane, Lanes       int // 0 lanes are 1
	Specs             []tensor.Spec
	OwnShm            bool // mount another /dev/shm first; the process has a mount namespace of its own
}

func child(role string) error {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	var spec childSpec
	if err := json.Unmarshal(line, &spec); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends with the test
		cancel()
	}()
	if spec.OwnShm {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := unix.Mount("tmpfs", scratch.SharedMemory, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", scratch.SharedMemory, err)
		}
	}
	v, err := transports.Parse(spec.Variant, []driver.Transport{New(), Local()})
	if err != nil {
		return err
	}
	l, err := tensor.NewLayout(spec.Specs)
	if err != nil {
		return err
	}
	o := driver.Options{Down: l, Up: l, Lanes: max(1, spec.Lanes), Clients: 8, Depth: 2, Settings: v.Settings, Rec: phase.NewRecorder(1 << 10)}
	if role == "server" {
		return childServer(ctx, v, spec.Dir, o)
	}
	return childWorker(ctx, v, driver.EndpointAt(spec.Addr, spec.Secret), spec.Lane, o)
}

// childWorker trains until the session is over, and says what it counted.
func childWorker(ctx context.Context, v transports.Variant, e *driver.Endpoint, lane int, o driver.Options) error {
	w, err := dialLane(ctx, v, e, lane, o)
	for err == nil {
		err = train(ctx, w)
	}
	if err != io.EOF {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(o.Rec.Counts())
}

// childServer publishes a model, says where it listens, and gives out one job.
func childServer(ctx context.Context, v transports.Variant, dir string, o driver.Options) error {
	e := driver.NewEndpoint(dir)
	s, err := transports.Listen(ctx, v, e, o)
	if err != nil {
		return err
	}
	m, err := s.Reserve()
	if err != nil {
		return err
	}
	tensor.Fill(m, 1)
	if _, err := s.Publish(ctx, m); err != nil {
		return err
	}
	fmt.Println(e.Addr(), e.Secret())
	if err := s.Dispatch(ctx, 0, driver.Job{}); err != nil {
		return err
	}
	<-ctx.Done() // never collects
	return nil
}

// A kid is a child that was started.
type kid struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *strings.Builder
}

func spawn(t *testing.T, role string, spec childSpec, attr *syscall.SysProcAttr) (*kid, error) {
	t.Helper()
	self, err := os.Executable()
	check.Must(t, err)
	k := &kid{cmd: exec.CommandContext(t.Context(), self), err: &strings.Builder{}}
	k.cmd.Env = append(os.Environ(), childEnv+"="+role)
	k.cmd.SysProcAttr, k.cmd.Stderr = attr, k.err
	k.in, err = k.cmd.StdinPipe()
	check.Must(t, err)
	out, err := k.cmd.StdoutPipe()
	check.Must(t, err)
	k.out = bufio.NewReader(out)
	if err := k.cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = k.cmd.Process.Kill() // if it has not ended
		_ = k.cmd.Wait()
	})
	line, err := json.Marshal(spec)
	check.Must(t, err)
	_, err = fmt.Fprintf(k.in, "%s\n", line)
	check.Must(t, err)
	return k, nil
}

// A4, A5: a worker in network and mount namespaces of its own, with another
// /dev/shm, reaches the server through its socket and is remote all the same:
// every tensor comes and goes as a body, whole, and the reason is counted. The
// same worker without such namespaces is local.
func TestNamespaces(t *testing.T) {
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprint("apart=", apart), func(t *testing.T) {
			l := vectors(t, 5, 10_000)
			r := start(t, "http-shm", l, 1)
			var attr *syscall.SysProcAttr
			if apart {
				attr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
				if os.Geteuid() != 0 {
					// A clone that fails would leave descriptors of Go's in this process.
					if out, err := exec.Command("unshare", "--user", "--map-root-user", "true").CombinedOutput(); err != nil {
						skip.Refused(t, "namespaces: %v: %s", err, out)
					}
					attr.Cloneflags |= unix.CLONE_NEWUSER
					attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
					attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
				}
			}
			k, err := spawn(t, "worker", childSpec{Addr: r.e.Addr(), Secret: r.e.Secret(), Variant: "http-shm", Specs: l.Specs(), OwnShm: apart}, attr)
			if err != nil {
				skip.Refused(t, "namespaces: %v", err)
			}
			gone := make(chan error, 1)
			go func() {
				_, err := k.out.Peek(1)
				gone <- err
			}()
			joined := func() bool {
				r.s.in.lanes[0].mu.Lock()
				defer r.s.in.lanes[0].mu.Unlock()
				return r.s.in.lanes[0].seat.taken && (r.s.in.lanes[0].seat.local || apart)
			}
			waiting.Until(t, "worker", func() bool {
				select {
				case <-gone:
					_ = k.cmd.Wait() // all that it said is read
					if apart && strings.Contains(k.err.String(), "mount") {
						skip.Refused(t, "mounts: %s", k.err)
					}
					t.Fatalf("worker: %s", k.err)
				default:
				}
				return joined()
			})
			for round := range 3 {
				m, j := r.publish(uint64(round)), driver.Job{Round: round, Client: 1}
				check.Must(t, r.s.Dispatch(t.Context(), 0, j))
				p, err := r.s.Collect(t.Context(), 0)
				check.Must(t, err)
				check.Must(t, tensor.Prove(p, m, key(j)))
				p.Release()
			}
			waiting.Do(t, "shutdown", func() { check.Must(t, r.s.Shutdown(t.Context())) })
			check.Must(t, <-gone)
			var counts map[string]int64
			check.Must(t, json.NewDecoder(k.out).Decode(&counts))
			handles, bodies := int64(15), int64(0)
			if apart {
				handles, bodies = 0, 15
			}
			want := map[string]int64{phase.HandleTensors: handles, phase.BodyTensors: bodies, phase.Fallback + store.Remote: bodies}
			wantCounts(t, "worker", counts, want)
			wantCounts(t, "server", r.counts(-1), want)
		})
	}
}

// A25: the kernel lets nobody but its one writer open a slab for writing: none but
// the server that of the models, none but the lane's worker, when it joins, that
// of its updates.
func TestOneWriter(t *testing.T) {
	r := open(t, "http-shm", vectors(t, 2, 100), 2)
	m := r.publish(1)
	tryAll := func(when string, flag int, want error) {
		t.Helper()
		for _, ref := range []*store.SlabRef{r.s.in.memory.models.ref, r.s.in.memory.lanes[0].ref, r.s.in.memory.lanes[1].ref} {
			if err := openAsUser(ref.Path, flag); !errors.Is(err, want) {
				t.Errorf("%s: open %s with flags %x: got %v, want %v", when, filepath.Base(ref.Path), flag, err, want)
			}
		}
	}
	tryAll("workers are there", os.O_RDWR, fs.ErrPermission)
	tryAll("workers are there", os.O_RDONLY, nil)
	check.Must(t, r.workers[0].Close())
	tryAll("one has left", os.O_RDWR, fs.ErrPermission)
	w := r.dial(0)
	r.workers[0] = w
	tryAll("another has come", os.O_RDWR, fs.ErrPermission)
	r.exchange(0, driver.Job{}, m)
	r.exchange(1, driver.Job{}, m)
	wantCounts(t, "server", r.counts(-1), map[string]int64{phase.HandleTensors: 4, phase.BodyTensors: 0})
}

// openAsUser opens a file as a process without root's right to open everything.
func openAsUser(path string, flag int) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and ends with the goroutine: its capabilities are gone
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

// A24: two processes that open sessions at once take nothing from each other: each
// has its own, or, where both were given the same directory, one is refused and
// leaves the other's alone.
func TestTwoServersAtOnce(t *testing.T) {
	l := vectors(t, 3, 1000)
	for _, same := range []bool{false, true} {
		t.Run(fmt.Sprint("same directory=", same), func(t *testing.T) {
			dirs := []string{t.TempDir(), t.TempDir()}
			if same {
				dirs[1] = dirs[0]
			}
			var kids []*kid
			for _, dir := range dirs {
				k, err := spawn(t, "server", childSpec{Dir: dir, Variant: "http-shm", Specs: l.Specs()}, nil)
				check.Must(t, err)
				kids = append(kids, k)
			}
			serving := 0
			for i, k := range kids {
				addr, err := k.out.ReadString('\n')
				if err != nil {
					_ = k.cmd.Wait() // all that it said is read
					check.That(t, same && strings.Contains(k.err.String(), "address already in use"), "server %d: %s", i, k.err)
					continue
				}
				serving++
				v, err := transports.NewVariant(Local(), nil)
				check.Must(t, err)
				o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 8, Depth: 2, Settings: v.Settings, Rec: phase.NewRecorder(100)}
				w, err := dialLane(t.Context(), v, at(addr), 0, o)
				check.Must(t, err)
				check.Must(t, train(t.Context(), w))
				wantCounts(t, "worker", o.Rec.Counts(), map[string]int64{phase.HandleTensors: 3, phase.BodyTensors: 0})
				check.Must(t, w.Close())
			}
			check.That(t, (!same || serving == 1) && (same || serving == 2), "%d servers serve", serving)
			for _, k := range kids {
				_ = k.cmd.Process.Kill() // if it has not ended
				_ = k.cmd.Wait()
				k.removeLeft(t)
			}
		})
	}
}

// at returns the endpoint that a server's line names.
func at(line string) *driver.Endpoint {
	addr, secret, _ := strings.Cut(strings.TrimSpace(line), " ")
	return driver.EndpointAt(addr, secret)
}

// removeLeft removes what a killed server has left in shared memory.
func (k *kid) removeLeft(t *testing.T) {
	t.Helper()
	found, err := scratch.Leftovers(scratch.SharedMemory)
	check.Must(t, err)
	for _, f := range found {
		if strings.Contains(f.Owner, fmt.Sprintf("pid %d,", k.cmd.Process.Pid)) {
			check.Must(t, f.Remove())
		}
	}
}

// A23, A24, A28: a server that is killed while its worker reads is an error for
// the worker, whose view stays readable; what it leaves behind is listed and
// reclaimed, and does not disturb a session that starts meanwhile.
func TestServerIsKilled(t *testing.T) {
	l := vectors(t, 3, 100_000)
	dir := t.TempDir()
	k, err := spawn(t, "server", childSpec{Dir: dir, Variant: "http-shm", Specs: l.Specs()}, nil)
	check.Must(t, err)
	addr, err := k.out.ReadString('\n')
	check.Must(t, err)

	v, err := transports.NewVariant(Local(), nil)
	check.Must(t, err)
	o := driver.Options{Down: l, Up: l, Lanes: 1, Clients: 8, Depth: 2, Settings: v.Settings}
	w, err := dialLane(t.Context(), v, at(addr), 0, o)
	check.Must(t, err)
	_, model, err := w.Receive(t.Context())
	check.Must(t, err)
	left := filepath.Dir(w.in.shared.ref.Path) // the server's directory in shared memory

	check.Must(t, k.cmd.Process.Kill())
	_ = k.cmd.Wait() // killed
	want := tensor.Alloc(l)
	tensor.Fill(want, 1)
	check.That(t, model.Hash() == want.Hash(), "the model changed when its server was killed")
	u, err := w.Reserve()
	check.Must(t, err)
	check.Must(t, tensor.Train(u, model, key(driver.Job{})))
	waiting.Do(t, "submit", func() { wantError(t, "submit", w.Submit(t.Context(), u), "results") })
	wantError(t, "receive", func() error { _, _, err := w.Receive(t.Context()); return err }(), "receive")
	check.Must(t, w.Close())

	r := open(t, "http-shm", l, 1) // while the leftovers are there
	r.exchange(0, driver.Job{}, r.publish(2))
	found, err := scratch.Leftovers(scratch.SharedMemory)
	check.Must(t, err)
	i := slices.IndexFunc(found, func(f scratch.Leftover) bool { return f.Path == left })
	check.Need(t, i >= 0, "%s is not listed among %v", left, found)
	check.Must(t, found[i].Remove())
	r.exchange(0, driver.Job{Round: 1}, r.publish(3))
}

// A31: what the caches of worker processes hold grows by each client's model in every round,
// for nothing. Drained for every model they hold what the last round brought. After a drain
// the count is 0 on every process, and the stats say so: a job of a codec needs no model
// where the lane has it, so that nothing fills the cache again.
func TestDrain(t *testing.T) {
	const lanes, clients, tensors, size = 2, 4, 3, 100
	l := vectors(t, tensors, size)
	processes := func(variant string) (r *rig, turn func(round, client int, model *tensor.Package), held func() store.CacheStats, end func() (grown, hits int64)) {
		r = start(t, variant, l, lanes)
		var kids []*kid
		for n := range lanes {
			k, err := spawn(t, "worker", childSpec{Addr: r.e.Addr(), Secret: r.e.Secret(), Variant: variant, Specs: l.Specs(), Lane: n, Lanes: lanes}, nil)
			check.Must(t, err)
			kids = append(kids, k)
		}
		h := r.client()
		turn = func(round, client int, model *tensor.Package) {
			t.Helper()
			j := driver.Job{Round: round, Client: client}
			check.Must(t, r.s.Dispatch(t.Context(), client%lanes, j))
			p, err := r.s.Collect(t.Context(), client%lanes)
			check.Must(t, err)
			check.Must(t, tensor.Prove(p, model, key(j)))
			p.Release()
		}
		held = func() (sum store.CacheStats) {
			t.Helper()
			var a statsAnswer
			check.Must(t, json.Unmarshal(r.ask(h, "GET", "/v1/stats", nil).body, &a))
			for _, c := range a.Caches {
				sum.Tensors, sum.Bytes = sum.Tensors+c.Tensors, sum.Bytes+c.Bytes
			}
			return sum
		}
		end = func() (grown, hits int64) {
			t.Helper()
			waiting.Do(t, "shutdown", func() { check.Must(t, r.s.Shutdown(t.Context())) })
			for _, k := range kids {
				var counts map[string]int64
				check.Must(t, json.NewDecoder(k.out).Decode(&counts))
				grown, hits = grown+counts[phase.CacheBytes], hits+counts[phase.CacheHits]
			}
			return grown, hits
		}
		return r, turn, held, end
	}
	for variant, drained := range map[string]bool{"http:cache=on": false, "http:cache=on:drain=on": true} {
		r, turn, held, end := processes(variant)
		var want store.CacheStats
		for round := range 5 {
			m := r.publish(uint64(round))
			for c := range clients {
				turn(round, c, m)
			}
			if drained {
				want = store.CacheStats{}
			}
			want.Tensors += clients * tensors
			want.Bytes += clients * tensors * (size + 256 + len(r.model()+".0"))
			check.Equal(t, held(), want, variant, "after round", round, "the caches hold")
		}
		if grown, hits := end(); grown != int64(want.Bytes) || hits != 0 {
			t.Errorf("%s: the workers count %d bytes and %d hits, want %d and none", variant, grown, hits, want.Bytes)
		}
	}

	r, turn, held, end := processes("http:cache=on:codec=sparse")
	m := r.publish(1)
	turn(0, 0, m)
	turn(0, 1, m)
	got := held()
	check.That(t, got.Tensors == lanes*tensors, "before the drain the caches hold %+v, want the model of each lane", got)
	a := r.ask(r.client(), "POST", "/v1/drain", nil)
	check.That(t, a.code == 204, "drain: got %d", a.code)
	turn(0, 2, m)
	turn(0, 3, m)
	if got := held(); got != (store.CacheStats{}) {
		t.Errorf("after the drain the caches hold %+v, want nothing", got)
	}
	grown, _ := end()
	check.That(t, grown == 0, "after the drain the workers count %d bytes, want none", grown)
}
