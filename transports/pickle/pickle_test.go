package pickle_test

import (
	"testing"

	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/pickle"
)

func TestMain(m *testing.M) { drivertest.Main(m, pickle.New(), pickle.Storage()) }

func TestPickle(t *testing.T)          { drivertest.Run(t, pickle.New) }
func TestStorageConforms(t *testing.T) { drivertest.RunSibling(t, pickle.Storage) }
