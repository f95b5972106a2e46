// Package all is the list of all transports. It is the only package that knows
// every one of them; whoever runs transports is given the list as a value.
package all

import (
	"ipcbench/transports/batched"
	"ipcbench/transports/driver"
	"ipcbench/transports/http"
	"ipcbench/transports/inproc"
	"ipcbench/transports/pickle"
	"ipcbench/transports/shm"
)

// Transports returns a new value of every transport, in the order in which lists
// and tables show them. The first one is the control.
func Transports() []driver.Transport {
	return []driver.Transport{
		inproc.New(),
		pickle.New(),
		pickle.Storage(),
		shm.PerTensor(),
		shm.Slab(),
		batched.Unary(),
		batched.Batched(),
		batched.Streaming(),
		http.New(),
		http.Local(),
	}
}
