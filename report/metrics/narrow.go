package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/result"
)

// An Axis is a dimension of cells, by which users select cells.
type Axis struct {
	Name  string
	Usual string // the value that sentences leave out; empty if there is none
	Words string // describes a cell; %s is replaced by the value
	Else  string // describes a cell with the usual value; if empty, Words does
	Of    func(c *Cell) string
}

// Axes returns all dimensions, in the order in which sentences name them.
func Axes() []Axis {
	all := []Axis{
		{"transport", "", "%s", "", func(c *Cell) string { return c.Variant }},
		{"codec", NoCodec, "%s", "no codec", (*Cell).Codec},
		{"model", "", "%s", "", func(c *Cell) string { return c.Model.Name }},
		{"up", "model", "updates %s", "updates like the model", func(c *Cell) string { return cmp.Or(c.Model.Up, "model") }},
		{"workers", "", "%s workers", "", func(c *Cell) string { return strconv.Itoa(c.Workers) }},
		{"clients", "", "%s clients", "", func(c *Cell) string { return strconv.Itoa(c.Clients) }},
		{"program", "", "build %s", "", func(c *Cell) string { return c.Build() }},
	}
	for _, d := range result.Dims {
		all = append(all, Axis{d.Key, d.Usual, d.Words, d.Else, func(c *Cell) string { return cmp.Or(d.Of(c.Setup), d.Usual) }})
	}
	return all
}

// Filters reports whether one of filters, as in [Result.Narrow], has that key.
func Filters(filters []string, key string) bool {
	return slices.ContainsFunc(filters, func(f string) bool { return strings.HasPrefix(f, key+"=") })
}

// Part returns the part of a result with the cells that pass all filters, as in [Result.Narrow], and with their controls.
// It has no questions, because they may be about other cells.
func Part(r *result.Result, filters []string) (*result.Result, error) {
	v := New(r)
	if err := v.Narrow(filters); err != nil {
		return nil, err
	}
	part := *r
	part.Questions, part.Cells = nil, nil
	for i := range r.Cells {
		if slices.ContainsFunc(v.Cells, func(c *Cell) bool {
			return c.Cell == &r.Cells[i] || c.Control != nil && c.Control.Cell == &r.Cells[i]
		}) {
			part.Cells = append(part.Cells, r.Cells[i])
		}
	}
	return &part, nil
}

// Narrow removes the cells that do not pass all filters. A filter is key=value[,value…] with
// the name of an axis as its key. The value of up is "model" for updates like the model. If a
// filter names a codec, the filter for transport may leave it out. Cells keep their Control, even
// if it is removed itself. It is an error if a filter is invalid, or if no cell is left.
func (r *Result) Narrow(filters []string) error {
	axes := Axes()
	for _, f := range filters {
		key, values, ok := strings.Cut(f, "=")
		i := slices.IndexFunc(axes, func(a Axis) bool { return a.Name == key })
		if !ok || i < 0 {
			var keys []string
			for _, a := range axes {
				keys = append(keys, a.Name+"=")
			}
			last := len(keys) - 1
			return fmt.Errorf("%q must be %s or %s", f, strings.Join(keys[:last], ", "), keys[last])
		}
		of := axes[i].Of
		if key == "transport" && Filters(filters, "codec") {
			of = (*Cell).Uncoded
		}
		wanted, there := strings.Split(values, ","), []string{}
		for _, same := range GroupBy(r.Cells, of) {
			there = append(there, of(same[0]))
		}
		r.kept = map[string]any{}
		r.Cells = slices.DeleteFunc(r.Cells, func(c *Cell) bool {
			return !slices.Contains(wanted, of(c)) && !slices.Contains(wanted, axes[i].Of(c))
		})
		if len(r.Cells) == 0 {
			return fmt.Errorf("%q leaves no cell: use one of %s", f, strings.Join(there, ", "))
		}
	}
	return nil
}
