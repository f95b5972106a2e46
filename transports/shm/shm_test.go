package shm

import (
	"os"
	"testing"

	"ipcbench/transports"
	"ipcbench/transports/transporttest"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		play(role) // does not return
	}
	transporttest.Main(m, Slab(), PerTensor())
}

func TestSlab(t *testing.T)      { transporttest.Run(t, Slab) }
func TestPerTensor(t *testing.T) { transporttest.Run(t, PerTensor) }

// The contract holds for every setting.
func TestSettings(t *testing.T) {
	for name, newTransport := range map[string]func() transports.Transport{
		"slab,wait=spin":  with(Slab, "wait", "spin"),
		"slab,copy=in":    with(Slab, "copy", "in"),
		"tensor,reuse=on": with(PerTensor, "reuse", "on"),
		"tensor,pass=fd":  with(PerTensor, "pass", "fd"),
	} {
		t.Run(name, func(t *testing.T) {
			if raceDetector && name != "tensor,pass=fd" { // the others differ in mapped memory only
				t.Skip("nothing that the race detector could see")
			}
			transporttest.Run(t, newTransport)
		})
	}
}

// preset is a transport with another default. Workers find the original by its
// name and get the setting's value from the server.
type preset struct {
	transports.Transport
	name, value string
}

func (p preset) Settings() []transports.Setting {
	all := p.Transport.Settings()
	for i := range all {
		if all[i].Name == p.name {
			all[i].Default = p.value
		}
	}
	return all
}

func with(newTransport func() transports.Transport, name, value string) func() transports.Transport {
	return func() transports.Transport { return preset{newTransport(), name, value} }
}
