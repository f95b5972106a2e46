package shm

import (
	"os"
	"testing"

	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role) // does not return
	}
	drivertest.Main(m, Slab(), PerTensor())
}

func TestSlab(t *testing.T)      { drivertest.Run(t, Slab) }
func TestPerTensor(t *testing.T) { drivertest.Run(t, PerTensor) }

// The contract holds for every setting.
func TestSettings(t *testing.T) {
	for name, newTransport := range map[string]func() driver.Transport{
		"slab,wait=spin":  with(Slab, "wait", "spin"),
		"slab,copy=in":    with(Slab, "copy", "in"),
		"tensor,reuse=on": with(PerTensor, "reuse", "on"),
		"tensor,pass=fd":  with(PerTensor, "pass", "fd"),
	} {
		t.Run(name, func(t *testing.T) {
			if raceDetector && name != "tensor,pass=fd" { // the others differ in mapped memory only
				t.Skip("nothing that the race detector could see")
			}
			drivertest.Run(t, newTransport)
		})
	}
}

// preset is a transport with another default. Workers find the original by its
// name and get the setting's value from the server.
type preset struct {
	driver.Transport
	name, value string
}

func (p preset) Settings() []driver.Setting {
	all := p.Transport.Settings()
	for i := range all {
		if all[i].Name == p.name {
			all[i].Default = p.value
		}
	}
	return all
}

func with(newTransport func() driver.Transport, name, value string) func() driver.Transport {
	return func() driver.Transport { return preset{newTransport(), name, value} }
}
