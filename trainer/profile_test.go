package trainer_test

import (
	"cmp"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"golang.org/x/sys/unix"

	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// burn is a worker function that uses 30 ms of CPU time, however busy the machine is. With
// the configuration "die" it kills its process in round 1.
func burn(config []byte) (trainer.Train, error) {
	return func(c *trainer.Job) error {
		if string(config) == "die" && c.Round == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		runtime.LockOSThread() // the clock counts this thread's CPU time only
		defer runtime.UnlockOSThread()
		var start, now unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &start)
		for err == nil && now.Nano()-start.Nano() < int64(30*time.Millisecond) {
			for i := range c.Update.View(0) {
				c.Update.View(0)[i] = byte(i)
			}
			err = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now)
		}
		return err
	}, nil
}

// profiled runs five rounds of a profiled session; three are timed.
func profiled(t *testing.T, l trainer.Launcher, transport, config string, p trainer.Profiling) (trainer.Report, error) {
	t.Helper()
	p.Transport, p.Model = transport, "one"
	s := mustOpen(t, transport, l, func(c *trainer.Config) {
		c.Down, c.Func, c.FuncConfig, c.Profiling = layoutOf(t, 1000), "burn", []byte(config), &p
	})
	var err error
	for n := 0; n < 5 && err == nil; n++ {
		switch n {
		case 1:
			err = s.Enter(t.Context(), trainer.Timed, n)
		case 4:
			err = s.Enter(t.Context(), trainer.Outside, n)
		}
		if err == nil {
			err = round(t.Context(), s, n, 4, nil)
		}
	}
	report, closeErr := s.Close()
	err = cmp.Or(err, closeErr)
	if err != nil && strings.Contains(err.Error(), "already in use") {
		t.Skip(err) // go test -cpuprofile
	}
	return report, err
}

// labels returns the phase and process labels of all samples in CPU profiles, and the kinds
// of all profiles.
func labels(t *testing.T, pieces []phase.Piece) (labels, kinds []string) {
	t.Helper()
	for _, piece := range pieces {
		kinds = append(kinds, piece.Kind)
		if piece.Kind != capture.CPU {
			continue
		}
		p := check.Value(profile.ParseData(piece.Data))(t)
		for _, s := range p.Sample {
			labels = append(labels, slices.Concat(s.Label[phase.LabelPhase], s.Label[phase.LabelProcess])...)
		}
	}
	return labels, kinds
}

// TestProfiles: the server and every worker process return their profiles of the timed
// window, and samples are labelled with their phase and process. Workers in the server's
// process are part of its profile.
func TestProfiles(t *testing.T) {
	skip.Long(t)
	processes, goroutines := trainer.NewProcesses(), trainer.NewGoroutines(host())
	for _, tt := range []struct {
		name, transport string
		launcher        trainer.Launcher
		p               trainer.Profiling
		server, each    []string // kinds of profiles
	}{
		{"processes", "pickle", processes, trainer.Profiling{Kinds: []string{capture.CPU, capture.Mutex}}, []string{capture.CPU, capture.Mutex}, []string{capture.CPU, capture.Mutex}},
		{"workers alone", "pickle", processes, trainer.Profiling{Kinds: []string{capture.CPU}, Workers: true}, nil, []string{capture.CPU}},
		{"inside", "inproc", goroutines, trainer.Profiling{Kinds: []string{capture.CPU}}, []string{capture.CPU}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := check.Value(profiled(t, tt.launcher, tt.transport, "", tt.p))(t)
			check.Need(t, len(report.Processes) == 2, "%d workers", len(report.Processes))
			all, kinds := labels(t, report.Server.Profiles)
			check.Equal(t, kinds, tt.server, "profiles of the server")
			for w, r := range report.Processes {
				more, kinds := labels(t, r.Profiles)
				check.Equal(t, kinds, tt.each, "profiles of process", w)
				all = append(all, more...)
			}
			for _, want := range []string{"train", "process-0", "process-1"} {
				check.That(t, slices.Contains(all, want), "no sample is labelled %s: %v", want, all)
			}
		})
	}
}

// TestProfiledWorkerDies: the session fails with the cause, and profiling stops in this
// process.
func TestProfiledWorkerDies(t *testing.T) {
	skip.Long(t)
	processes := trainer.NewProcesses()
	for range 2 { // if the first run left its profile on, the second fails
		_, err := profiled(t, processes, "pickle", "die", trainer.Profiling{Kinds: []string{capture.CPU, capture.Allocs}})
		check.Fails(t, err, "exited: signal: killed")
	}
}
