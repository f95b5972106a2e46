package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/internal/slab"
)

func unsealed(t *testing.T, size int) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must(t, err)
	f := os.NewFile(uintptr(fd), "unsealed")
	must(t, f.Truncate(int64(size)))
	t.Cleanup(func() { f.Close() })
	return f
}

// A worker believes nothing that it is told at Dial, and leaks no descriptor.
func TestHostileServer(t *testing.T) {
	_, o := parse(t, "shm-slab")
	size, err := slabSizes(o)
	must(t, err)
	control := controlSize(o.Down.Len())
	memfd := func(size int) *os.File {
		m, err := slab.Memfd("test", size, slab.Untouched)
		must(t, err)
		t.Cleanup(func() { must(t, m.Close()) })
		return m.File()
	}
	good := []*os.File{memfd(control), memfd(control), memfd(size.models), memfd(size.updates)}
	swap := func(i int, f *os.File) []*os.File {
		files := append([]*os.File(nil), good...)
		files[i] = f
		return files
	}
	for name, c := range map[string]struct {
		packet string
		files  []*os.File
		want   string
	}{
		"nothing":           {"", nil, errGone.Error()},
		"no descriptors":    {"w", nil, "0 descriptors"},
		"too few":           {"w", good[:3], "1 descriptors"},
		"too many":          {"w", append(swap(0, good[0]), good[0]), "3 descriptors"},
		"another letter":    {"x", good, errMessage.Error()},
		"refused":           {"rbecause", nil, "refused: because"},
		"unsealed mailbox":  {"w", swap(0, unsealed(t, control)), slab.ErrSeals.Error()},
		"unsealed models":   {"w", swap(2, unsealed(t, size.models)), slab.ErrSeals.Error()},
		"small updates":     {"w", swap(3, memfd(size.updates-64)), slab.ErrSize.Error()},
		"large mailbox":     {"w", swap(1, memfd(control+64)), slab.ErrSize.Error()},
		"not even a memory": {"w", swap(2, os.Stdin), "slab: open"},
	} {
		l, err := net.ListenUnix(network, &net.UnixAddr{Net: network, Name: filepath.Join(t.TempDir(), "s")})
		must(t, err)
		before := filesNow(t)
		served := make(chan error, 1)
		go func() {
			conn, err := l.AcceptUnix()
			if err != nil {
				served <- err
				return
			}
			k := newLink(conn, nil)
			if _, _, err = k.receive(); err == nil && c.packet != "" {
				err = k.send([]byte(c.packet), c.files...)
			}
			served <- errors.Join(err, conn.Close())
		}()
		w, err := Slab().Dial(t.Context(), l.Addr().String(), 0, o)
		if err == nil {
			_ = w.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		must(t, <-served)
		if after := filesNow(t); after != before {
			t.Errorf("%s: %d descriptors before, %d after", name, before, after)
		}
		must(t, l.Close())
	}
}

// Strangers who connect and say something else, or nothing, get no descriptors,
// and disturb nobody.
func TestStrangersAreTurnedAway(t *testing.T) {
	v, o := parse(t, "shm-slab")
	s, _ := listening(t, v, o)
	own := s.(*server).hello
	other := own
	other.variant = "shm-tensor:pass=name;reuse=off"
	model := own
	model.down++
	far := own
	far.lane = 1 << 40
	for name, packet := range map[string][]byte{
		"garbage": []byte("GET / HTTP/1.1"), "short": []byte(helloMagic), "long": make([]byte, maxPacket),
		"another transport": other.encode(), "another model": model.encode(), "another lane": far.encode(),
	} {
		c, err := net.Dial(network, s.Addr())
		must(t, err)
		k := newLink(c.(*net.UnixConn), nil)
		must(t, k.send(packet, unsealed(t, 10))) // which the server has to close
		must(t, c.SetDeadline(time.Now().Add(soon)))
		b, files, err := k.receive()
		if err != nil || b[0] != refused || len(files) != 0 {
			t.Errorf("%s: got %q, %d descriptors, %v, want a refusal", name, b, len(files), err)
		}
		must(t, c.Close())
	}
	silent, err := net.Dial(network, s.Addr())
	must(t, err)
	defer silent.Close()
	w := dialled(t, v, s, o)
	must(t, exchange(s, w, driver.Job{}))
	must(t, w.Close())
	must(t, s.Shutdown(t.Context())) // does not wait for it
}

// Why the server gives a worker up is said at both ends.
func TestWhyGone(t *testing.T) {
	t.Run("descriptors", func(t *testing.T) {
		v, o := parse(t, "shm-tensor:pass=fd")
		s, _ := listening(t, v, o)
		w := dialled(t, v, s, o)
		must(t, s.Dispatch(t.Context(), 0, driver.Job{}))
		_, _, err := w.Receive(t.Context())
		must(t, err)
		u, err := w.Reserve()
		must(t, err)
		var before unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max})) // no more can be opened
		err = w.Submit(t.Context(), u)
		_, cause := s.Collect(t.Context(), 0)
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		must(t, err)
		saysWhy(t, "collect", cause, "too many open files")
		saysWhy(t, "dispatch", s.Dispatch(t.Context(), 0, driver.Job{}), "too many open files")
		_, _, err = w.Receive(t.Context())
		saysWhy(t, "receive", err, "too many open files")
	})
	t.Run("ready", func(t *testing.T) { // says it with a descriptor, when it has its lane
		v, o := parse(t, "shm-slab")
		s, _ := listening(t, v, o)
		k, _, files, err := dial(t.Context(), s.Addr(), s.(*server).hello, nil)
		must(t, err)
		defer k.conn.Close()
		closeAll(files)
		must(t, s.Dispatch(t.Context(), 0, driver.Job{}))
		must(t, k.send([]byte(agreed), unsealed(t, 10)))
		_, err = s.Collect(t.Context(), 0)
		saysWhy(t, "collect", err, "ready with descriptors")
		must(t, k.conn.SetDeadline(time.Now().Add(soon)))
		b, _, err := k.receive()
		must(t, err)
		if err := refusal(b); err == nil || !strings.Contains(err.Error(), "ready with descriptors") {
			t.Errorf("the worker: got %v, want the reason", err)
		}
	})
	t.Run("none", func(t *testing.T) { // a worker that leaves by itself
		v, o := parse(t, "shm-slab")
		s, _ := listening(t, v, o)
		w := dialled(t, v, s, o)
		must(t, s.Dispatch(t.Context(), 0, driver.Job{}))
		must(t, w.Close())
		_, err := s.Collect(t.Context(), 0)
		if !errors.Is(err, errGone) || !strings.HasSuffix(err.Error(), errGone.Error()) {
			t.Errorf("collect: got %v, want %v and no more", err, errGone)
		}
	})
}

