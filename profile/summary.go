package profile

import (
	"cmp"
	"maps"
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
	splits, all, functions := map[string]*Split{}, counts{}, map[string]counts{}
	at := func(name string, isPhase bool) *Split {
		if splits[name] == nil {
			splits[name], functions[name] = &Split{Name: name, Rest: !isPhase}, counts{}
		}
		return splits[name]
	}
	for _, s := range p.Sample {
		v := p.value(s)
		if v <= 0 { // less is in use than before, or the delta of a counter that wrapped
			continue
		}
		stack := stackOf(s)
		name, isPhase := place(s, stack)
		sum.Total += v
		if within(stack, transportCode) {
			sum.Transport += v
			if isPhase {
				sum.Attributed += v
			}
		}
		if within(stack, []string{"runtime.memmove"}) {
			sum.Memmove += v
		}
		split := at(name, isPhase)
		split.Flat += v
		split.Cum += v
		if s.HasLabel(phase.LabelProcess, phase.ServerProcess) {
			split.Server += v
		}
		if call := callOf(stack); call != phase.None && call.String() != name {
			at(call.String(), true).Cum += v
		}
		all.add(stack, v)
		functions[name].add(stack, v)
	}
	for name, split := range splits {
		split.Functions = functions[name].heaviest(n)
		sum.Phases = append(sum.Phases, *split)
	}
	slices.SortFunc(sum.Phases, func(a, b Split) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	sum.Functions = all.heaviest(n)
	return sum
}

// counts are functions by name.
type counts map[string]Function

// add counts a sample of value v.
func (c counts) add(stack []string, v int64) {
	names := functionsOf(stack)
	for i, name := range names {
		f := c[name]
		f.Name = name
		if i == 0 {
			f.Flat += v
		}
		if !slices.Contains(names[:i], name) {
			f.Cum += v
		}
		c[name] = f
	}
}

// heaviest returns n functions, the heaviest first.
func (c counts) heaviest(n int) []Function {
	functions := slices.AppendSeq(make([]Function, 0, len(c)), maps.Values(c)) // never nil, which would be null in JSON
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
