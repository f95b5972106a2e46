package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// claims returns a result whose claims can be checked by hand.
func claims() *result.Result {
	m := result.Model{Name: "even", Tensors: 4, Bytes: 100 * benchtest.MB}
	even := func(transport string, ms float64) result.Cell {
		return benchtest.Cell(transport, m, 1, 1, benchtest.Six(ms)...)
	}
	calls := func(transport string, n int64) result.Cell {
		return perRound(even(transport, 20), map[string]int64{"calls.Get": n})
	}
	r := benchtest.Result(even("slow", 20), even("fast", 10), even("near", 20.1), benchtest.Cell("near", m, 2, 4, benchtest.Eight(30)...),
		calls("many", 192), calls("few", 40), calls("part", 0), benchtest.Cell("short", m, 1, 1, 20, 20, 20, 20, 20),
		even("stopped", 20), even("peer", 20), even("unchecked", 20), even("wrong", 20), even("near", 40),
		perRound(even("astray", 20), map[string]int64{"handle.tensors": 8, "fallback.full": 2}))
	named := func(transport string) *result.Cell {
		return &r.Cells[slices.IndexFunc(r.Cells, func(c result.Cell) bool { return c.Transport == transport })]
	}
	for i, b := range named("slow").Blocks { // publishing takes 1 to 6 % of a round
		b.Phases["publish"] = (b.Round[0] + b.Round[1]) * int64(i+1) / 100
	}
	turned := &r.Cells[len(r.Cells)-2]
	turned.Respawn, turned.Nested, turned.TrainMS = true, true, 10
	named("few").Language = result.InPython
	named("stopped").Stopped = "interrupted"
	named("peer").Unproved = "it has no hashes"
	named("unchecked").Blocks[2].Proof = result.Proof{}
	named("wrong").Blocks[0].Train[0] *= 10
	return r
}

// claimed renders a marker that refers to r as r.json.
func claimed(r *result.Result, words string) (string, error) {
	text, err := render(".", "r.json claim "+words, map[string]*result.Result{"r.json": r})
	return strings.TrimSpace(text), err
}

// sentence returns the text of a marker.
func sentence(t *testing.T, r *result.Result, words string) string {
	t.Helper()
	text, err := claimed(r, words)
	check.OK(t, err, words)
	return text
}

// TestClaim: a claim has the measured value, its confidence and its scope (guard 13).
func TestClaim(t *testing.T) {
	// The bounds are the sixth of 36 ratios of blocks from either end: 0.99/1.01 and
	// 1.01/0.99 of a half.
	text := ""
	for _, words := range []string{
		"round transport=fast against transport=slow",
		"round transport=slow",
		"round transport=slow against transport=near workers=1 nested=off",
		"round transport=near workers=2 against workers=1 nested=off",
		"rpcs transport=many",
		"rpcs transport=few against transport=many language=go",
		"wire_down transport=slow against transport=fast",
		"cpu_per_round transport=fast against transport=slow",
		"phase.publish/round transport=slow",
		"train/rtt transport=slow",
		"attested transport=astray",
		"minor_faults transport=slow",
	} {
		text += words + "\n" + sentence(t, claims(), words) + "\n"
	}
	doctest.Golden(t, "claims.md", text)
	r := claims()
	benchtest.Peer(r, &r.Cells[1], "fast --always", nil) // its language cannot be determined
	holds(t, sentence(t, r, "round transport=few against transport=fast language=go"), "fast is 2.00 times as fast as few with workers in Python (95 %")
}

// TestNearOne: nothing is rounded before it is decided: 1.003 is above 1 (guard 13).
func TestNearOne(t *testing.T) {
	slow := cnn("slow", 10.03, 10.1, 10.1, 10.2, 10.2, 10.2)
	fast := cnn("fast", 10, 10, 10, 10, 10, 10)
	slight := cnn("slow", 10.021, 10.021, 10.022, 10.022, 10.022, 10.023)
	for _, words := range []string{"round transport=slow against transport=fast", "round transport=fast against transport=slow"} {
		holds(t, sentence(t, benchtest.Result(slow, fast), words), "slow takes 1.5 % longer (95 % interval 0.30 to 2.0 %) than fast: ")
		holds(t, sentence(t, benchtest.Result(slight, fast), words), "slow takes less than 0.5 % longer (95 % interval 0.21 to 0.23 %) than fast: ")
	}
}

