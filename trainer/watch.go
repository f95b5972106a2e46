package trainer

import (
	"fmt"
	"slices"
	"time"

	"ipcbench/phase"
)

// A process that is stopped, or stuck, keeps its sockets: no transport notices,
// and a round with it would never end. So while somebody waits for workers, a
// goroutine looks now and then whether anything moves: jobs, spans, counted bytes.
// Only a process that has been silent for a quarter of the limit is asked, so
// that nothing is sent while rounds take what rounds take. Time is counted in
// looks, not by the clock: a server that was stopped itself has not looked.

// What the session's user waits for.
const (
	waitNone int32 = iota
	waitStart
	waitPing
	waitMark
	waitRound
)

// The limit, unless Config says another one.
const (
	leastLimit   = 60 * time.Second
	slowestTimes = 100 // of the slowest round so far, if that is more
)

// looks are how many make the limit.
const looks = 16

// A step is what a lane does.
type step int32

const (
	connecting step = iota
	receiving
	training
	submitting
)

var steps = [...]string{"connecting", "receiving", "training", "submitting"}

func (s step) String() string { return steps[s] }

func (s step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *step) UnmarshalText(name []byte) error {
	i := slices.Index(steps[:], string(name))
	if i < 0 {
		return fmt.Errorf("no step %.20q", name)
	}
	*s = step(i)
	return nil
}

// progress reports whether anything has moved since the news before. A worker
// function may take as long as it likes, but for a foreign one.
func (n *news) progress(before *news, foreign bool) bool {
	if before == nil || n.Moves != before.Moves || !slices.Equal(n.Lanes, before.Lanes) {
		return true
	}
	for _, l := range n.Lanes {
		if l.Doing == training && !foreign {
			return true
		}
	}
	return false
}

// of returns how lane n was last seen.
func (n *news) of(lane int) string {
	if n != nil {
		for _, l := range n.Lanes {
			if l.Lane == lane && l.Round >= 0 {
				return fmt.Sprintf("; last seen %v in round %d, client %d", l.Doing, l.Round, l.Client)
			} else if l.Lane == lane {
				return fmt.Sprintf("; last seen %v", l.Doing)
			}
		}
	}
	return ""
}

// pulse is what the watch knows of a process, or of the whole session.
type pulse struct {
	last  int64
	quiet int // looks since last has changed
}

// feel looks again, and reports whether there was a beat.
func (p *pulse) feel(now int64) bool {
	if p.quiet++; now != p.last {
		p.last, p.quiet = now, 0
	}
	return p.quiet == 0
}

// watch ends the session when nothing moves. It runs from when all processes
// are started until Close.
func (s *Session) watch() {
	defer close(s.watched)
	tick := s.limit / looks
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var session, server pulse
	procs := make([]pulse, len(s.procs))
	for {
		select {
		case <-s.unwatch:
			return
		case <-s.failed.Done():
			return
		case <-ticker.C:
		}
		most := looks
		if s.cfg.RoundLimit == 0 {
			most = max(most, int(slowestTimes*time.Duration(s.slowest.Load())/tick))
		}
		waits := s.waits.Load()
		if waits == waitNone {
			session.quiet = 0
			for i := range procs {
				procs[i].quiet = 0
			}
			continue
		}
		var moved int64
		for i, w := range s.procs {
			jobs, owes, signs, answers := w.signs()
			moved += jobs + signs
			if procs[i].feel(jobs + answers); !owes {
				procs[i].quiet = 0
			}
			switch quiet := procs[i].quiet; {
			case quiet >= most-1: // it was poked long ago
				s.fail(w.stuck("has not answered", time.Duration(quiet+1)*tick))
			case quiet >= most/4 && w.ask("news"):
				s.readers.Go(func() { _ = w.control.send(message{Poke: &poke{}}) }) // a full socket is silence too
			}
		}
		if !session.feel(moved) && (server.feel(moves(s.rec)) || s.busy.Load() || waits == waitStart) { // a start has a limit of its own
			session.quiet = 0
		}
		if session.quiet >= most-1 {
			s.fail(s.still(time.Duration(session.quiet+1) * tick))
		}
	}
}

// moves counts what a process has done.
func moves(rec *phase.Recorder) int64 {
	sum := int64(rec.Len())
	for _, n := range rec.Counts() {
		sum += n
	}
	return sum
}

// signs returns how many jobs w was given, whether anybody waits for it, and how
// many signs of progress and of life it gave.
func (w *sessionProcess) signs() (jobs int64, owes bool, progress, life int64) {
	for _, l := range w.lanes {
		jobs += l.jobs.Load()
		owes = owes || l.client.Load() >= 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := range w.owed {
		owes = owes || kind != "news"
	}
	return jobs, owes, w.moved, w.heard
}

// stuck says what is known of a process that does not go on.
func (w *sessionProcess) stuck(what string, d time.Duration) *processError {
	w.mu.Lock()
	news := w.news
	w.mu.Unlock()
	l, job := w.lanes[0], "has no job"
	for _, with := range w.lanes {
		if with.client.Load() < 0 {
			continue
		}
		l, job = with, "was not given its job yet"
		if l.given.Load() {
			job = "was given its job"
		}
		break
	}
	return w.failure(l.n, fmt.Errorf("%s for %v (see --round-limit): lane %d %s%s; %s",
		what, d.Round(time.Millisecond), l.n, job, news.of(l.n), w.Place().state()))
}

// still says who keeps the session from going on, if nothing moves at all.
func (s *Session) still(d time.Duration) error {
	for _, w := range s.procs {
		if _, owes, _, _ := w.signs(); owes {
			what := "has moved no byte and ended no span"
			if s.cfg.Foreign {
				what += ", and " + s.cfg.Func + " has not returned,"
			}
			return w.stuck(what, d)
		}
	}
	return fmt.Errorf("no lane has a job, and nothing has moved for %v: updates were not released", d.Round(time.Millisecond))
}
