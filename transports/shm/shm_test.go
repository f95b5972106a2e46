package shm_test

import (
	"testing"

	"ipcbench/internal/machine"
	"ipcbench/internal/test/skip"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/shm"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, append(presets, shm.Slab(), shm.PerTensor())...)
}

func TestSlab(t *testing.T)      { drivertest.Run(t, shm.Slab) }
func TestPerTensor(t *testing.T) { drivertest.RunSibling(t, shm.PerTensor) }

// TestSettings: the contract holds for every setting.
func TestSettings(t *testing.T) {
	skip.Long(t)
	for _, p := range presets {
		t.Run(p.Name(), func(t *testing.T) {
			if machine.Read().Race && p.Name() != "shm-tensor,pass=fd" { // the others differ in mapped memory only
				t.Skip("nothing that the race detector could see")
			}
			drivertest.Run(t, func() driver.Transport { return p })
		})
	}
}

var presets = []driver.Transport{
	drivertest.Preset(shm.Slab(), "shm-slab,wait=spin", driver.Settings{"wait": "spin"}),
	drivertest.Preset(shm.Slab(), "shm-slab,copy=in", driver.Settings{"copy": "in"}),
	drivertest.Preset(shm.Slab(), "shm-slab,copy=out", driver.Settings{"copy": "out"}),
	drivertest.Preset(shm.PerTensor(), "shm-tensor,reuse=on", driver.Settings{"reuse": "on"}),
	drivertest.Preset(shm.PerTensor(), "shm-tensor,pass=fd", driver.Settings{"pass": "fd"}),
	drivertest.Preset(shm.PerTensor(), "shm-tensor,pass=pickle", driver.Settings{"pass": "pickle"}),
	drivertest.Preset(shm.PerTensor(), "shm-tensor,buffers=client", driver.Settings{"buffers": "client"}),
	drivertest.Preset(shm.PerTensor(), "shm-tensor,buffers=client,pass=fd", driver.Settings{"buffers": "client", "pass": "fd"}),
}
