// Package result defines, validates, reads and writes result files, which hold all data of a run.
package result

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ipcbench/internal/link"
	"ipcbench/tensor"
	"ipcbench/tensor/pages"
)

// A Setup holds a cell's differences from the usual cell, except the settings of its
// transport. An absent key has its usual value.
//
// The zero Setup is the usual cell. Setups are comparable and can be map keys.
//
// A new dimension needs a field here, a row in [Dims], a flag and an implementation.
type Setup struct {
	// share of elements that change in each round, such as `2%`, or `2%/rows` if whole rows
	// change; absent if all change
	Change tensor.Change `json:"change,omitzero"`
	// distribution of the initial values: `normal`, or `uniform` despite a model file; absent if
	// values come from the model's file or, without one, are uniform
	Values string `json:"values,omitempty" check:"|uniform|normal"`
	// `sync` if the server changes the model and workers only read it; absent for federated
	// averaging
	Scenario string `json:"scenario,omitempty" check:"|sync"`
	// rate and delay of the emulated network, such as `100Mbit`; `unshaped` if it has neither;
	// absent without one
	Link link.Rate `json:"link,omitzero"`
	// language of the workers: `python`; absent for Go
	Language string `json:"language,omitempty" check:"|python"`
	// user's worker function, as `MODULE:FUNCTION`; absent if ipcbench's was used
	Train string `json:"train,omitempty"`
	// additional CPU time of each training, from `--train-ms`; absent if 0
	TrainMS int `json:"train_ms,omitempty" flag:"--train-ms" check:"0..3600000"`
	// worker processes were started and ended in every round
	Respawn bool `json:"respawn,omitempty"`
	// model and updates were exchanged as values with nested tensors
	Nested bool `json:"nested,omitempty"`
	// pages of all memory that tensors were in: `small` or `huge`; absent if the machine's
	// configuration decided
	Pages pages.Size `json:"pages,omitempty" check:"|small|huge"`
}

// InPython is the value of Setup.Language for Python workers.
const InPython = "python"

// A Use is a set of purposes for which a dimension distinguishes cells.
type Use uint

const (
	// Ranks: cells that differ in the dimension are ranked in separate tables.
	Ranks Use = 1 << iota
	// Chains: the reference chain depends on the dimension, and so does the work of a round.
	Chains
	// Binds: a control, or a floor of one model, applies only to cells that agree in the
	// dimension.
	Binds
)

// A Dim is one dimension of a Setup.
type Dim struct {
	Key   string // name in flags, filters, cell IDs and columns
	Usual string // value of the usual cell, for users
	Words string // heading of other cells, with %s for the value
	Else  string // heading of the usual cell; empty means Words with the value Usual
	Use   Use
	at    func(*Setup) any // pointer to the field
}

// Dims lists all dimensions, in the order used in cell IDs, headings and columns.
var Dims = []Dim{
	{"change", "100%", "change %s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Change }},
	{"values", "as the model", "values %s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Values }},
	{"scenario", "fedavg", "%s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Scenario }},
	{"link", "none", "link %s", "no link", Ranks, func(s *Setup) any { return &s.Link }},
	{"language", "go", "workers in Python", "workers in Go", 0, func(s *Setup) any { return &s.Language }},
	{"train", "ours", "training by %s", "", Ranks, func(s *Setup) any { return &s.Train }},
	{"train-ms", "0", "%s ms of training", "", Ranks | Binds, func(s *Setup) any { return &s.TrainMS }},
	{"respawn", "off", "fresh workers for each round", "workers that stay", Ranks, func(s *Setup) any {
		return &s.Respawn
	}},
	{"nested", "off", "nested values", "flat values", Ranks | Binds, func(s *Setup) any { return &s.Nested }},
	{"pages", "system", "%s pages", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Pages }},
}

func (d Dim) field(s *Setup) reflect.Value { return reflect.ValueOf(d.at(s)).Elem() }

// Of returns the value in s, in the syntax of the flag, or "" for the usual value.
func (d Dim) Of(s Setup) string {
	v := d.field(&s)
	switch {
	case v.IsZero():
		return ""
	case v.Kind() == reflect.Bool:
		return "on"
	}
	return fmt.Sprint(v.Interface())
}

// Heading returns the heading for the value in s, such as "change 2%".
func (d Dim) Heading(s Setup) string {
	if d.Of(s) == "" && d.Else != "" {
		return d.Else
	}
	return strings.Replace(d.Words, "%s", cmp.Or(d.Of(s), d.Usual), 1)
}

// Only returns s with the usual value in each dimension that has none of the uses in u.
func (s Setup) Only(u Use) (t Setup) {
	for _, d := range Dims {
		if d.Use&u != 0 {
			d.field(&t).Set(d.field(&s))
		}
	}
	return t
}

// Unusual returns the dimensions in which s differs from the usual cell.
func (s Setup) Unusual() []Dim {
	return slices.DeleteFunc(slices.Clone(Dims), func(d Dim) bool { return d.Of(s) == "" })
}

// Headings returns the headings of the dimensions in which s differs from the usual cell.
func (s Setup) Headings() (all []string) {
	for _, d := range s.Unusual() {
		all = append(all, d.Heading(s))
	}
	return all
}

// A Workload is the model and all dimensions that bind. Controls and floors of a model apply only
// to cells of the same workload.
type Workload struct {
	Model Model
	Setup // only dimensions with the use Binds
}

// Workload returns the workload of the cell.
func (c Cell) Workload() Workload { return Workload{c.Model, c.Only(Binds)} }

// Floor returns a copy of f that bounds only the cells of the workload.
func (w Workload) Floor(f Floor) *Floor {
	f.Model, f.Up, f.Setup = w.Model.Name, w.Model.Up, w.Setup
	return &f
}

// Of reports whether f bounds cells of exactly c's workload.
func (f *Floor) Of(c *Cell) bool {
	return f.Model == c.Model.Name && f.Up == c.Model.Up && f.Only(Binds) == c.Only(Binds)
}
