package contrast_test

import (
	"slices"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
)

// TestWords: percent below 1.5 times and times from there on, less than 0.5 % for a slight effect, and a range if no
// difference is shown. Nothing is rounded before it is decided.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		metric            string
		low, center, high float64
		effect, possible  string
	}{
		{"round", 1.4, 1.4999, 1.6, "takes 50 % longer (95 % interval 40 to 60 %)", "is from 40 % longer to 1.60 times as long"},
		{"round", 1.4, 1.5, 1.6, "takes 1.50 times as long (95 % interval 1.40 to 1.60)", "is from 40 % longer to 1.60 times as long"},
		{"round", 1.001, 1.0049, 1.009, "takes less than 0.5 % longer (95 % interval 0.10 to 0.90 %)", "is from 0.10 % longer to 0.90 % longer"},
		{"round", 1.001, 1.0051, 1.009, "takes 0.51 % longer (95 % interval 0.10 to 0.90 %)", "is from 0.10 % longer to 0.90 % longer"},
		{"round", 0.9, 0.95, 1.02, "is 5.0 % shorter (95 % interval −2.0 to 10 %)", "is from 10 % shorter to 2.0 % longer"},
		{"round", 0.4, 0.5, 0.6, "is 2.00 times as fast (95 % interval 1.67 to 2.50)", "is from 60 % shorter to 40 % shorter"},
		{"cpu_per_round", 0.4, 0.5, 0.6, "is 50 % lower (95 % interval 40 to 60 %)", "is from 60 % lower to 40 % lower"},
		{"rpcs", 1.9, 2, 2.1, "are 2.00 times as many (95 % interval 1.90 to 2.10)", "are from 1.90 times as many to 2.10 times as many"},
	} {
		m, _ := metrics.MetricNamed(tt.metric)
		ratio := stat.Interval{Center: tt.center, Low: tt.low, High: tt.high, Confidence: 0.96}
		check.Equal(t, []string{contrast.Effect(m, ratio), contrast.Range(m, ratio)}, []string{tt.effect, tt.possible}, tt.metric, tt.center)
	}
}

// TestDoubt: a difference that its 95 % interval has is named with the reason why it is not shown; one that it does not
// have, with its range; and one of few blocks, with the number that could show it.
func TestDoubt(t *testing.T) {
	for name, tt := range map[string]struct {
		slow, fast []float64
		others     int // equal pairs in the family
		doubt      string
		says       string
	}{
		"shown": {benchtest.Six(22), benchtest.Six(20), 0, "", "takes 10 % longer (95 % interval 7.8 to 12 %)"},
		"in a family": {[]float64{20.1, 20.5, 20.6, 20.7, 20.9, 21}, benchtest.Six(20), 9, "not shown among the 10 of the test",
			"takes 3.2 % longer (95 % interval 0.98 to 5.1 %) (not shown among the 10 of the test)"},
		"too few for it": {benchtest.Six(22), benchtest.Six(20), 29, "not shown among the 30 of the test, for which there are too few blocks (use --blocks 7)",
			"takes 10 % longer (95 % interval 7.8 to 12 %) (not shown among the 30 of the test, for which there are too few blocks (use --blocks 7))"},
		"no difference":  {benchtest.Six(20.1), benchtest.Six(20), 0, "", "is from 1.5 % shorter to 2.5 % longer (no difference shown)"},
		"too few blocks": {benchtest.Six(22)[:3], benchtest.Six(20)[:3], 0, "", "takes 10 % longer (90 % interval 7.8 to 12 %) (too few blocks: use --blocks 6)"},
	} {
		cells := metrics.New(benchtest.Result(benchtest.Cell("slow", even, 1, 1, tt.slow...), benchtest.Cell("fast", even, 1, 1, tt.fast...),
			benchtest.Cell("one", even, 1, 1, benchtest.Six(20)...), benchtest.Cell("two", even, 1, 1, benchtest.Eight(20)...))).Cells
		equal := slices.Repeat([]contrast.Contrast{contrast.New("round", cells[2], cells[3])}, tt.others)
		family := append([]contrast.Contrast{contrast.New("round", cells[0], cells[1])}, equal...)
		j := contrast.Judge("of the test", contrast.Alpha, family)[0]
		check.Equal(t, []string{j.Doubt(), j.Says()}, []string{tt.doubt, tt.says}, name)
	}
}
