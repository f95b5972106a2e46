package bench

import (
	"context"
	"fmt"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// A proof makes the updates that arrive through a codec that loses something.
type proof struct {
	update   *tensor.Package
	arrivals *trainer.Arrivals
}

// first writes the first model, and gets ready for what becomes of it on its way.
func (s *blockRun) first() error {
	if err := s.cell.init(s.model, s.plan.Seed); err != nil {
		return err
	}
	if c := s.cell.Variant.Codec(); c.Lossy() {
		s.fold.Keep(s.model)
		s.proof = &proof{tensor.Alloc(s.config.Up), trainer.NewArrivals(c, s.config.Up)}
	}
	return nil
}

// sent returns a proof of round n, and then of what see says, where the worker function is a
// user's: the worker says the hash of the model that it got, which must be that of the
// model that was published, and of the update that it sent, which must be that of the
// update that was collected. What the function should have computed nobody knows.
func (s *blockRun) sent(ctx context.Context, n int, see prover) prover {
	return func(c trainer.Client, update *tensor.Package) error {
		sent, err := s.session.Sent(ctx, n, c.ID)
		if err != nil {
			return err
		}
		if want := uint64(s.hashes[n-1]); sent.Model != want {
			return fmt.Errorf("the way down: the hash of the model is %016x at the worker, and %016x where it was published: %s delivered wrong data", sent.Model, want, s.cell.Variant)
		}
		if got := update.Hash(); got != sent.Update {
			return fmt.Errorf("the way up: the hash of the update is %016x at the server, and %016x where it was submitted: %s delivered wrong data", got, sent.Update, s.cell.Variant)
		}
		if see == nil {
			return nil
		}
		return see(c, update)
	}
}

// prove checks every element of an update.
func (s *blockRun) prove(update *tensor.Package, key tensor.Key) error {
	if s.proof == nil {
		return tensor.Prove(update, s.trained, key)
	}
	if err := tensor.Train(s.proof.update, s.trained, key); err != nil {
		return err
	}
	want, err := s.proof.arrivals.Of(s.proof.update, s.trained)
	if err != nil {
		return err
	}
	return tensor.Same(update, want)
}
