// Package all lists all transports. No other package imports every one of them; packages
// that run transports get the list as a value.
package all

import (
	"ipcbench/transports/batched"
	"ipcbench/transports/driver"
	"ipcbench/transports/http"
	"ipcbench/transports/inproc"
	"ipcbench/transports/pickle"
	"ipcbench/transports/shm"
)

// Transports returns a new value of every transport, in the order of lists and tables. The
// first one is the control.
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
