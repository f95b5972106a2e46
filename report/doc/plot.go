package doc

import "ipcbench/bench/stat"

// A Plot is a picture of numbers. Only [Document.HTML] draws plots: the other formats
// leave them to tables and their bars.
type Plot struct {
	Caption string
	Kind    Kind
	At      Axis // of the points' At; of dots and bars, whose points have names, only its Name counts
	Value   Axis
	Series  []Series
	Steps   bool     // of curves: a value holds up to the next point, so that no line leads there
	Apart   bool     // of curves: each series has a panel, and a scale of values, of its own
	Rule    *float64 // a value that a line is drawn at, such as 1 for a ratio
	Marks   []Mark   // of curves
	Notes   []string // paragraphs below it
}

// A Kind is how a plot shows its points.
type Kind int

// The kinds of plots.
const (
	Curves Kind = iota // a line through the points of each series
	Dots               // a row for each name; in it a dot with its interval for each series
	Bars               // a row for each name; in it a bar for each series, one behind the other
)

// An Axis has the unit that its numbers are kept in, as a [Column] has.
type Axis struct {
	Name   string
	Unit   string
	Log    bool
	Change bool // numbers above 0 have a sign, too
}

// A Series is the points of one colour: the same one in all curves and dots of a
// document that have its name.
type Series struct {
	Name   string
	Points []Point // of curves: in ascending order of At
	Dim    bool    // in the background, as a control is
}

// A Point is a value and where it stands.
type Point struct {
	Name  string  // of dots and bars: the row
	At    float64 // of curves
	Value stat.Interval
	Text  string // what is said besides when somebody points at it

	Samples []float64 // of curves that are apart: what the value is the median of, in order, or some of it
}

// A Mark is a place between curves that has a meaning, such as where two cross.
type Mark struct {
	At, Value float64
	Text      string
}
