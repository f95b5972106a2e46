package trainer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/trainer"
	"ipcbench/transports/all"
	"ipcbench/transports/driver/drivertest"
)

// diverge is a worker function of two clients: client 0 fails while client 1 trains, and
// client 1 trains until the test lets it end. Both signal with files in the directory that
// the configuration names.
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

// TestCause: the error of a worker function is reported while another lane of its process
// still trains. After the session, no memory is left.
func TestCause(t *testing.T) {
	h := host()
	for _, transport := range h.Transports[:len(all.Transports())] {
		t.Run(transport.Name()+"/goroutines", func(t *testing.T) {
			testCause(t, transport.Name(), trainer.NewGoroutines(h))
			nothingLeft(t)
		})
		if drivertest.Inside(t, transport) || testing.Short() && transport.Name() != "pickle" {
			continue
		}
		t.Run(transport.Name()+"/processes", func(t *testing.T) {
			testCause(t, transport.Name(), trainer.NewProcesses())
		})
	}
}

func testCause(t *testing.T, transport string, launcher trainer.Launcher) {
	dir := t.TempDir()
	s := mustOpen(t, transport, launcher, func(c *trainer.Config) {
		c.PerProcess, c.Clients, c.Func, c.FuncConfig = 2, 2, "diverge", []byte(dir)
	})
	err := round(t.Context(), s, 0, 2, nil)
	contains(t, err, "round 0, client 0: process 0 failed", "loss is NaN")
	check.Must(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600))
	closes(t, s)
}

// TestOneName: an error names its lane and transport once. A lane's failure is reported to
// the server, and printed to stderr, in the transport's own words.
func TestOneName(t *testing.T) {
	other := trainer.Host{Transports: all.Transports(), Funcs: host().Funcs}
	_, err := open(t, "inproc", trainer.NewGoroutines(other), func(c *trainer.Config) { c.Workers = 1 })
	want := "trainer: start: process 0 failed: inproc: lane 0: dial: no such server in this process: workers of inproc are goroutines of the server's process"
	check.Equal(t, fmt.Sprint(err), want)
	words := "pickle: lane 3: receive: the peer has closed the connection"
	check.Equal(t, trainer.LaneError(3, -1, -1, errors.New(words)).Error(), words)
}
