package profile

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// A Difference is what two profiles of one kind spend, per delivered GB.
type Difference struct {
	A, B      Meta
	Unit      string
	Total     Change
	Phases    []Change // all, the largest change first
	Functions []Change
}

// A Change is what one phase or function takes in both, in seconds or bytes per
// delivered GB.
type Change struct {
	Name string
	A, B float64
}

func (c Change) delta() float64 { return c.B - c.A }

// Compare compares a with b by phase and by function, itself. Both must know what
// they delivered.
func Compare(a, b *Profile) (*Difference, error) {
	if a.Kind != b.Kind {
		return nil, fmt.Errorf("a profile of kind %s cannot be compared with one of kind %s", a.Kind, b.Kind)
	}
	if a.Delivered <= 0 || b.Delivered <= 0 {
		return nil, errors.New("it is not known what was delivered: compare profiles that ipcbench run has written")
	}
	d := &Difference{A: a.Meta, B: b.Meta, Unit: a.Unit()}
	phases, functions := map[string]*Change{}, map[string]*Change{}
	add := func(p *Profile, side func(*Change) *float64) {
		sum := Summarize(p, 0)
		count := func(all map[string]*Change, name string, value int64) {
			c := all[name]
			if c == nil {
				c = &Change{Name: name}
				all[name] = c
			}
			per, _ := sum.PerGB(value)
			*side(c) += per
		}
		total := map[string]*Change{"": &d.Total}
		count(total, "", sum.Total)
		for _, s := range sum.Phases {
			count(phases, s.Title(), s.Flat)
			for _, f := range s.Functions {
				count(functions, f.Name, f.Flat)
			}
		}
	}
	add(a, func(c *Change) *float64 { return &c.A })
	add(b, func(c *Change) *float64 { return &c.B })
	d.Phases, d.Functions = sorted(phases), sorted(functions)
	return d, nil
}

// sorted returns the changes, the largest first, without those that are none.
func sorted(all map[string]*Change) []Change {
	var changes []Change
	for _, c := range all {
		if c.A != 0 || c.B != 0 {
			changes = append(changes, *c)
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(math.Abs(b.delta()), math.Abs(a.delta())), cmp.Compare(a.Name, b.Name))
	})
	return changes
}
