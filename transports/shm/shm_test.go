package shm

import (
	"testing"

	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, Slab(), PerTensor()) }

func TestSlab(t *testing.T)      { transporttest.Run(t, Slab) }
func TestPerTensor(t *testing.T) { transporttest.Run(t, PerTensor) }
