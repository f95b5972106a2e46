package trainer_test

import (
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
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
)

// burn is a worker function that takes 30 ms of a processor, however many others
// want it, and that ends its process if that is what it was made for.
func burn(config []byte) (trainer.Train, error) {
	return func(c *trainer.Job) error {
		if string(config) == "die" && c.Round == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		runtime.LockOSThread() // the clock is the thread's
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

// profiled runs rounds of a session with profiles, three of them timed.
func profiled(t *testing.T, h trainer.Host, l trainer.Launcher, variant, config string, p trainer.Profiling) (trainer.Report, error) {
	t.Helper()
	v, err := transports.Parse(variant, h.Transports)
	check.Must(t, err)
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{1000}}})
	check.Must(t, err)
	p.Transport, p.Model = v.String(), "one"
	session, err := trainer.Open(t.Context(), trainer.Config{
		Variant: v, Down: layout, Up: layout, Workers: 2, Clients: 4, Func: "burn", FuncConfig: []byte(config),
		Launcher: l, Samples: 1000, Profiling: &p,
	})
	check.Must(t, err)
	rounds := func() error {
		model, err := session.Reserve(0)
		if err != nil {
			return err
		}
		for n := range 5 {
			switch n {
			case 1:
				err = session.Enter(t.Context(), trainer.Timed, n)
			case 4:
				err = session.Enter(t.Context(), trainer.Outside, n)
			}
			if err != nil {
				return err
			}
			if _, err := session.Publish(t.Context(), n, model); err != nil {
				return err
			}
			if model, err = session.Reserve(n); err != nil {
				return err
			}
			clients := []trainer.Client{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}
			if err := session.Round(t.Context(), trainer.Round{Number: n, Clients: clients, Each: func(u trainer.Update) error {
				u.Release()
				return nil
			}}); err != nil {
				return err
			}
		}
		return nil
	}
	err = rounds()
	report, closeErr := session.Close()
	if err == nil {
		err = closeErr
	}
	return report, err
}

// phases returns the labels of phases and processes in CPU profiles.
func phases(t *testing.T, pieces []phase.Piece) (phases, processes []string) {
	t.Helper()
	for _, piece := range pieces {
		p, err := profile.ParseData(piece.Data)
		check.Must(t, err)
		for _, s := range p.Sample {
			phases = append(phases, s.Label[phase.LabelPhase]...)
			processes = append(processes, s.Label[phase.LabelProcess]...)
		}
	}
	return phases, processes
}

// TestProfiles: the server and every worker return their profiles of the timed
// window, whose samples say which phase of which process they are of; workers
// inside the server's process are in its profile.
func TestProfiles(t *testing.T) {
	skip.Long(t)
	h := host()
	processes, goroutines := trainer.NewProcesses(), trainer.NewGoroutines(h)
	for _, tt := range []struct {
		name, variant string
		launcher      trainer.Launcher
		p             trainer.Profiling
		server, each  []string // kinds
	}{
		{"processes", "pickle", processes, trainer.Profiling{Kinds: []string{capture.CPU, capture.Mutex}}, []string{capture.CPU, capture.Mutex}, []string{capture.CPU, capture.Mutex}},
		{"workers alone", "pickle", processes, trainer.Profiling{Kinds: []string{capture.CPU}, Workers: true}, nil, []string{capture.CPU}},
		{"inside", "inproc", goroutines, trainer.Profiling{Kinds: []string{capture.CPU}}, []string{capture.CPU}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report, err := profiled(t, h, tt.launcher, tt.variant, "", tt.p)
			if err != nil && strings.Contains(err.Error(), "already in use") {
				t.Skip(err) // go test -cpuprofile
			}
			check.Must(t, err)
			kinds := func(pieces []phase.Piece) (kinds []string) {
				for _, p := range pieces {
					kinds = append(kinds, p.Kind)
				}
				return kinds
			}
			if got := kinds(report.Server.Profiles); !slices.Equal(got, tt.server) {
				t.Errorf("server: profiles %v, want %v", got, tt.server)
			}
			check.Need(t, len(report.Processes) == 2, "%d workers", len(report.Processes))
			trained, names := phases(t, slices.DeleteFunc(report.Server.Profiles, func(p phase.Piece) bool { return p.Kind != capture.CPU }))
			for w, r := range report.Processes {
				got := kinds(r.Profiles)
				check.That(t, slices.Equal(got, tt.each), "process %d: profiles %v, want %v", w, got, tt.each)
				p, n := phases(t, slices.DeleteFunc(r.Profiles, func(p phase.Piece) bool { return p.Kind != capture.CPU }))
				trained, names = append(trained, p...), append(names, n...)
			}
			check.That(t, slices.Contains(trained, "train"), "no sample is labelled train: %v", trained)
			for _, want := range []string{"process-0", "process-1"} {
				check.That(t, slices.Contains(names, want), "no sample is labelled %s", want)
			}
		})
	}
}

// TestProfiledWorkerDies: the session fails with the cause, and this process is
// profiled no longer.
func TestProfiledWorkerDies(t *testing.T) {
	skip.Long(t)
	processes := trainer.NewProcesses()
	for range 2 { // the second time would find the first one's profile in use
		_, err := profiled(t, host(), processes, "pickle", "die", trainer.Profiling{Kinds: []string{capture.CPU, capture.Allocs}})
		if err != nil && strings.Contains(err.Error(), "already in use") {
			t.Skip(err) // go test -cpuprofile
		}
		check.Fails(t, err, "exited: signal: killed")
	}
}

// TestUnknownProfile: a kind that does not exist is refused before anything starts.
func TestUnknownProfile(t *testing.T) {
	processes := trainer.NewProcesses()
	v, err := transports.Parse("pickle", host().Transports)
	check.Must(t, err)
	layout, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{1}}})
	check.Must(t, err)
	_, err = trainer.Open(t.Context(), trainer.Config{
		Variant: v, Down: layout, Up: layout, Workers: 1, Func: "burn", Launcher: processes,
		Profiling: &trainer.Profiling{Kinds: []string{"goroutine"}},
	})
	check.Fails(t, err, `unknown kind of profile "goroutine"`)
}
