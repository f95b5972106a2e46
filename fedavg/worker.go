package fedavg

import (
	"fmt"

	"ipcbench/receipt"
	"ipcbench/tensor"
	"ipcbench/trainer"
)

// A Job is the training of one client in one round. [trainer.ValueJob] has its Round, Client,
// Device, Payload, Update and Stopped.
type Job[C, P, U any] struct {
	*trainer.ValueJob[P, U]
	Config C // the client's own configuration
}

// Worker makes a worker function, for [trainer.Host.Funcs], from a function that trains one
// client. Interfaces in C, P and U may hold the types that [receipt.Attach] lists and the types of
// the values in known.
func Worker[C, P, U any](train func(*Job[C, P, U]) error, known ...any) trainer.Func {
	return trainer.Values(func(values *trainer.ValueJob[P, U]) error {
		job := Job[C, P, U]{ValueJob: values}
		if err := receipt.Attach(values.Config, new(tensor.Package), &job.Config, known...); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		return train(&job)
	}, known...)
}

// Devices returns a hook for [Trainer.Device] that gives clients the devices of a machine in
// turn. For example, with kind "cuda" and count 2, even clients get cuda:0 and odd ones cuda:1.
// If count is 0, every client gets kind unchanged, such as "cpu".
func Devices(kind string, count int) func(client int) string {
	return func(client int) string {
		if count == 0 {
			return kind
		}
		return fmt.Sprintf("%s:%d", kind, client%count)
	}
}
