package shm

import (
	"testing"

	"ipcbench/internal/test/skip"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	all := []driver.Transport{Slab(), PerTensor()}
	for _, p := range presets {
		all = append(all, p)
	}
	drivertest.Main(m, all...)
}

func TestSlab(t *testing.T)      { drivertest.Run(t, Slab) }
func TestPerTensor(t *testing.T) { drivertest.RunSibling(t, PerTensor) }

// TestSettings: the contract holds for every setting.
func TestSettings(t *testing.T) {
	skip.Long(t)
	for _, p := range presets {
		t.Run(p.Name(), func(t *testing.T) {
			if raceDetector && p.value != "fd" { // the others differ in mapped memory only
				t.Skip("nothing that the race detector could see")
			}
			drivertest.Run(t, func() driver.Transport { return p })
		})
	}
}

var presets = []preset{
	{Slab(), "wait", "spin"}, {Slab(), "copy", "in"}, {Slab(), "copy", "out"}, {PerTensor(), "reuse", "on"}, {PerTensor(), "pass", "fd"},
}

// preset is a transport with another default and its own name.
type preset struct {
	driver.Transport
	name, value string
}

func (p preset) Name() string { return p.Transport.Name() + "," + p.name + "=" + p.value }

func (p preset) Settings() []driver.Setting {
	all := p.Transport.Settings()
	for i := range all {
		if all[i].Name == p.name {
			all[i].Default = p.value
		}
	}
	return all
}
