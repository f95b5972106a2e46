package trainer

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/tensor"
	"ipcbench/transports"
	"ipcbench/transports/pickle"
)

// impostors launches peers that speak on a real control socket, and not as
// workers do.
type impostors struct {
	speak func(conn net.Conn)
	wg    sync.WaitGroup
}

func (i *impostors) Name() string { return "impostors" }
func (i *impostors) Close() error { i.wg.Wait(); return nil }

func (i *impostors) Launch(int) (Process, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	var ends [2]net.Conn
	for n, fd := range fds {
		f := os.NewFile(uintptr(fd), "control")
		if ends[n], err = net.FileConn(f); err != nil {
			return nil, err
		}
		f.Close()
	}
	p := &inside{conn: ends[0], exited: make(chan struct{})}
	i.wg.Go(func() {
		defer close(p.exited)
		defer ends[1].Close()
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			_, _ = io.Copy(io.Discard, ends[1]) // until the pool closes
		}()
		i.speak(ends[1])
		<-reading
	})
	return p, nil
}

// says returns an impostor that sends messages.
func says(messages ...message) func(net.Conn) {
	return func(conn net.Conn) {
		enc := gob.NewEncoder(conn)
		for _, m := range messages {
			if enc.Encode(m) != nil {
				return // the pool has had enough
			}
		}
	}
}

// writes returns an impostor that sends bytes, over and over.
func writes(text []byte, times int) func(net.Conn) {
	return func(conn net.Conn) {
		for range times {
			if _, err := conn.Write(text); err != nil {
				return
			}
		}
	}
}

// TestImpostors: whatever is said on a control socket out of turn, or too long,
// fails the session, names the worker, and costs little memory.
func TestImpostors(t *testing.T) {
	var flood []message
	for range 100_000 {
		flood = append(flood, message{Ready: &ready{}})
	}
	var long bytes.Buffer
	if err := gob.NewEncoder(&long).Encode(message{Failure: &failure{Text: strings.Repeat("x", 1<<24)}}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		speak func(net.Conn)
		want  string
	}{
		"garbage":        {writes([]byte("GET / HTTP/1.1\r\n\r\n"), 1000), "spoke out of turn"},
		"zeros":          {writes(make([]byte, 1<<10), 1<<14), "spoke out of turn"},
		"a huge length":  {writes([]byte{0xfc, 0x3f, 0xff, 0xff, 0xff}, 1), "has not answered"}, // says 1 GiB, and sends none of it
		"a long message": {writes(long.Bytes(), 1), "more than 1048576 bytes"},
		"ready twice":    {says(message{Ready: &ready{}}, message{Ready: &ready{}}), "ready, which nobody asked for"},
		"a flood":        {says(flood...), "ready, which nobody asked for"},
		"pinged":         {says(message{Pinged: &pinged{}}), "the answer to a ping, which nobody"},
		"marked":         {says(message{Marked: &marked{}}), "the answer to a mark, which nobody"},
		"news":           {says(message{News: &news{}}), "news, which nobody"},
		"report":         {says(message{Report: &report{}}), "a report, which nobody"},
		"a pool's":       {says(message{Mark: &mark{}}), "a message for workers"},
		"nothing":        {says(message{}), "a message for workers"},
		"silence":        {func(net.Conn) {}, "has not answered"},
		"the end": {func(c net.Conn) {
			if err := c.(*net.UnixConn).CloseWrite(); err != nil {
				t.Error(err)
			}
		}, "has not answered"}, // it lives on
	} {
		t.Run(name, func(t *testing.T) {
			layout, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
			if err != nil {
				t.Fatal(err)
			}
			v, err := transports.NewVariant(pickle.Pipe(), nil)
			if err != nil {
				t.Fatal(err)
			}
			i := &impostors{speak: c.speak}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p, err := Open(context.Background(), Config{
				Variant: v, Down: layout, Up: layout, Workers: 1, Clients: 1, Launcher: i, RoundLimit: 500 * time.Millisecond,
			})
			if err == nil { // one that said ready has got in, for a moment
				select {
				case <-p.failed.Done():
					err = p.explain(0, nil)
				case <-time.After(20 * time.Second):
					err = errors.New("the pool bears it")
				}
				_, _ = p.Close() // it has failed
			}
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "worker 0 ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one of worker 0 with %q", err, c.want)
			}
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
			_ = i.Close()
		})
	}
}

// TestMarkAtTheEnd: a worker that is told of a mark while it sums up its costs
// does both (the race detector looks on).
func TestMarkAtTheEnd(t *testing.T) {
	for range 200 {
		m := newMeter(nil)
		m.begin(Cold)
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := errors.Join(m.mark(Timed, 1), m.survey(), m.mark(Outside, 2)); err != nil {
				t.Error(err)
			}
		})
		totals, err := m.totals()
		wg.Wait()
		if err != nil {
			t.Error(err)
		}
		if _, ok := totals.Usage[Cold]; !ok {
			t.Error("the first window is missing")
		}
	}
}

// TestStartLimit: sixteen lanes with two updates of 3.35 GB each take 71 s to touch
// at 1.5 GB/s, and may.
func TestStartLimit(t *testing.T) {
	for need, want := range map[int64]time.Duration{0: time.Minute, 107_200_000_000: time.Minute + 214*time.Second, 1 << 62: startTimeout + 1<<20*time.Second} {
		if got := startLimit(need); got != want {
			t.Errorf("a session of %d bytes may take %v to start, want %v", need, got, want)
		}
	}
}
