package shm

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/internal/slab"
)

func unsealed(t *testing.T, size int) *os.File {
	t.Helper()
	fd := check.Value(unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING))(t)
	f := os.NewFile(uintptr(fd), "unsealed")
	check.Must(t, f.Truncate(int64(size)))
	t.Cleanup(func() { f.Close() })
	return f
}

// say sends a packet with the given descriptors.
func say(c *net.UnixConn, packet []byte, files ...*os.File) error {
	var fds []int
	for _, f := range files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := c.WriteMsgUnix(packet, unix.UnixRights(fds...), nil)
	return err
}

// TestHostileServer: a worker checks everything that it reads in Dial, and leaks no
// descriptor.
func TestHostileServer(t *testing.T) {
	v, o := parse(t, "shm-slab"), options()
	models, updates, err := slab.Sizes(o.Down, o.Up, o.Lanes, o.Depth)
	check.Must(t, err)
	control := controlSize(o.Down.Len())
	memfd := func(size int) *os.File {
		m := check.Value(slab.Memfd("test", size, slab.ReadWrite, slab.Untouched))(t)
		t.Cleanup(func() { check.Must(t, m.Close()) })
		return m.File()
	}
	good := []*os.File{memfd(control), memfd(control), memfd(models), memfd(updates)}
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
		"nothing":           {"", nil, "the peer has closed the connection"},
		"no descriptors":    {"w", nil, "0 descriptors"},
		"too few":           {"w", good[:3], "1 descriptors"},
		"too many":          {"w", append(swap(0, good[0]), good[0]), "3 descriptors"},
		"another letter":    {"x", good, errMessage.Error()},
		"refused":           {"rwhy not", nil, "welcome: why not"},
		"unsealed mailbox":  {"w", swap(0, unsealed(t, control)), slab.ErrSeals.Error()},
		"unsealed models":   {"w", swap(2, unsealed(t, models)), slab.ErrSeals.Error()},
		"small updates":     {"w", swap(3, memfd(updates-64)), slab.ErrSize.Error()},
		"large mailbox":     {"w", swap(1, memfd(control+64)), slab.ErrSize.Error()},
		"not even a memory": {"w", swap(2, os.Stdin), "slab: open"},
	} {
		e := endpoint.New(private(t))
		e.Variant = v.String()
		lanes := check.Value(e.ListenLanes(t.Context(), network, o.Session()))(t)
		noMore := descriptors(t)
		served := make(chan error, 1)
		go func() {
			conn, err := lanes.Conn(t.Context(), 0)
			if err == nil && c.packet != "" {
				err = say(conn.Conn.(*net.UnixConn), []byte(c.packet), c.files...)
			}
			served <- errors.Join(err, conn.Close())
		}()
		check.Fails(t, check.Err(drivertest.Dial(t.Context(), v, e, 0, o)), c.want, name)
		check.Must(t, <-served)
		noMore(name)
		check.Must(t, lanes.Dismiss())
	}
}

