package all_test

import (
	"fmt"

	"ipcbench/transports/all"
)

func ExampleTransports() {
	for _, t := range all.Transports() {
		fmt.Print(t.Name(), " ")
	}
	// Output: inproc pickle storage shm-tensor shm-slab grpc-tensor grpc-batch grpc-stream http http-shm
}
