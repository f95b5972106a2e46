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
	Config        []byte // the client's own
	Device        string
	Payload       P // the value that was published; its tensors are the global model, read-only

	// Update is what the client sends back. At first it is the one that
	// PrepareValues was given, with undefined numbers in its tensors: the memory that was
	// prepared for this client. A worker writes into it; a tensor that it replaces by one of
	// the same type and shape is copied.
	Update U

	stopped func() bool
}

// Stopped reports whether clients were asked to stop. A long worker function
// looks at it once an epoch and then returns what it has.
func (j *ValueJob[P, U]) Stopped() bool { return j.stopped() }

// valuesConfig is what a worker function on values needs to know.
type valuesConfig struct {
	Nesting int
	Receipt []byte // of the prepared update
}

// PrepareValues returns the configuration of a worker function that [Values] made, for
// updates of the kind of this one, with tensors down to that depth; and the update taken
// apart.
func PrepareValues(update any, nesting int) (config []byte, prototype *receipt.Detached, err error) {
	if prototype, err = receipt.Detach(update, nesting); err != nil {
		return nil, nil, fmt.Errorf("update: %w", err)
	}
	config, err = json.Marshal(valuesConfig{Nesting: nesting, Receipt: prototype.Receipt})
	return config, prototype, err
}

// Values makes a worker function of one that works on Go values: payloads of
// type P and updates of type U. Interfaces in them may hold the types that
// [receipt.Attach] names, and those of the values in known. What it takes to put them
// together and apart is recorded, inside of [phase.Train].
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
