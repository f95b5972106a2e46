package trainer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// The updates of a user's worker function cannot be predicted. So its worker reports hashes
// of the model it received and the update it sends, over the control socket. The caller
// compares them with the model it published and the update it collected.

// Sent holds the hashes that a worker reports for one job ([tensor.Package.Hash]): of the
// model as received, and of the update as sent.
type Sent struct{ Model, Update uint64 }

// job is one client's turn in one round.
type job struct{ round, client int }

// sentPatience is how long [Session.Sent] waits for hashes, which a worker sends before its
// update.
const sentPatience = 10 * time.Second

// Sent waits up to 10 s for the hashes that a worker reports for one job of an unmeasured
// round. Call it once per job, after collecting the update. Invalid hashes, hashes of another
// round and a second report for one job are errors.
func (s *Session) Sent(ctx context.Context, round, client int) (Sent, error) {
	timer := time.NewTimer(sentPatience)
	defer timer.Stop()
	of := job{round, client}
	for {
		if sent, ok := s.reported[of]; ok {
			delete(s.reported, of)
			return sent, nil
		}
		select {
		case p := <-s.proofs:
			sent, err := p.sent()
			if _, twice := s.reported[job{p.Round, p.Client}]; err != nil || twice || p.Round != round {
				return sent, fmt.Errorf("lane %d: %w: a proof of round %d, client %d", p.Lane, errProtocol, p.Round, p.Client)
			}
			s.reported[job{p.Round, p.Client}] = sent
		case <-timer.C:
			return Sent{}, fmt.Errorf("its worker has not reported the hashes of its model and update within %v", sentPatience)
		case <-s.failed.Done():
			return Sent{}, context.Cause(s.failed)
		case <-ctx.Done():
			return Sent{}, context.Cause(ctx)
		}
	}
}

func (p proof) sent() (s Sent, err error) {
	if s.Model, err = strconv.ParseUint(p.Model, 16, 64); err == nil {
		s.Update, err = strconv.ParseUint(p.Update, 16, 64)
	}
	return s, err
}

// keepProof stores the hashes that w reports for a job. It never waits, and fails if they are
// not expected.
func (s *Session) keepProof(w *sessionProcess, p *proof) error {
	if s.cfg.UserCode && w.hosts(p.Lane) {
		select {
		case s.proofs <- *p:
			return nil
		default:
		}
	}
	return fmt.Errorf("%w: unrequested proof", errProtocol)
}
