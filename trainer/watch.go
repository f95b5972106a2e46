package trainer

import (
	"fmt"
	"slices"
	"time"

	"ipcbench/phase"
)

// A process that is stopped or stuck keeps its sockets open: no transport notices, and a
// round with it would never end. So while workers are awaited, a goroutine checks at
// intervals (it looks) whether anything progresses: jobs, spans, counted bytes. It asks a
// process for news only after a quarter of the limit without progress, so that normal rounds
// are not disturbed. Time is counted in looks instead of by the clock, because a server that
// was itself stopped has not looked.

// The reasons for which the session's caller waits for workers.
const (
	waitNone int32 = iota
	waitStart
	waitAnswer
)

// The limit if Config.RoundLimit is 0: the larger of these two.
const (
	leastLimit   = 60 * time.Second
	slowestTimes = 100 // the duration of the slowest round so far
)

// looks is the number of looks within leastLimit or Config.RoundLimit.
const looks = 16

// A step is the current activity of a lane.
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

// progress reports whether anything has moved since the news before, or a lane is training:
// worker functions may take any time, unless they are foreign.
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

// of describes the last known step of a lane.
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

// activity follows a counter of a process, or of the whole session.
type activity struct {
	last  int64
	quiet int // number of looks since last has changed
}

// look reports whether the counter, now at now, has changed since the last look.
func (a *activity) look(now int64) bool {
	if a.quiet++; now != a.last {
		a.last, a.quiet = now, 0
	}
	return a.quiet == 0
}

// watch fails the session when nothing progresses. It runs from the start of all processes
// until Close or a failure.
func (s *Session) watch() {
	defer close(s.watched)
	tick := s.limit / looks
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var session, server activity
	procs := make([]activity, len(s.procs))
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
			jobs, awaited, progress, messages := w.status()
			moved += jobs + progress
			if procs[i].look(jobs + messages); !awaited {
				procs[i].quiet = 0
			}
			switch quiet := procs[i].quiet; {
			case quiet >= most-1: // it was asked long ago
				s.fail(w.stuck("has not answered", time.Duration(quiet+1)*tick))
			case quiet >= most/4 && w.ask("news"):
				s.readers.Go(func() { _ = w.control.send(message{Poke: &poke{}}) }) // may block: a process that does not read counts as silent
			}
		}
		if !session.look(moved) && (server.look(moves(s.rec)) || s.busy.Load() || waits == waitStart) { // which has a limit of its own
			session.quiet = 0
		}
		if session.quiet >= most-1 {
			s.fail(s.stalled(time.Duration(session.quiet+1) * tick))
		}
	}
}

// moves returns the number of spans of a process plus the sum of its counters.
func moves(rec *phase.Recorder) int64 {
	sum := int64(rec.Len())
	for _, n := range rec.Counts() {
		sum += n
	}
	return sum
}

// status returns the number of jobs begun plus ended on w's lanes, whether a job or a message
// of w is awaited, and how many of its messages showed progress and came at all.
func (w *sessionProcess) status() (jobs int64, awaited bool, progress, messages int64) {
	for _, l := range w.lanes {
		jobs += l.jobs.Load()
		awaited = awaited || l.client.Load() >= 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for kind := range w.expected {
		awaited = awaited || kind != "news"
	}
	return jobs, awaited, w.progressed, w.received
}

// stuck returns the failure of a process without progress: its job, last step and state.
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

// stalled returns the error for a session in which nothing progresses. It names a process
// that is awaited, if there is one.
func (s *Session) stalled(d time.Duration) error {
	for _, w := range s.procs {
		if _, awaited, _, _ := w.status(); awaited {
			what := "has made no progress (no byte moved, no span ended)"
			if s.cfg.UserCode {
				what += " and " + s.cfg.Func + " has not returned"
			}
			return w.stuck(what, d)
		}
	}
	return fmt.Errorf("nothing has moved for %v, but no lane has a job: updates were not released", d.Round(time.Millisecond))
}
