package doc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

// TestChart: numbers have the units of tables, and values that cannot be drawn are left
// out.
func TestChart(t *testing.T) {
	one := 1.0
	sweep := func(at ...float64) []Series {
		s := Series{Name: "http"}
		for _, x := range at {
			s.Points = append(s.Points, Point{At: x, Value: interval(x/1e9, x/2e9, x/0.5e9)})
		}
		return []Series{s}
	}
	text := ""
	for _, test := range []struct {
		name string
		plot Plot
	}{
		{"dots", Plot{Kind: Dots, Value: Axis{Name: "round", Unit: "s"}, Rule: &one, Series: []Series{
			{Name: "a\x1b", Points: []Point{{Name: "x", Value: interval(0.0123456, 0.012, 0.013), Text: "<b>"}}},
			{Name: "b", Dim: true, Points: []Point{{Name: "y", Value: stat.Interval{Center: 0.5}}, {Name: "x", Value: stat.Interval{Center: math.Inf(1)}}}},
		}}},
		{"curves", Plot{At: Axis{Name: "size", Unit: "B", Log: true}, Value: Axis{Name: "round", Unit: "s", Log: true}, Series: sweep(1e6, 4e6),
			Marks: []Mark{{At: 2e6, Value: 2e-3, Text: "they cross"}}}},
		{"units", Plot{At: Axis{Name: "size", Unit: "B", Log: true}, Value: Axis{Name: "round", Unit: "s"}, Series: sweep(1e3, 1e9)}},
		{"no place on a logarithmic axis", Plot{Kind: Dots, Value: Axis{Unit: "1", Log: true}, Series: []Series{{Points: []Point{{Value: stat.Interval{Center: -1}}, {Value: stat.Interval{Center: 5}}}}}}},
		{"change", Plot{Kind: Dots, Value: Axis{Name: "head against base", Unit: "%", Change: true}, Series: []Series{{Points: []Point{{Value: interval(0.228, -0.02, 0.27)}}}}}},
		{"bounds that nobody knows", Plot{Value: Axis{Unit: "1"}, Series: []Series{{Points: []Point{{At: 1, Value: interval(2, 1, 3)}, {At: 2, Value: stat.Interval{Center: 2, Low: 2, High: 2}}}}}}},
		{"steps", Plot{Steps: true, Series: []Series{{Name: "a", Points: []Point{{At: 1, Value: stat.Interval{Center: 2}}}}}}},
		{"samples", Plot{Apart: true, Value: Axis{Unit: "s"}, Series: []Series{{Name: "a", Points: []Point{{At: 1, Value: stat.Interval{Center: 2e-3}, Samples: []float64{1e-3, 2e-3}}}}}}},
	} {
		got := check.Value(json.Marshal(test.plot.chart()))(t)
		text += test.name + ": " + strings.ReplaceAll(string(got), `"series":`, "\n  \"series\":") + "\n"
	}
	doctest.Golden(t, "charts.txt", text)
}

// TestVendor: page/README.md names the vendored files with their checksums.
func TestVendor(t *testing.T) {
	says := check.Value(os.ReadFile("page/README.md"))(t)
	files, _ := filepath.Glob("page/vendor/*.js")
	for _, path := range files {
		data := check.Value(os.ReadFile(path))(t)
		sum := sha256.Sum256(data)
		check.That(t, strings.Contains(string(says), "`"+filepath.Base(path)+"`") && strings.Contains(string(says), hex.EncodeToString(sum[:])), "page/README.md does not say the sum %x of %s", sum, path)
	}
	check.That(t, len(files) == 2, "found %v", files)
}
