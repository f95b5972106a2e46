package batched

import "ipcbench/phase"

// A stopwatch times up to three phases between which a loop over a model's messages
// alternates. As there can be thousands of messages, it records a single sample per
// phase, the sum of all its laps.
type stopwatch struct {
	rec   *phase.Recorder
	start int64
	spent [3]struct {
		phase phase.Phase // None if unused
		first int64       // start of the first lap
		laps  int
		ns    int64 // sum of all laps
	}
}

func newStopwatch(rec *phase.Recorder) stopwatch {
	if rec == nil {
		return stopwatch{}
	}
	return stopwatch{rec: rec, start: phase.Now()}
}

// A lap is one stay in a phase.
type lap struct {
	t     *stopwatch
	phase phase.Phase
	start int64
	mark  phase.Span
}

func (t *stopwatch) begin(p phase.Phase) lap {
	if t.rec == nil {
		return lap{}
	}
	return lap{t: t, phase: p, start: phase.Now(), mark: t.rec.Mark(p)}
}

func (l lap) end() {
	if l.t == nil {
		return
	}
	l.mark.End()
	ns := phase.Now() - l.start
	for i := range l.t.spent {
		part := &l.t.spent[i]
		if part.phase == l.phase || part.phase == phase.None {
			if part.laps == 0 {
				part.phase, part.first = l.phase, l.start
			}
			part.laps++
			part.ns += ns
			return
		}
	}
	panic("batched: a stopwatch has more than three phases")
}

// record adds the samples to the recorder, as samples of id.
func (t *stopwatch) record(id phase.ID) {
	for _, part := range t.spent {
		switch {
		case part.laps == 1: // a single lap is an ordinary span
			t.rec.Add(part.phase, id, part.first, part.first+part.ns)
		case part.laps > 1:
			t.rec.AddSum(part.phase, id, t.start, part.ns)
		}
	}
}
