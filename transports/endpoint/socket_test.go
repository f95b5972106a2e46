package endpoint_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/transports/endpoint"
)

// backlog returns a listening Unix socket, whose queue has room for one connection, and its
// path.
func backlog(t *testing.T) (fd int, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "s")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = unix.Listen(fd, 1)
	}
	check.Must(t, err)
	return fd, path
}

// fill connects until the queue is full.
func fill(t *testing.T, path string) {
	t.Helper()
	for {
		c, err := net.Dial("unix", path)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		check.Must(t, err)
		t.Cleanup(func() { c.Close() })
	}
}

// TestDialMany: workers that dial at once all connect, although the socket's queue has room
// for one.
func TestDialMany(t *testing.T) {
	const calls = 300
	fd, path := backlog(t)
	ctx := waiting.Context(t)
	fill(t, path)
	started, results := make(chan bool), make(chan error, calls)
	for range calls {
		go func() {
			started <- true
			c, err := endpoint.At("unix:"+path, "").Dial(ctx, nil)
			if err == nil {
				c.Close()
			}
			results <- err
		}()
	}
	for range calls {
		<-started // accepts only after nearly all have met a full queue
	}
	f := os.NewFile(uintptr(fd), path)
	l := check.Value(net.FileListener(f))(t)
	f.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	for range calls {
		check.OK(t, <-results)
	}
	l.Close()
	<-done
}

// TestDialFull: Dial waits for room in a full queue until the context ends. The error names
// both causes.
func TestDialFull(t *testing.T) {
	fd, path := backlog(t)
	defer unix.Close(fd)
	fill(t, path)
	// The queue is full from the start, even on a slow machine.
	_, err := endpoint.At("unix:"+path, "").Dial(waiting.Ending(t, 500*time.Millisecond), nil)
	check.That(t, errors.Is(err, unix.EAGAIN) && errors.Is(err, context.DeadlineExceeded),
		"got %v, want that the queue is full and that time is up", err)
}
