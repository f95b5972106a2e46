package profile

import (
	"cmp"
	"maps"
	"slices"

	"ipcbench/bench/result"
	"ipcbench/phase"
)

// Summarize sums p by phase, with the n heaviest functions of each phase and of all.
func Summarize(p *Profile, n int) *result.Summary {
	sum := &result.Summary{Delivered: p.Delivered, Unit: p.Unit()}
	splits, all, functions := map[string]*result.Split{}, counts{}, map[string]counts{}
	at := func(name string, isPhase bool) *result.Split {
		if splits[name] == nil {
			splits[name], functions[name] = &result.Split{Name: name, Rest: !isPhase}, counts{}
		}
		return splits[name]
	}
	for _, s := range p.Sample {
		v := p.value(s)
		if v <= 0 { // less memory in use than before, or the delta of a counter that wrapped
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
	slices.SortFunc(sum.Phases, func(a, b result.Split) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	sum.Functions = all.heaviest(n)
	return sum
}

// counts maps names to functions.
type counts map[string]result.Function

// add adds a sample of value v.
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

// heaviest returns the n functions with the largest flat values, sorted.
func (c counts) heaviest(n int) []result.Function {
	functions := slices.AppendSeq(make([]result.Function, 0, len(c)), maps.Values(c)) // not nil, which would be null in JSON
	slices.SortFunc(functions, func(a, b result.Function) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cum, a.Cum), cmp.Compare(a.Name, b.Name))
	})
	return slices.Clip(functions[:min(n, len(functions))])
}
