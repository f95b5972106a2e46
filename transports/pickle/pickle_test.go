package pickle_test

import (
	"testing"

	"ipcbench/transports/pickle"
	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, pickle.Pipe(), pickle.Files()) }

func TestPipe(t *testing.T)  { transporttest.Run(t, pickle.Pipe) }
func TestFiles(t *testing.T) { transporttest.Run(t, pickle.Files) }
