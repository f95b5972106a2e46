package batched

import "ipcbench/phase"

// A tally times the phases between which the loop over a model's messages goes
// back and forth. There can be thousands of messages, so it records one sample of
// each phase, as long as all its laps together, one sample after the other from
// the start of the loop: the loop does nothing else.
type tally struct {
	rec   *phase.Recorder
	start int64
	spent [3]struct {
		phase phase.Phase // None: not used
		ns    int64
	}
}

func newTally(rec *phase.Recorder) tally {
	if rec == nil {
		return tally{}
	}
	return tally{rec: rec, start: phase.Now()}
}

// A lap is one stay in a phase.
type lap struct {
	t     *tally
	phase phase.Phase
	start int64
	mark  phase.Span
}

func (t *tally) begin(p phase.Phase) lap {
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
			part.phase = l.phase
			part.ns += ns
			return
		}
	}
	panic("batched: a loop of more than three phases")
}

// record adds the samples. They are id's.
func (t *tally) record(id phase.ID) {
	at := t.start
	for _, part := range t.spent {
		if part.phase != phase.None {
			t.rec.Add(phase.Sample{
				Start: at, End: at + part.ns, Phase: part.phase,
				Lane: int16(id.Lane), Round: int32(id.Round), Client: int32(id.Client),
			})
			at += part.ns
		}
	}
}