// TestUsualCell: a claim is about the cell with the usual value of an axis that it does not choose.
func TestUsualCell(t *testing.T) {
	trained := six("http", 110)
	trained.TrainMS = 100
	fresh := six("http", 60)
	fresh.Respawn = true
	_, err := claimed(benchtest.Result(fresh, trained), "round transport=http")
	check.Fails(t, err, "must leave one cell, not 2")
	r := benchtest.Result(six("http", 10), trained, fresh)
	for words, want := range map[string]string{"round transport=http": "takes 10.0 ms", "round transport=http train-ms=100": "takes 110 ms"} {
		holds(t, sentence(t, r, words), want)
	}
}

// TestComputed: with more training than was measured, a share is computed, and the sentence says so.
func TestComputed(t *testing.T) {
	holds(t, sentence(t, benchtest.Pair(1, 1), "moving_share transport=pickle computed 10ms 990ms"), "**Computed from rounds without it, not measured: "+
		"with pickle and 10ms and 990ms more of training, moving tensors takes 33 % (95 % interval 33 to 34) and 0.99 % (0.96 to 1.0) of a round, even,")
	for _, words := range []string{
		"round transport=pickle computed 1s", "moving_share transport=pickle computed", "moving_share transport=pickle computed 0s",
		"moving_share transport=pickle computed soon", "moving_share transport=pickle against transport=inproc computed 1s",
	} {
		_, err := claimed(benchtest.Pair(1, 1), words)
		check.Fails(t, err, "computed", words)
	}
}

// TestNouns: sentences name percentiles in words.
func TestNouns(t *testing.T) {
	for name, want := range map[string]string{"rtt_p99": "the 99th percentile of a client's round trip", "round_p99.9": "the 99.9th percentile of a round"} {
		m, _ := metrics.MetricNamed(name)
		verb, noun := m.Noun()
		check.Equal(t, []string{verb, noun}, []string{"is", want})
	}
}

// TestNoClaim: values without a 95 % interval, unproved cells, and choices of not exactly
// one cell are rejected.
func TestNoClaim(t *testing.T) {
	for words, want := range map[string]string{
		"":                                                        "must be claim METRIC[/METRIC2] CHOICE... [against CHOICE...]",
		"round transport=slow against":                            "must be claim METRIC",
		"against transport=slow":                                  "must be claim METRIC",
		"transport=slow round":                                    `unknown metric "transport=slow"`,
		"rounds transport=slow":                                   `unknown metric "rounds": see ipcbench list metrics`,
		"round/ transport=slow":                                   `unknown metric ""`,
		"round colour=red":                                        `"colour=red" must be transport=`,
		"round transport":                                         `"transport" must be transport=`,
		"round transport=gone":                                    `"transport=gone" leaves no cell: use one of slow, fast, near, many`,
		"round transport=near":                                    `"transport=near": must leave one cell, not 2: near even workers=1 clients=1; near even workers=2 clients=4`,
		"round transport=short":                                   "too few blocks for a 95 % interval of round: must be at least 6, not 5 (short even workers=1 clients=1)",
		"round_p90 transport=slow":                                "has no round_p90",
		"round_mad transport=slow":                                "round_mad has no interval",
		"bandwidth transport=slow":                                "has no bandwidth",
		"round transport=stopped":                                 "stopped even workers=1 clients=1 was interrupted",
		"round transport=peer":                                    "peer even workers=1 clients=1 is not proved: it has no hashes",
		"round transport=unchecked":                               "unchecked even workers=1 clients=1 is not proved",
		"round transport=wrong":                                   "trained for",
		"rpcs/round transport=many":                               "both metrics of a share must have one unit: rpcs is in 1/round, round in s",
		"round_mad/round transport=many":                          "both metrics of a share must be measured per block",
		"train/retries transport=many":                            "must have one unit",
		"connections/rpcs transport=many":                         "has no connections/rpcs",
		"train/rtt transport=slow against transport=fast":         "a share is about one cell",
		"round transport=slow against transport=slow":             "against: must choose another cell",
		"round transport=slow against transport=near":             `against: "transport=near": must leave one cell, not 2`,
		"round transport=slow against transport=peer":             "is not proved",
		"round transport=slow against transport=short":            "too few blocks for a 95 % interval of round: must be at least 6, not 5",
		"rpcs transport=many against transport=part":              "rpcs is not above 0 in every block, so there is no ratio",
		"rpcs transport=many against transport=slow":              "has no rpcs",
		"round_mad transport=slow against transport=fast":         "round_mad has no interval",
		"goodput transport=slow against transport=fast":           `metric "goodput" cannot be compared`,
		"round transport=slow against transport=fast against x=y": `"against" must be transport=`,
	} {
		_, err := claimed(claims(), words)
		check.Fails(t, err, want, words)
		check.Fails(t, err, words)
	}
}

