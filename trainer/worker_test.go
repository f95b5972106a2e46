package trainer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// diverge is a worker function of two clients: client 0 fails while client 1
// trains, and client 1 goes on until the test lets it end. Its configuration is
// the directory in which the files that say so appear.
func diverge(config []byte) (trainer.Train, error) {
	name := func(event string) string { return filepath.Join(string(config), event) }
	return func(c *trainer.Job) error {
		if c.Client == 0 {
			until(name("busy"))
			return errors.New("loss is NaN")
		}
		if err := os.WriteFile(name("busy"), nil, 0o600); err != nil {
			return err
		}
		until(name("end"))
		return nil
	}, nil
}

// until waits for a file to appear.
func until(path string) {
	waiting.Poll(func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// TestCause: the error of a worker function is reported while another lane of its
// process trains, and afterwards no memory is left.
func TestCause(t *testing.T) {
	h := host()
	for _, transport := range h.Transports[:len(all.Transports())] {
		t.Run(transport.Name()+"/goroutines", func(t *testing.T) {
			testCause(t, transport, trainer.NewGoroutines(h))
			maps, err := os.ReadFile("/proc/self/maps")
			check.Must(t, err)
			for line := range strings.Lines(string(maps)) {
				check.That(t, !strings.Contains(line, "ipcbench-"), "still mapped: %v", line)
			}
		})
		if drivertest.Inside(t, transport) || testing.Short() && transport.Name() != "pickle" {
			continue
		}
		t.Run(transport.Name()+"/processes", func(t *testing.T) {
			testCause(t, transport, trainer.NewProcesses())
		})
	}
}

func testCause(t *testing.T, transport driver.Transport, launcher trainer.Launcher) {
	v, err := transports.NewVariant(transport, nil)
	check.Must(t, err)
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "x", DType: tensor.F32, Shape: []int{3}}})
	check.Must(t, err)
	dir := t.TempDir()
	p, err := trainer.Open(t.Context(), trainer.Config{
		Variant: v, Down: l, Up: l, Workers: 2, PerProcess: 2, Clients: 2,
		Func: "diverge", FuncConfig: []byte(dir), Launcher: launcher,
	})
	check.Must(t, err)
	model, err := p.Reserve(0)
	check.Must(t, err)
	tensor.Fill(model, 1)
	_, err = p.Publish(t.Context(), 0, model)
	check.Must(t, err)
	err = p.Round(t.Context(), trainer.Round{Clients: []trainer.Client{{ID: 0}, {ID: 1}}, Each: func(u trainer.Update) error {
		u.Release()
		return nil
	}})
	if err == nil || !strings.Contains(err.Error(), "round 0, client 0: process 0 failed") || !strings.Contains(err.Error(), "loss is NaN") {
		t.Errorf("got error %v, want one that names round 0, client 0 and the cause", err)
	}
	check.Must(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	if _, err := p.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// TestOneName: an error says once what it is about. What a process reports of its lane's
// failure, and what it leaves on stderr, are the transport's own words.
func TestOneName(t *testing.T) {
	l, err := tensor.NewLayout([]tensor.Spec{{Name: "a", DType: tensor.U8, Shape: []int{3}}})
	check.Must(t, err)
	v, err := transports.Parse("inproc", host().Transports) // not those of the workers
	check.Must(t, err)
	_, err = trainer.Open(t.Context(), trainer.Config{Variant: v, Down: l, Up: l, Workers: 1, Func: "stumble", Launcher: trainer.NewGoroutines(host())})
	want := "trainer: start: process 0 failed: inproc: lane 0: dial: no such server in this process: workers of inproc are goroutines of the server's process"
	check.That(t, err != nil && err.Error() == want, "got  %v\nwant %s", err, want)
	words := "pickle: lane 3: receive: the peer has closed the connection"
	check.Equal(t, trainer.LaneError(3, -1, -1, errors.New(words)).Error(), words)
}
