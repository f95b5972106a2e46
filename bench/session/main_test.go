package session

import (
	"os"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/internal/reexec"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// host runs the workers of all sessions.
var host = trainer.Host{Transports: all.Transports(), Funcs: Funcs()}

// TestMain runs the test binary as a worker if it was started as one.
func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{reexec.Worker: host.Work})
	os.Exit(m.Run())
}

// specOf returns a cell in the notation of benchtest.Specs.
func specOf(t testing.TB, text string) Spec {
	t.Helper()
	return benchtest.Specs[Spec](t, host.Transports, text)[0]
}
