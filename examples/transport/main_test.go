package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"ipcbench/cli"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// asCommand is a variable that makes this test binary run the command.
const asCommand = "EXAMPLE_COMMAND"

// TestMain runs the test binary as a worker if it was started as one, and as the
// command if asCommand is set.
func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		cli.Main(plain{})
	}
	drivertest.Main(m, plain{})
}

func TestPlain(t *testing.T) {
	drivertest.Run(t, func() driver.Transport { return plain{} })
}

// TestMeasured: the command measures the transport and the control, with every byte proved.
func TestMeasured(t *testing.T) {
	cmd := exec.Command(os.Args[0], "run", "-q", "--transport", "plain,plain:network=tcp", "--model", "uniform:64KiB/4", "--time", "50ms", "--blocks", "2", "--out", t.TempDir()+"/r.json")
	cmd.Env = append(os.Environ(), asCommand+"=1")
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"inproc", "plain", "network=tcp"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v: want %q in\n%s", err, want, out)
		}
	}
	if strings.Contains(string(out), "not proved") {
		t.Errorf("not proved:\n%s", out)
	}
}
