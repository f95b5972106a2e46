package trainer

import (
	"encoding/json"
	"fmt"

	"ipcbench/phase"
	"ipcbench/receipt"
)

// A ValueJob is a [Job] for a worker function on Go values.
type ValueJob[P, U any] struct {
	Round, Client int
	Config        []byte // the client's own configuration
	Device        string
	Payload       P // the published value; its tensors are the global model: read-only

	// Update is the value that the client sends back. At first it is a copy of the one
	// given to PrepareValues; its tensors hold undefined numbers in memory that the transport
	// has reserved for this update. A worker should write into them. A tensor may also be
	// replaced by another one of the same type and shape, which is then copied.
	Update U

	stopped func() bool
}

// Stopped reports whether the session asked worker functions to end early. A long worker
// function should check it once per epoch, and then return with the update it has.
func (j *ValueJob[P, U]) Stopped() bool { return j.stopped() }

// valuesConfig is the configuration of a worker function on values.
type valuesConfig struct {
	Nesting int
	Receipt []byte // of the prepared update
}

// PrepareValues returns the configuration of a worker function that [Values] made. Its updates
// must be like update, with tensors at most nesting levels deep. prototype is the update, taken
// apart into tensors and a receipt.
func PrepareValues(update any, nesting int) (config []byte, prototype *receipt.Detached, err error) {
	if prototype, err = receipt.Detach(update, nesting); err != nil {
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	config, err = json.Marshal(valuesConfig{Nesting: nesting, Receipt: prototype.Receipt})
	return config, prototype, err
}

// Values makes a [Func] from a function on Go values: payloads of type P and updates of
// type U. Interfaces in them may hold the types that [receipt.Attach] lists and the types of
// the values in known. The time for putting values together and taking them apart is
// recorded inside [phase.Train].
func Values[P, U any](train func(j *ValueJob[P, U]) error, known ...any) Func {
	return func(config []byte) (Train, error) {
		var c valuesConfig
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		return func(j *Job) error {
			of := ValueJob[P, U]{
				Round: j.Round, Client: j.Client, Config: j.Config, Device: j.Device, stopped: j.Stopped,
			}
			err := j.timed(phase.Attach, func() error {
				if err := receipt.Attach(j.Model.Receipt, j.Model, &of.Payload, known...); err != nil {
					return fmt.Errorf("payload: %w", err)
				}
				if err := receipt.Attach(c.Receipt, j.Update, &of.Update, known...); err != nil {
					return fmt.Errorf("prepared update: %w", err)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if err := train(&of); err != nil {
				return err
			}
			return j.timed(phase.Detach, func() error {
				update, err := receipt.Detach(of.Update, c.Nesting)
				if err == nil {
					err = update.CopyTo(j.Update)
				}
				if err != nil {
					return fmt.Errorf("update: %w", err)
				}
				return nil
			})
		}, nil
	}
}
