package session

import (
	"context"
	"fmt"

	"ipcbench/tensor"
	"ipcbench/trainer"
)

// A proof computes updates as they must arrive through a lossy codec.
type proof struct {
	update   *tensor.Package // before the codec
	model    *tensor.Package // the same, if updates have the model's layout
	arrivals *trainer.Arrivals
}

// initModel writes the first model and, for a lossy codec, prepares the proofs.
func (s *Run) initModel() error {
	if err := s.Spec.init(s.model, s.Plan.Seed); err != nil {
		return err
	}
	if c := s.Spec.Variant.Codec(); c.Lossy() {
		s.fold.Keep(s.model)
		update := tensor.Alloc(s.config.Up)
		s.proof = &proof{update, update, trainer.NewArrivals(c, s.config.Up)}
		if s.config.Down != s.config.Up {
			s.proof.model = tensor.Alloc(s.config.Down)
		}
	}
	return nil
}

// publish publishes the model of round n. In a round that is proved, each value that a lossy
// codec has changed must keep the codec's bound.
func (s *Run) publish(ctx context.Context, n int, model *tensor.Package, proved bool) (err error) {
	if err := s.detach(n, model); err != nil {
		return err
	}
	proved = proved && s.proof != nil
	if proved {
		s.proof.model.CopyFrom(model)
	}
	if s.trained, err = s.session.Publish(ctx, n, model); err == nil && proved {
		if err = s.Spec.Variant.Codec().Verify(s.trained, s.proof.model); err != nil {
			err = fmt.Errorf("round %d: downlink: %w", n, err)
		}
	}
	return err
}

// proveSent returns a prover for a user's worker function, whose correct update is
// unknown. The worker reports the hashes of the model that it received in round n and of
// the update that it sent. They must be those of the published model and the collected
// update. Then see, if not nil, is called.
func (s *Run) proveSent(ctx context.Context, n int, see prover) prover {
	return func(c trainer.Client, update *tensor.Package) error {
		sent, err := s.session.Sent(ctx, n, c.ID)
		if err != nil {
			return err
		}
		if want := uint64(s.Hashes[n-1]); sent.Model != want {
			return fmt.Errorf("downlink: the hash of the model is %016x at the worker, but %016x at the server: "+
				"%s delivered wrong data", sent.Model, want, s.Spec.Variant)
		}
		if got := update.Hash(); got != sent.Update {
			return fmt.Errorf("uplink: the hash of the update is %016x at the server, but %016x at the worker: "+
				"%s has changed it after it had returned (does a thread of it still write?), or %s delivered wrong data",
				got, sent.Update, s.Spec.Train, s.Spec.Variant)
		}
		if see == nil {
			return nil
		}
		return see(c, update)
	}
}

// prove returns an error unless every element of an update is correct.
func (s *Run) prove(update *tensor.Package, key tensor.Key) error {
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
	if err := tensor.Same(update, want); err != nil {
		return err
	}
	return s.Spec.Variant.Codec().Verify(update, s.proof.update)
}
