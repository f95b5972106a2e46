package report

import (
	"fmt"
	"io"
	"strings"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// A chart is a bar for each transport. GitHub draws it from Mermaid's notation.
type chart struct {
	title, axis string
	names       []string
	values      []float64
}

func (c chart) empty() bool { return len(c.names) < 2 }

// write writes the chart as a fenced block. The name of the kind is that which
// all versions of Mermaid understand.
func (c chart) write(w io.Writer) error {
	var names, values []string
	top := 0 // the axis begins at 0 and ends with the longest bar: else bars are not in proportion
	for i, name := range c.names {
		names = append(names, label(name))
		values = append(values, fixed(c.values[i], decimals(c.values[i])))
		if c.values[i] > c.values[top] {
			top = i
		}
	}
	_, err := fmt.Fprintf(w, "```mermaid\nxychart-beta horizontal\n    title %s\n    x-axis [%s]\n    y-axis %s 0 --> %s\n    bar [%s]\n```\n",
		label(c.title), strings.Join(names, ", "), label(c.axis), values[top], strings.Join(values, ", "))
	return err
}

// label quotes a text for Mermaid, which knows no escapes inside quotes, and takes
// directives in braces from anywhere.
func label(text string) string {
	return `"` + strings.NewReplacer(`"`, "'", "`", "'", ";", ",", "#", "", "{", "(", "}", ")").Replace(doc.Visible(text)) + `"`
}

// roundChart shows the rounds of a group as multiples of the control's, which
// lie close enough together for a linear axis.
func roundChart(cells []*analysis.Cell) chart {
	g := cells[0].Group()
	c := chart{title: groupLabel(g), axis: "round, as a multiple of " + analysis.Control}
	for _, cell := range cells {
		if cell.Control == nil || cell.IsControl() {
			continue
		}
		c.names = append(c.names, cell.Variant)
		c.values = append(c.values, cell.Of("round").Center/cell.Control.Of("round").Center)
	}
	return c
}
