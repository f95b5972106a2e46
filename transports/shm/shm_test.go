package shm

import (
	"testing"

	"ipcbench/internal/test/skip"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	drivertest.Main(m, append(presets, Slab(), PerTensor())...)
}

func TestSlab(t *testing.T)      { drivertest.Run(t, Slab) }
func TestPerTensor(t *testing.T) { drivertest.RunSibling(t, PerTensor) }

// TestSettings: the contract holds for every setting.
func TestSettings(t *testing.T) {
	skip.Long(t)
	for _, p := range presets {
		t.Run(p.Name(), func(t *testing.T) {
			if raceDetector && p.Name() != "shm-tensor,pass=fd" { // the others differ in mapped memory only
				t.Skip("nothing that the race detector could see")
			}
			drivertest.Run(t, func() driver.Transport { return p })
		})
	}
}

var presets = []driver.Transport{
	drivertest.Preset(Slab(), "shm-slab,wait=spin", driver.Settings{"wait": "spin"}),
	drivertest.Preset(Slab(), "shm-slab,copy=in", driver.Settings{"copy": "in"}),
	drivertest.Preset(Slab(), "shm-slab,copy=out", driver.Settings{"copy": "out"}),
	drivertest.Preset(PerTensor(), "shm-tensor,reuse=on", driver.Settings{"reuse": "on"}),
	drivertest.Preset(PerTensor(), "shm-tensor,pass=fd", driver.Settings{"pass": "fd"}),
}
