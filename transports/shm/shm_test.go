package shm

import (
	"testing"

	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) { transporttest.Main(m, Slab()) }

func TestSlab(t *testing.T) { transporttest.Run(t, Slab) }
