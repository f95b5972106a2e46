package profile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	pprof "github.com/google/pprof/profile"

	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
)

// A Part is the profile pieces of one process in one block.
type Part struct {
	Process string // as in phase.LabelProcess
	Pieces  []phase.Piece
}

// Merge merges all pieces of m's kind into one profile. Heap profiles are averaged over
// blocks, other kinds are summed. Traces cannot be merged.
func Merge(m Meta, parts []Part) (*Profile, error) {
	var all []*pprof.Profile
	for _, part := range parts {
		var last *pprof.Profile
		for _, piece := range part.Pieces {
			if piece.Kind != m.Kind {
				continue
			}
			p, err := parse(piece)
			if err != nil {
				return nil, fmt.Errorf("profile: %s of %s: %w", m.Kind, part.Process, err)
			}
			labels := map[string]string{phase.LabelTransport: m.Transport, phase.LabelModel: m.Model, phase.LabelProcess: part.Process,
				"workers": strconv.Itoa(m.Workers), "clients": strconv.Itoa(m.Clients)}
			maps.Copy(labels, m.Labels)
			tidy(p, labels)
			if m.Kind == capture.Heap { // memory in use is not a sum over time
				last = p
				continue
			}
			all = append(all, p)
		}
		if last != nil {
			last.Scale(1 / float64(max(1, m.Blocks)))
			all = append(all, last)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("profile: %s: no process has taken this kind of profile", m.Kind)
	}
	merged, err := pprof.Merge(all)
	if err != nil {
		return nil, fmt.Errorf("profile: merge %s: %w", m.Kind, err)
	}
	p, err := of(m, merged)
	if err != nil {
		return nil, fmt.Errorf("profile: %s: %w", m.Kind, err)
	}
	return p, nil
}

// parse returns the profile of the time between the start and stop of a piece.
func parse(piece phase.Piece) (*pprof.Profile, error) {
	after, err := pprof.ParseData(piece.Data)
	if err != nil || piece.Before == nil {
		return after, err
	}
	before, err := pprof.ParseData(piece.Before)
	if err != nil {
		return nil, err
	}
	before.Scale(-1)
	return pprof.Merge([]*pprof.Profile{after, before})
}

// tidy removes samples that belong to no round. It labels each sample with its phase, and
// with names unless it has its own. It removes all other labels.
func tidy(p *pprof.Profile, names map[string]string) {
	sampled := len(p.SampleType) > 0 && p.SampleType[0].Type == "samples" // only CPU samples have labels
	p.Sample = slices.DeleteFunc(p.Sample, func(s *pprof.Sample) bool {
		return s.HasLabel(phase.LabelWindow, phase.OutsideRound) || !sampled && within(stackOf(s), betweenRounds)
	})
	for _, s := range p.Sample {
		labels := map[string][]string{}
		for key, value := range names {
			labels[key] = []string{value}
		}
		for _, key := range []string{phase.LabelTransport, phase.LabelModel, phase.LabelProcess} {
			if own := s.Label[key]; len(own) > 0 {
				labels[key] = own
			}
		}
		if name := phaseOf(s); name != "" {
			labels[phase.LabelPhase] = []string{name}
		}
		s.Label = labels
	}
}
