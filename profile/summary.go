package profile

import (
	"cmp"
	"slices"

	"ipcbench/phase"
)

// A Summary is what is shown of a profile. Values are nanoseconds or bytes.
type Summary struct {
	Delivered int64  `json:"delivered_bytes"` // as in Meta
	Unit      string `json:"unit"`            // s or B: what values are of, in ns or bytes
	Total     int64  `json:"total"`           // of all samples
	// Transport is the part of Total that lies in transport code, and Attributed
	// the part of that which has a phase.
	Transport  int64   `json:"transport_code"`
	Attributed int64   `json:"attributed"`
	Memmove    int64   `json:"memmove,omitempty"` // in copying memory
	Phases     []Split `json:"phases"`            // the heaviest first

	Functions []Function `json:"functions"` // of all phases, the heaviest first
}

// A Split is a phase's part of a profile.
type Split struct {
	Name      string     `json:"name"`
	Rest      bool       `json:"rest,omitempty"` // no phase: garbage collection and the like
	Flat      int64      `json:"flat"`           // in the phase itself
	Cum       int64      `json:"cum"`            // with what is inside of it
	Server    int64      `json:"server"`         // the server's part of Flat
	Functions []Function `json:"functions"`      // the heaviest first
}

// Title is the name, in parentheses if it is no phase.
func (s Split) Title() string {
	if s.Rest {
		return "(" + s.Name + ")"
	}
	return s.Name
}

// A Function is one function's part of a phase. The cost of a function of the
// runtime or the system stands under its name and that of its caller: "40 % in
// memmove" does not say what to change, "runtime.memmove in main.decode" does.
type Function struct {
	Name string `json:"name"`
	Flat int64  `json:"flat"` // in the function itself
	Cum  int64  `json:"cum"`  // with what it calls
}

// Summarize counts p by phase, with the n heaviest functions of each phase.
func Summarize(p *Profile, n int) *Summary {
	sum := &Summary{Delivered: p.Delivered, Unit: p.Unit()}
	splits := map[string]*Split{}
	all, functions := map[string]*Function{}, map[string]map[string]*Function{}
	at := func(name string, isPhase bool) *Split {
		s := splits[name]
		if s == nil {
			s = &Split{Name: name, Rest: !isPhase}
			splits[name], functions[name] = s, map[string]*Function{}
		}
		return s
	}
	for _, s := range p.Sample {
		v := p.value(s)
		if v <= 0 { // less is in use than before, or the delta of a counter that wrapped
			continue
		}
		name, isPhase := place(s)
		sum.Total += v
		if ofTransport(s) {
			sum.Transport += v
			if isPhase {
				sum.Attributed += v
			}
		}
		split := at(name, isPhase)
		split.Flat += v
		if s.HasLabel(phase.LabelProcess, phase.ServerProcess) {
			split.Server += v
		}
		for _, around := range phasesAround(s, name) {
			at(around, isPhase || around != name).Cum += v
		}
		if within(s, memmoves) {
			sum.Memmove += v
		}
		seen := map[string]bool{}
		for i, function := range functionsOf(s) {
			for _, in := range []map[string]*Function{all, functions[name]} {
				f := in[function]
				if f == nil {
					f = &Function{Name: function}
					in[function] = f
				}
				if i == 0 {
					f.Flat += v
				}
				if !seen[function] {
					f.Cum += v
				}
			}
			seen[function] = true
		}
	}
	for name, split := range splits {
		split.Functions = heaviest(functions[name], n)
		sum.Phases = append(sum.Phases, *split)
	}
	slices.SortFunc(sum.Phases, func(a, b Split) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	sum.Functions = heaviest(all, n)
	return sum
}

// heaviest returns n functions, the heaviest first.
func heaviest(all map[string]*Function, n int) []Function {
	functions := make([]Function, 0, len(all))
	for _, f := range all {
		functions = append(functions, *f)
	}
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	return slices.Clip(functions[:min(n, len(functions))])
}

// Share returns value's share of all.
func (s *Summary) Share(value int64) float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(value) / float64(s.Total)
}
