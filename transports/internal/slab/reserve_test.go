package slab

import (
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// blocks returns the number of bytes that the file at path has reserved.
func blocks(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	check.Must(t, unix.Stat(path, &st))
	return st.Blocks * 512
}

// interruptLong makes the kernel end every fallocate of more than most bytes on this thread
// with EINTR. Old kernels do that if a profile's signals arrive faster than the call ends.
func interruptLong(most uint32) error {
	const number, length = 0, 16 + 3*8 // in struct seccomp_data: the call, and the low half of its fourth argument
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FALLOCATE, Jf: 3},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: length},
		{Code: unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K, K: most, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EINTR)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	f := &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, reflect.ValueOf(f).Pointer(), 0, 0)
	runtime.KeepAlive(f)
	return err
}

// TestReserveUnderSignals: reserving memory ends even if long calls are always interrupted,
// and while signals arrive all the time.
func TestReserveUnderSignals(t *testing.T) {
	const size = 64<<20 + 4096
	dir := check.Value(os.MkdirTemp("/dev/shm", "slab-test-"))(t)
	defer os.RemoveAll(dir)
	alarms := make(chan os.Signal, 1)
	signal.Notify(alarms, unix.SIGALRM)
	defer signal.Stop(alarms)
	every := unix.Timeval{Usec: 200}
	check.Must(t, check.Err(unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{Interval: every, Value: every})))
	defer unix.Setitimer(unix.ITIMER_REAL, unix.Itimerval{})

	path := filepath.Join(dir, "f")
	type made struct {
		mem          *Memory
		refused, err error
	}
	done := make(chan made, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with its filter
		if err := interruptLong(4 << 20); err != nil {
			done <- made{refused: err}
			return
		}
		m, err := CreateFile(path, size, Untouched)
		done <- made{mem: m, err: err}
	}()
	d := waiting.Receive(t, "the end of reserving", done)
	if d.refused != nil {
		skip.Refused(t, "a filter of system calls: %v", d.refused)
	}
	check.Must(t, d.err)
	got := blocks(t, path)
	check.That(t, got >= size, "%d bytes are reserved, want %d", got, size)
	check.Must(t, d.mem.Close())
	select {
	case <-alarms:
	default:
		t.Error("no signal has arrived")
	}
}