// A worker that is given up while it is closed: no two goroutines touch the reason
// at once, which the race detector watches.
func TestRefusedWhileClosing(t *testing.T) {
	for range 100 {
		v, o := parse(t, "shm-slab")
		s, _ := listening(t, v, o)
		w := dialled(t, v, s, o)
		received, closed := make(chan error, 1), make(chan error, 1)
		go func() {
			_, _, err := w.Receive(t.Context())
			received <- err
		}()
		must(t, w.link.send([]byte("what no worker says"))) // the server answers with a refusal
		go func() { closed <- w.Close() }()
		if err := <-received; err == nil {
			t.Error("received a job that nobody sent")
		}
		must(t, <-closed)
		must(t, s.Shutdown(t.Context()))
	}
}

// A worker may take its time to map its memory: as long as the caller of Dial
// gives it.
func TestSlowWorker(t *testing.T) {
	if os.Getenv("IPCBENCH_SOAK") == "" {
		t.Skip("takes longer than a hello may: make soak")
	}
	v, o := parse(t, "shm-slab")
	s, _ := listening(t, v, o)
	k, _, files, err := dial(t.Context(), s.Addr(), s.(*server).hello, nil)
	must(t, err)
	closeAll(files)
	<-time.After(helloTimeout + 2*time.Second)
	must(t, k.agree(t.Context()))
	must(t, k.conn.Close())
}

// saysWhy checks that err says that the peer is gone, and why.
func saysWhy(t *testing.T, what string, err error, why string) {
	t.Helper()
	if !errors.Is(err, errGone) || !strings.Contains(err.Error(), why) {
		t.Errorf("%s: got %v, want %v and %q", what, err, errGone, why)
	}
}

// A socket whose mode cannot be set is closed again.
func TestListenCleansUp(t *testing.T) {
	v, o := parse(t, "shm-slab")
	before := filesNow(t)
	o.Dir = "@ipcbench-test" // a socket without a file
	if _, err := v.Transport.Listen(t.Context(), o); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want that there is no file", err)
	}
	if after := filesNow(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// Descriptors that come with pass=fd are checked before anything is mapped.
func TestHostileDescriptors(t *testing.T) {
	packet := func(serial uint64, first uint32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, serial), first)
	}
	_, o := parse(t, "shm-tensor:pass=fd")
	files := func(n int) (all []*os.File) {
		for range n {
			all = append(all, unsealed(t, 4096))
		}
		return all
	}
	for name, c := range map[string]struct {
		packet []byte
		files  []*os.File
		want   error
	}{
		"empty":           {nil, files(1), errMessage},
		"another serial":  {packet(2, 0), files(1), errSequence},
		"not the first":   {packet(1, 1), files(1), errSequence},
		"no descriptors":  {packet(1, 0), nil, errLength},
		"too many":        {packet(1, 0), files(4), errLength},
		"as many as fits": {packet(1, 0), files(3), nil},
	} {
		p := newPassing(o, &tensor.Ledger{})
		h, err := p.issue(0)
		must(t, err)
		if err := p.passed(0, c.packet, c.files); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
		if c.want == nil {
			_, err := p.lend(t.Context(), 0, h)
			if !errors.Is(err, slab.ErrSize) && !errors.Is(err, slab.ErrSeals) {
				t.Errorf("%s: got %v, want a refusal", name, err)
			}
			if err := p.passed(0, packet(1, 0), files(3)); err != nil {
				t.Error(err)
			}
			if err := p.passed(0, packet(1, 0), files(3)); !errors.Is(err, errSequence) {
				t.Errorf("a second set: got %v, want %v", err, errSequence)
			}
		}
		p.left(0)
		if _, err := p.lanes[1].await(expired(t)); err == nil {
			t.Error("got descriptors that nobody sent")
		}
		p.close()
	}
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
