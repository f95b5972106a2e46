package fedavg_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// endless trains until the flag is set. If its configuration names a file, it creates the file to show that it runs and
// that the flag is not set yet.
func endless(j *job) error {
	if j.Config.File != "" {
		if j.Stopped() {
			return errors.New("the flag was set before the training began")
		}
		if err := os.WriteFile(j.Config.File, nil, 0o600); err != nil {
			return err
		}
	}
	waiting.Poll(j.Stopped)
	return nil
}

// TestStop: B17: running worker functions see the flag when they next check it, and worker functions of the next
// Process do not.
func TestStop(t *testing.T) {
	for _, transport := range []string{"pickle", "shm-slab", "grpc-stream", "http"} {
		t.Run(transport, func(t *testing.T) {
			ct := newTrainer(t, transport, "endless", 2)
			for range 2 {
				dir := t.TempDir()
				name := func(client int) string { return filepath.Join(dir, strconv.Itoa(client)) }
				ct.Config = func(client int) (config, error) { return config{File: name(client)}, nil }
				stopped := make(chan error, 1)
				go func() {
					appears(name(0))
					appears(name(1))
					stopped <- ct.Stop()
				}()
				updates := process(t, ct, newPayload(0), 0, 1)
				check.Must(t, <-stopped)
				for _, u := range updates {
					check.Equal(t, u.Stopped, true)
				}
			}
		})
	}
}

// TestStopEarly: Stop also has an effect while Process prepares, with a new session or an existing one.
func TestStopEarly(t *testing.T) {
	ct := newTrainer(t, "pickle", "endless", 1)
	ct.Config = func(client int) (config, error) { return config{}, ct.Stop() }
	for range 2 {
		check.Equal(t, process(t, ct, newPayload(0), 0)[0].Stopped, true)
	}
}
