package pickle_test

import (
	"testing"

	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/pickle"
)

func TestMain(m *testing.M) { drivertest.Main(m, pickle.Pipe(), pickle.Files()) }

func TestPipe(t *testing.T)  { drivertest.Run(t, pickle.Pipe) }
func TestFiles(t *testing.T) { drivertest.Run(t, pickle.Files) }
