package program

import (
	"os"
	"testing"

	"ipcbench/internal/reexec"
)

// TestMain runs the test binary as the keeper of a peer if it was started as one.
func TestMain(m *testing.M) {
	reexec.Main(nil)
	os.Exit(m.Run())
}
