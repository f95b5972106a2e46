package doc

import "ipcbench/bench/stat"

// A Plot is a picture of numbers. Only [Document.HTML] draws plots: other formats have the
// tables and their bars.
type Plot struct {
	Caption string
	Kind    Kind
	At      Axis // of Point.At; for dots and bars, whose points have names, only its Name is used
	Value   Axis
	Series  []Series
	Steps   bool     // of curves: a value holds up to the next point, so there is no line between the two
	Apart   bool     // of curves: each series has its own panel and scale of values
	Rule    *float64 // value at which a line is drawn, such as 1 for a ratio; nil draws none
	Marks   []Mark   // of curves
	Notes   []string // paragraphs below it
}

// A Kind is how a plot shows its points.
type Kind int

// The kinds of plots.
const (
	Curves Kind = iota // a line through the points of each series
	Dots               // a row for each name, with a dot and its interval for each series
	Bars               // a row for each name, with a bar for each series, one behind the other
)

// An Axis describes the numbers along one side of a plot. Unit is the one in which they are
// kept, as in [Column].
type Axis struct {
	Name   string
	Unit   string
	Log    bool
	Change bool // numbers above 0 have a sign too
}

// A Series has the points of one colour. Series with one name have the same colour in all
// curves and dots of a document.
type Series struct {
	Name   string
	Points []Point // of curves: in ascending order of At
	Dim    bool    // in the background, for example a control
}

// A Point is a value and its position.
type Point struct {
	Name  string  // of dots and bars: name of the row
	At    float64 // of curves: position on that axis
	Value stat.Interval
	Text  string // additional text, shown when a reader points at it

	Samples []float64 // of curves with Apart: samples of which the value is the median, in order, or some of them
}

// A Mark is a position with a meaning, such as the crossing of two curves.
type Mark struct {
	At, Value float64
	Text      string
}
