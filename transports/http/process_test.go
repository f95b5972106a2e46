package http

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/http/store"
)

// workApart is the role of a worker with another /dev/shm. It needs its own mount namespace.
func workApart(question []byte) (any, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", scratch.SharedMemory, "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mount %s: %w", scratch.SharedMemory, err)
	}
	return drivertest.Work(question, Local())
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
			r := start(t, "http-shm", vectors(t, 5, 10_000), 1)
			role, want, attr := "work", counts{phase.HandleTensors: 15, phase.BodyTensors: 0, phase.Fallback + store.Remote: 0}, &syscall.SysProcAttr{}
			if remote {
				role, want, attr = "apart", counts{phase.HandleTensors: 0, phase.BodyTensors: 15, phase.Fallback + store.Remote: 15}, apart(t)
			}
			k, err := drivertest.Spawn(t, role, r.Remote(), attr)
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
			check.Is(t, err, want, when, "open", filepath.Base(ref.Path), "with flags", flag)
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
