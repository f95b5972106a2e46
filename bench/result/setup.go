// Package result has the types of a result file, in which a run keeps all that it measured.
package result

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"ipcbench/internal/link"
	"ipcbench/tensor"
)

// A Setup is what a cell does differently from the usual cell, besides the settings of its
// transport. A key that is absent says that it does as usual.
//
// The zero Setup is the usual cell. Setups are compared by == and may be keys of maps.
//
// A new dimension is a field here, a row of [Dims], a flag, and its behaviour.
type Setup struct {
	// the share of words that a round changes, such as `2%`, or `2%/rows`; absent if it
	// changes all
	Change tensor.Change `json:"change,omitzero"`
	// what the words hold at first: `normal`, or `uniform` in spite of a file; absent if they
	// are those of the model's file or, without one, uniform
	Values string `json:"values,omitempty" check:"|uniform|normal"`
	// `sync` if the server changes the model and workers only read it; absent in federated
	// averaging
	Scenario string `json:"scenario,omitempty" check:"|sync"`
	// rate and delay of the network, such as `100Mbit`; `unshaped` if it had none; absent if
	// there was no link
	Link link.Rate `json:"link,omitzero"`
	// what the workers are written in: `python`; absent if that is Go
	Language string `json:"language,omitempty" check:"|python"`
	// a user's own worker function, `MODULE:FUNCTION`; absent if it is ipcbench's
	Train string `json:"train,omitempty"`
	// CPU time that every training burns besides its work, in milliseconds, as `--train-ms`
	// has it; absent if none
	TrainMS int `json:"train_ms,omitempty" flag:"--train-ms" check:"0..3600000"`
	// every round started and ended its own worker processes
	Respawn bool `json:"respawn,omitempty"`
	// model and updates travelled as values with tensors nested in them
	Nested bool `json:"nested,omitempty"`
}

// InPython is the language of workers in Python.
const InPython = "python"

// A Use says where a dimension counts.
type Use uint

const (
	// Ranks: cells that differ in the dimension are ranked apart, in tables of their own.
	Ranks Use = 1 << iota
	// Chains: the reference chain, and so the work of a round, depends on the dimension.
	Chains
	// Binds: a control, and a floor of one model, belong to cells that agree in the dimension.
	Binds
)

// A Dim is one dimension of a Setup.
type Dim struct {
	Key   string // in flags, filters, names and columns
	Usual string // value of the usual cell
	Words string // heading of other cells; %s is the value
	Else  string // heading of the usual cell among others; by default Words with the usual value
	Use   Use
	at    func(*Setup) any // pointer to the field
}

// Dims has all dimensions, in the order of names, headings and columns.
var Dims = []Dim{
	{"change", "100%", "change %s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Change }},
	{"values", "as the model", "values %s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Values }},
	{"scenario", "fedavg", "%s", "", Ranks | Chains | Binds, func(s *Setup) any { return &s.Scenario }},
	{"link", "none", "link %s", "no link", Ranks, func(s *Setup) any { return &s.Link }},
	{"language", "go", "workers in Python", "workers in Go", 0, func(s *Setup) any { return &s.Language }},
	{"train", "ours", "training by %s", "", Ranks, func(s *Setup) any { return &s.Train }},
	{"train-ms", "0", "%s ms of training", "", Ranks | Binds, func(s *Setup) any { return &s.TrainMS }},
	{"respawn", "off", "fresh workers for each round", "workers that stay", Ranks, func(s *Setup) any { return &s.Respawn }},
	{"nested", "off", "nested values", "flat values", Ranks | Binds, func(s *Setup) any { return &s.Nested }},
}

func (d Dim) field(s *Setup) reflect.Value { return reflect.ValueOf(d.at(s)).Elem() }

// Of returns the value in s as users write it, or nothing if it is the usual one.
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

// Heading says in words what s does in this dimension.
func (d Dim) Heading(s Setup) string {
	if d.Of(s) == "" && d.Else != "" {
		return d.Else
	}
	return strings.Replace(d.Words, "%s", cmp.Or(d.Of(s), d.Usual), 1)
}

// Only returns s with the usual value in each dimension that lacks the use.
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

// Headings says in words what s does differently from the usual cell.
func (s Setup) Headings() (all []string) {
	for _, d := range s.Unusual() {
		all = append(all, d.Heading(s))
	}
	return all
}

// A Workload is a work as results name it, with how long its training takes: cells of the
// same workload are compared with each other.
type Workload struct {
	Model Model
	Setup // dimensions that bind
}

// Workload returns the cell's.
func (c Cell) Workload() Workload { return Workload{c.Model, c.Only(Binds)} }

// Floor returns f as one that bounds only the cells of the workload.
func (w Workload) Floor(f Floor) *Floor {
	f.Model, f.Up, f.Setup = w.Model.Name, w.Model.Up, w.Setup
	return &f
}

// Of reports whether a floor bounds only cells that do the work of c.
func (f *Floor) Of(c *Cell) bool {
	return f.Model == c.Model.Name && f.Up == c.Model.Up && f.Only(Binds) == c.Only(Binds)
}