// TestWhyGone: if one end gives up the other, both ends report the reason.
func TestWhyGone(t *testing.T) {
	t.Run("descriptors", func(t *testing.T) {
		s := open(t, "shm-tensor:pass=fd", options())
		w := s.Workers[0].Worker
		var before unix.Rlimit
		check.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &before))
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		err := drivertest.Turn(t.Context(), w, func(driver.Job, *tensor.Package, *tensor.Package) error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: before.Max}) // no file can be opened now
		})
		_, cause := s.Server.Collect(t.Context(), 0)
		check.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &before))
		check.Must(t, err)
		saysWhy(t, "collect", cause, "too many open files")
		saysWhy(t, "dispatch", s.Server.Dispatch(t.Context(), 0, driver.Job{}), "too many open files")
		_, _, err = w.Receive(t.Context())
		saysWhy(t, "receive", err, "too many open files")
	})
	t.Run("ready", func(t *testing.T) { // sends a descriptor with its agreement to the lane
		s := listen(t, "shm-slab", options())
		c := check.Value(s.Endpoint.DialLane(t.Context(), 0, s.Options.Session()))(t)
		defer c.Close()
		k := newLink(c.(endpoint.Counted).Conn, nil)
		_, files, err := k.expect(t.Context(), string(welcomed))
		check.Must(t, err)
		closeAll(files)
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		check.Must(t, say(k.conn, []byte(agreed), unsealed(t, 10)))
		_, err = s.Server.Collect(t.Context(), 0)
		saysWhy(t, "collect", err, "must have no descriptors")
		waiting.Conn(t, k.conn)
		_, _, err = k.receive()
		check.Fails(t, err, "must have no descriptors", "the worker")
	})
	t.Run("nonsense", func(t *testing.T) {
		s := open(t, "shm-slab", options())
		check.Must(t, s.Workers[0].Driver.(*slabWorker).link.send([]byte("what no worker says")))
		_, _, err := s.Workers[0].Receive(t.Context())
		saysWhy(t, "receive", err, errMessage.Error())
	})
	t.Run("left", func(t *testing.T) { // a worker that leaves by itself
		s := open(t, "shm-slab", options())
		check.Must(t, s.Server.Dispatch(t.Context(), 0, driver.Job{}))
		check.Must(t, s.Workers[0].Close())
		_, err := s.Server.Collect(t.Context(), 0)
		saysWhy(t, "collect", err, "the worker has left")
	})
}

// saysWhy checks that err says that the peer is gone, and why.
func saysWhy(t *testing.T, what string, err error, why string) {
	t.Helper()
	isGone(t, what, err)
	check.Fails(t, err, why, what)
}

// TestListenCleansUp: a server that cannot listen releases its memory, descriptors and
// names.
func TestListenCleansUp(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		noMore, named := descriptors(t), segments(t)
		_, err := transports.Listen(t.Context(), parse(t, name), endpoint.New("/does/not/exist"), options())
		check.Is(t, err, os.ErrNotExist)
		noMore()
		check.Equal(t, segments(t), named, "names")
	})
}

// TestHostileDescriptors: descriptors that arrive with pass=fd are checked before they are
// mapped.
func TestHostileDescriptors(t *testing.T) {
	packet := func(serial uint64, first uint32) []byte {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64([]byte{passed}, serial), first)
	}
	o := options()
	files := func(n int) (all []*os.File) {
		for range n {
			all = append(all, unsealed(t, 4096))
		}
		return all
	}
	expired, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		packet []byte
		files  []*os.File
		want   error
	}{
		"empty":           {nil, files(1), errMessage},
		"another letter":  {append([]byte{agreed[0]}, packet(1, 0)[1:]...), files(3), errMessage},
		"another serial":  {packet(2, 0), files(1), errSequence},
		"not the first":   {packet(1, 1), files(1), errSequence},
		"no descriptors":  {packet(1, 0), nil, errLength},
		"too many":        {packet(1, 0), files(4), errLength},
		"as many as fits": {packet(1, 0), files(3), nil},
	} {
		o.Out = &tensor.Ledger{}
		p := &incoming{o: o, arrived: make(chan []*os.File, 1)}
		h := check.Value(p.issue())(t)
		err := p.take(c.packet, c.files)
		check.Is(t, err, c.want, name)
		if c.want == nil {
			_, err := p.lend(t.Context(), h, nil)
			check.That(t, errors.Is(err, slab.ErrSize) || errors.Is(err, slab.ErrSeals), "%s: got %v, want a refusal", name, err)
			check.OK(t, p.take(packet(1, 0), files(1)))
			for first, want := range []error{errSequence, errLength} { // two are missing, from 1 on
				err := p.take(packet(1, uint32(first)), files(2+first))
				check.Is(t, err, want, "from", first, "on")
			}
			check.OK(t, p.take(packet(1, 1), files(2)))
			err = p.take(packet(1, 0), files(3))
			check.Is(t, err, errSequence, "a second set")
		}
		check.Must(t, p.close())
		_, err = p.await(expired, nil)
		check.Is(t, err, context.Canceled, "descriptors that nobody sent")
	}
}
