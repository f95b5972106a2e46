package trainer

import (
	"encoding/json"
	"fmt"

	"ipcbench/receipt"
)

// A Turn is one client's turn for a worker function on Go values.
type Turn[P, U any] struct {
	Round, Client int
	Config        []byte // the client's own
	Device        string
	Payload       P // what Process was given; its tensors are the global model, read-only

	// Update is what the client sends back. At first it is the
	// ClientTrainer's, with undefined numbers in its tensors: the memory that was
	// prepared for this client. A worker writes into it; a tensor that it replaces by one of
	// the same type and shape is copied.
	Update U

	stopped func() bool
}

// Stopped reports whether the trainer was asked to stop. A long worker function
// looks at it once an epoch and then returns what it has.
func (t *Turn[P, U]) Stopped() bool { return t.stopped() }

// valuesConfig is what a worker function on values needs to know.
type valuesConfig struct {
	Nesting int
	Receipt []byte // of the ClientTrainer's Update
}

// Values makes a worker function of one that works on Go values: payloads of
// type P and updates of type U. Interfaces in them may hold the types that
// [receipt.Attach] names, and those of the values in known.
func Values[P, U any](train func(t *Turn[P, U]) error, known ...any) Func {
	return func(config []byte) (Train, error) {
		var c valuesConfig
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		return func(call *Job) error {
			turn := Turn[P, U]{
				Round: call.Round, Client: call.Client, Config: call.Config, Device: call.Device, stopped: call.Stopped,
			}
			if err := receipt.Attach(call.Model.Receipt, call.Model, &turn.Payload, known...); err != nil {
				return fmt.Errorf("payload: %w", err)
			}
			if err := receipt.Attach(c.Receipt, call.Update, &turn.Update, known...); err != nil {
				return fmt.Errorf("prepared update: %w", err)
			}
			if err := train(&turn); err != nil {
				return err
			}
			update, err := receipt.Detach(turn.Update, c.Nesting)
			if err != nil {
				return fmt.Errorf("update: %w", err)
			}
			if err := update.CopyTo(call.Update); err != nil {
				return fmt.Errorf("update: %w", err)
			}
			return nil
		}, nil
	}
}
