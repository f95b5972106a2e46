package bench

import (
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
