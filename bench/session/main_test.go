package session

import (
	"os"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/trainer"
	"ipcbench/transports/all"
)

// TestMain runs the test binary as a worker if it was started as one.
func TestMain(m *testing.M) {
	reexec.Main(reexec.Roles{reexec.Worker: trainer.Host{Transports: all.Transports(), Funcs: Funcs()}.Work})
	os.Exit(m.Run())
}
