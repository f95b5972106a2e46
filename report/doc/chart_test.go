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
)

// TestChart: numbers are in the units of tables, and what nobody sees is left out.
func TestChart(t *testing.T) {
	one := 1.0
	sweep := func(at ...float64) []Series {
		s := Series{Name: "http"}
		for _, x := range at {
			s.Points = append(s.Points, Point{At: x, Value: interval(x/1e9, x/2e9, x/0.5e9)})
		}
		return []Series{s}
	}
	for _, test := range []struct {
		name string
		plot Plot
		want string
	}{
		{"dots", Plot{Kind: Dots, Value: Axis{Name: "round", Unit: "s"}, Rule: &one, Series: []Series{
			{Name: "a\x1b", Points: []Point{{Name: "x", Value: interval(0.0123456, 0.012, 0.013), Text: "<b>"}}},
			{Name: "b", Dim: true, Points: []Point{{Name: "y", Value: stat.Interval{Center: 0.5}}, {Name: "x", Value: stat.Interval{Center: math.Inf(1)}}}},
		}}, `{"kind":"dots","at":{"name":""},"value":{"name":"round","unit":"ms"},"rule":1000,"rows":["x","y"],"series":[
			{"name":"a\\x1b","row":[0],"value":[12.35],"low":[12],"high":[13],"says":["12.3 ms (12.0 to 13.0)"],"text":["\u003cb\u003e"]},
			{"name":"b","dim":true,"row":[1,0],"value":[500,null],"says":["500 ms","+Inf ms"]}]}`},
		{"curves", Plot{At: Axis{Name: "size", Unit: "B", Log: true}, Value: Axis{Name: "round", Unit: "s", Log: true}, Series: sweep(1e6, 4e6),
			Marks: []Mark{{At: 2e6, Value: 2e-3, Text: "they cross"}},
		}, `{"kind":"curves","at":{"name":"size","unit":"MB","log":true},"value":{"name":"round","unit":"ms","log":true},"series":[
			{"name":"http","at":[1,4],"value":[1,4],"low":[0.5,2],"high":[2,8],"says":["1.00 ms (0.500 to 2.00)","4.00 ms (2.00 to 8.00)"]}],
			"marks":[{"at":2,"value":2,"text":"they cross"}]}`},
		{"units", Plot{At: Axis{Name: "size", Unit: "B", Log: true}, Value: Axis{Name: "round", Unit: "s"}, Series: sweep(1e3, 1e9)},
			`{"kind":"curves","at":{"name":"size","units":[{"name":"GB","per":1000000000},{"name":"MB","per":1000000},{"name":"kB","per":1000},{"name":"B","per":1}],"log":true},
			"value":{"name":"round","unit":"ms"},"series":[{"name":"http","at":[1000,1e+09],"value":[0.001,1000],"low":[0.0005,500],"high":[0.002,2000],
			"says":["0.00100 ms (0.000500 to 0.00200)","1000 ms (500 to 2000)"]}]}`},
		{"no place on a logarithmic axis", Plot{Kind: Dots, Value: Axis{Unit: "1", Log: true}, Series: []Series{{Points: []Point{{Value: stat.Interval{Center: -1}}, {Value: stat.Interval{Center: 5}}}}}},
			`{"kind":"dots","at":{"name":""},"value":{"name":""},"rows":[""],"series":[{"name":"","row":[0,0],"value":[-1,5],"says":["−1.00","5.00"]}]}`},
		{"change", Plot{Kind: Dots, Value: Axis{Name: "head against base", Unit: "%", Change: true}, Series: []Series{{Points: []Point{{Value: interval(0.228, -0.02, 0.27)}}}}},
			`{"kind":"dots","at":{"name":""},"value":{"name":"head against base","unit":"%","change":true},"rows":[""],"series":[{"name":"","row":[0],"value":[22.8],"low":[-2],"high":[27],"says":["+23 % (−2.0 to +27)"]}]}`},
		{"bounds that nobody knows", Plot{Value: Axis{Unit: "1"}, Series: []Series{{Points: []Point{{At: 1, Value: interval(2, 1, 3)}, {At: 2, Value: stat.Interval{Center: 2, Low: 2, High: 2}}}}}},
			`{"kind":"curves","at":{"name":""},"value":{"name":""},"series":[{"name":"","at":[1,2],"value":[2,2],"low":[1,null],"high":[3,null],"says":["2.00 (1.00 to 3.00)","2.00"]}]}`},
		{"steps", Plot{Steps: true, Series: []Series{{Name: "a", Points: []Point{{At: 1, Value: stat.Interval{Center: 2}}}}}},
			`{"kind":"curves","steps":true,"at":{"name":""},"value":{"name":""},"series":[{"name":"a","at":[1],"value":[2]}]}`},
		{"samples", Plot{Apart: true, Value: Axis{Unit: "s"}, Series: []Series{{Name: "a", Points: []Point{{At: 1, Value: stat.Interval{Center: 2e-3}, Samples: []float64{1e-3, 2e-3}}}}}},
			`{"kind":"curves","apart":true,"at":{"name":""},"value":{"name":"","unit":"ms"},"series":[{"name":"a","at":[1],"value":[2],"samples":[[1,2]]}]}`},
	} {
		got, err := json.Marshal(test.plot.chart())
		check.Must(t, err)
		want := strings.NewReplacer("\n", "", "\t", "").Replace(test.want)
		check.That(t, string(got) == want, "%s: got\n%s, want\n%s", test.name, got, want)
	}
}

// TestVendor: what page/README.md says of the library is so.
func TestVendor(t *testing.T) {
	says, err := os.ReadFile("page/README.md")
	check.Must(t, err)
	files, _ := filepath.Glob("page/vendor/*.js")
	for _, path := range files {
		data, err := os.ReadFile(path)
		check.Must(t, err)
		sum := sha256.Sum256(data)
		check.That(t, strings.Contains(string(says), "`"+filepath.Base(path)+"`") && strings.Contains(string(says), hex.EncodeToString(sum[:])), "page/README.md does not say the sum %x of %s", sum, path)
	}
	check.That(t, len(files) == 2, "found %v", files)
}