// TestHostileClaim: hostile names in a result have no effect in a sentence.
func TestHostileClaim(t *testing.T) {
	for _, evil := range append([]string{doctest.Hostile}, doctest.Starts...) {
		r := claims()
		c, other := &r.Cells[0], &r.Cells[1]
		c.Variant, other.Variant, c.Model.Name, other.Model.Name, c.Train = evil, evil+"x", evil+" y", evil+" y", evil
		c.Workers, other.Workers = 3, 4
		for _, words := range []string{"round workers=3", "round workers=3 against workers=4", "round workers=5"} {
			text, err := claimed(r, words)
			check.Equal(t, doctest.Acts("md", text), "", words, evil)
			check.Equal(t, err == nil, words != "round workers=5", words, evil, err)
		}
	}
}

// FuzzMarker: any marker is rendered or rejected.
func FuzzMarker(f *testing.F) {
	f.Add("claim round transport=fast against transport=slow")
	f.Add("claim phase.publish/round transport=slow")
	f.Add("claim / against")
	f.Add("claim round against transport=fast transport= =")
	f.Add("cells workers=1,2 up=model")
	r := claims()
	f.Fuzz(func(t *testing.T, words string) {
		text, err := render(".", "r.json "+words, map[string]*result.Result{"r.json": r})
		check.That(t, (err == nil) == (strings.TrimSpace(text) != ""), "%q: got %q, %v", words, text, err)
		check.Equal(t, doctest.Acts("md", text), "", words)
	})
}

// TestProcesses: sentences about workers that share processes say in how many processes they
// are. The start of the workers stands beside × best if one transport needs longer for it than
// another, by more than a round.
func TestProcesses(t *testing.T) {
	slow := benchtest.Cell("pickle", benchtest.Models["cnn"], 2000, 2000, benchtest.Six(10)...)
	slow.PerProcess = 250
	r := benchtest.Result(slow, benchtest.Cell("http", benchtest.Models["cnn"], 2000, 2000, benchtest.Six(12)...))
	c := metrics.New(r).Cells[0]
	check.That(t, slices.Contains(table.Phrases(table.Axes(), c), "2000 workers in 8 processes"), "%q", table.Phrases(table.Axes(), c))
	text := shown(t, r)
	holds(t, text, "\nThe workers are in 8 processes.")
	holds(t, shown(t, r, "verdict"), "cnn, 248 kB in 10 tensors, 2000 workers in 8 processes, 2000 clients: ")
	lacks(t, text, "start, ms")
	for i := range r.Cells[1].Blocks {
		r.Cells[1].Blocks[i].Spawn = 60 * time.Millisecond
	}
	holds(t, shown(t, r), " start, ms ", " 60.0 ")
}

// TestPagesOfPeers: a cell whose pages were asked for is not compared with a peer, which has others.
func TestPagesOfPeers(t *testing.T) {
	r := benchtest.Result(cnn("http", 10, 10.1, 10.2, 10.3, 10.4, 10.5), cnn("theirs", 20, 20.1, 20.2, 20.3, 20.4, 20.5))
	benchtest.Peer(r, &r.Cells[1], "theirs --always", nil)
	const claim = "round transport=http against transport=theirs pages=system"
	check.Must(t, check.Err(claimed(r, claim)))
	r.Cells[0].Pages = "huge"
	check.Fails(t, check.Err(claimed(r, claim)), "a peer has pages as the machine is configured")
}
