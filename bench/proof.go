package bench

import (
	"context"
	"fmt"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// A proof computes updates as they must arrive through a lossy codec.
type proof struct {
	update   *tensor.Package
	arrivals *trainer.Arrivals
}

// initModel writes the first model and, for a lossy codec, prepares the proofs.
func (s *blockRun) initModel() error {
	if err := s.cell.init(s.model, s.plan.Seed); err != nil {
		return err
	}
	if c := s.cell.Variant.Codec(); c.Lossy() {
		s.fold.Keep(s.model)
		s.proof = &proof{tensor.Alloc(s.config.Up), trainer.NewArrivals(c, s.config.Up)}
	}
	return nil
}

// proveSent returns a prover for a user's worker function, whose correct update is
// unknown. The worker reports the hashes of the model that it received in round n and of
// the update that it sent. They must be those of the published model and the collected
// update. Then see, if not nil, is called.
func (s *blockRun) proveSent(ctx context.Context, n int, see prover) prover {
	return func(c trainer.Client, update *tensor.Package) error {
		sent, err := s.session.Sent(ctx, n, c.ID)
		if err != nil {
			return err
		}
		if want := uint64(s.hashes[n-1]); sent.Model != want {
			return fmt.Errorf("downlink: the hash of the model is %016x at the worker, but %016x at the server: %s delivered wrong data", sent.Model, want, s.cell.Variant)
		}
		if got := update.Hash(); got != sent.Update {
			return fmt.Errorf("uplink: the hash of the update is %016x at the server, but %016x at the worker: %s delivered wrong data", got, sent.Update, s.cell.Variant)
		}
		if see == nil {
			return nil
		}
		return see(c, update)
	}
}

// prove returns an error unless every element of an update is correct.
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
