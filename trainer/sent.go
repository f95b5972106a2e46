package trainer

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// A user's worker function computes what nobody can foresee. So its worker tells what it
// got and what it sends, as hashes, over the control socket: whoever has published the one
// and collected the other compares them.

// Sent is what a worker says of one job: the hash of the model as it came, and of the
// update as it goes ([tensor.Package.Hash]).
type Sent struct{ Model, Update uint64 }

// job is one client's turn in one round.
type job struct{ round, client int }

// sentPatience is how long after an update what its worker says of it may come. It was
// said before.
const sentPatience = 10 * time.Second

// Sent waits for what the worker of a client says of its job in a round of no window that
// is measured. It is asked for each of them, once, after its update has come.
func (s *Session) Sent(ctx context.Context, round, client int) (Sent, error) {
	timer := time.NewTimer(sentPatience)
	defer timer.Stop()
	of := job{round, client}
	for {
		if sent, ok := s.told[of]; ok {
			delete(s.told, of)
			return sent, nil
		}
		select {
		case p := <-s.proofs:
			sent, err := p.sent()
			if _, twice := s.told[job{p.Round, p.Client}]; err != nil || twice || p.Round != round {
				return sent, fmt.Errorf("lane %d: %w: a proof of round %d, client %d", p.Lane, errProtocol, p.Round, p.Client)
			}
			s.told[job{p.Round, p.Client}] = sent
		case <-timer.C:
			return Sent{}, fmt.Errorf("its worker has not said within %v what it got and sent", sentPatience)
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

// hear keeps what w says of a job. It never waits.
func (s *Session) hear(w *sessionProcess, p *proof) error {
	if s.cfg.Foreign && w.hosts(p.Lane) {
		select {
		case s.proofs <- *p:
			return nil
		default:
		}
	}
	return fmt.Errorf("%w: a proof that nobody asked for", errProtocol)
}
