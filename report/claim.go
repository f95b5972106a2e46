package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// A Claim is what one number of a cell is, or how it compares with that of another cell.
// All of its intervals are of 95 %.
type Claim struct {
	Metric metrics.Metric
	Whole  *metrics.Metric // of which the metric is a share; nil if of none
	Cell   *metrics.Cell
	Value  stat.Interval // the metric of the cell, or the share
	Even   bool          // it is the same in all blocks

	Against    *metrics.Cell // nil if there is none; then neither are the others
	Other      stat.Interval
	OtherEven  bool
	Ratio      stat.Interval // of the metric of Cell to that of Against
	Shown      bool          // they differ by the rule of [metrics.Decide]: the Mann-Whitney test, and the interval of the ratio agrees
	Detectable float64       // a ratio that these blocks would have shown, and no smaller than what its interval leaves open
}

// pick returns the one cell that passes all filters, which are those of
// [metrics.Result.Narrow].
func pick(r *metrics.Result, filters []string) (*metrics.Cell, error) {
	left := *r
	left.Cells = slices.Clone(r.Cells)
	if err := left.Narrow(filters); err != nil {
		return nil, err
	}
	if n := len(left.Cells); n != 1 {
		const named = 6
		var names []string
		for _, c := range left.Cells[:min(n, named)] {
			names = append(names, c.Name())
		}
		if n > named {
			names = append(names, fmt.Sprintf("%d more", n-named))
		}
		return nil, fmt.Errorf("%q: %d cells are left, want one: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// newClaim returns what a metric of the one cell of choices is, as a share if metric is
// METRIC/METRIC2. Choices of against replace those with the same key, and so choose the
// cell that is compared with the first. There is no claim without an interval of 95 %,
// or about what is not proved or was interrupted.
func newClaim(r *metrics.Result, metric string, choices, against []string) (*Claim, error) {
	part, whole, isShare := strings.Cut(metric, "/")
	c := &Claim{}
	var err error
	if c.Metric, err = claimable(part); err != nil {
		return nil, err
	}
	if c.Cell, err = pick(r, choices); err != nil {
		return nil, err
	}
	c.Value = c.Cell.Of(part)
	if c.Metric.Sampled() {
		c.Even = equal(c.Cell.Medians(part))
	}
	if isShare {
		of, err := claimable(whole)
		switch {
		case err != nil:
			return nil, err
		case !c.Metric.Sampled() || !of.Sampled():
			return nil, fmt.Errorf("%s: want a share of two metrics that blocks measure", metric)
		case strings.TrimSuffix(c.Metric.Unit, "/round") != strings.TrimSuffix(of.Unit, "/round"):
			return nil, fmt.Errorf("%s: a share of %s (%s) in %s (%s): want one unit", metric, part, c.Metric.Unit, whole, of.Unit)
		case len(against) > 0:
			return nil, fmt.Errorf("%s: a share is of one cell, so it has no against", metric)
		}
		shares := shares(c.Cell, part, whole)
		c.Whole, c.Value, c.Even = &of, stat.Of(shares), equal(stat.Medians(shares))
		if c.Value.High > 1 {
			return nil, fmt.Errorf("%s of %s is more than 1: %s is added up over workers or requests, and no part of %s", metric, c.Cell.Name(), part, whole)
		}
	}
	if err := upholds(c.Cell, metric, c.Value); err != nil || len(against) == 0 {
		return c, err
	}
	return c, c.compare(r, choices, against)
}

// compare adds the cell that is compared with the first.
func (c *Claim) compare(r *metrics.Result, choices, against []string) error {
	name := c.Metric.Name
	if !c.Metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: want one that blocks measure, such as round", name)
	}
	all := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return slices.ContainsFunc(against, func(other string) bool { return strings.HasPrefix(other, key+"=") })
	})
	var err error
	if c.Against, err = pick(r, append(all, against...)); err != nil {
		return fmt.Errorf("against: %w", err)
	}
	if c.Against == c.Cell {
		return errors.New("against: that is the same cell")
	}
	c.Other = c.Against.Of(name)
	if err := upholds(c.Against, name, c.Other); err != nil {
		return err
	}
	a, b := c.Cell.Medians(name), c.Against.Medians(name)
	c.OtherEven = equal(b)
	c.Ratio = c.Cell.Ratio(name, c.Against)
	if !c.Ratio.Known() {
		return fmt.Errorf("%s is not above zero in all blocks, so there is no ratio: claim each cell by itself", name)
	}
	const alpha = 1 - stat.Confidence
	c.Shown = stat.Test(a, b) <= alpha && c.Ratio.Excludes(1)
	c.Detectable = max(stat.Detectable(a, b, alpha), c.Ratio.High, 1/c.Ratio.Low) // of counts, most blocks are equal, and the test alone would tell a trifle
	return nil
}

// equal reports whether all are the same, as counts may be.
func equal(xs []float64) bool { return len(xs) > 0 && slices.Min(xs) == slices.Max(xs) }

// claimable returns the metric of a name that a user wrote.
func claimable(name string) (metrics.Metric, error) {
	m, ok := metrics.MetricNamed(name)
	if !ok {
		return m, fmt.Errorf("unknown metric %q: ipcbench list metrics has all", name)
	}
	return m, nil
}

// upholds returns an error if nothing may be claimed from an estimate of the cell.
func upholds(c *metrics.Cell, metric string, i stat.Interval) error {
	switch {
	case c.Unproved != "":
		return fmt.Errorf("%s is not proved: %s", c.Name(), c.Unproved)
	case !c.Proved():
		return fmt.Errorf("%s is not proved", c.Name())
	case c.Stopped == "interrupted":
		return fmt.Errorf("%s was interrupted", c.Name())
	case !i.Known():
		return fmt.Errorf("%s has no %s", c.Name(), metric)
	case i.Sure():
		return nil
	case len(c.Timed()) >= stat.Blocks && i.Confidence == 0:
		return fmt.Errorf("%s is a number without an interval", metric)
	}
	return fmt.Errorf("no 95 %% interval of %s: %d blocks, want %d (%s)", metric, i.Blocks, stat.Blocks, c.Name())
}

// shares returns one sampled metric as a share of another, by block. It is the mean of
// the one over the mean of the other: where both are of whole rounds, that is the ratio of
// their sums.
func shares(c *metrics.Cell, part, whole string) (shares [][]float64) {
	parts, wholes := c.Samples(part), c.Samples(whole)
	for i := range parts {
		if len(parts[i]) == 0 || len(wholes[i]) == 0 {
			continue
		}
		of := mean(wholes[i])
		if of <= 0 {
			return nil
		}
		shares = append(shares, []float64{mean(parts[i]) / of})
	}
	return shares
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// claimView is the name of the view that a marker alone can ask for.
const claimView = "claim"

// claim is one sentence about a result, which can be quoted as it is. Its words are
// METRIC[/METRIC2] CHOICE… [against CHOICE…].
func claim(r *metrics.Result, words []string) (doc.Section, error) {
	at := slices.Index(words, "against")
	choices, against := words, []string(nil)
	if at >= 0 {
		choices, against = words[:at], words[at+1:]
	}
	if len(choices) < 2 || at >= 0 && len(against) == 0 {
		return doc.Section{}, errors.New("want claim METRIC[/METRIC2] CHOICE... [against CHOICE...]")
	}
	c, err := newClaim(r, choices[0], choices[1:], against)
	if err != nil {
		return doc.Section{}, err
	}
	for _, f := range Findings(r) { // what cannot be is no claim
		if f.Severity == Error && (f.Measured == nil || f.Measured == c.Cell || f.Measured == c.Against) {
			return doc.Section{}, errors.New(FindingLine(f))
		}
	}
	s := doc.Section{Lead: []doc.Paragraph{{Text: claimSentence(c), Tone: doc.Strong}}}
	for _, of := range []*metrics.Cell{c.Cell, c.Against} {
		if of == nil {
			continue
		}
		found := of.Marks()
		found.Outliers = 0 // which a median bears, and its interval shows
		for _, m := range marks {
			if text := m.on(of, found); text != "" {
				s.Lead = append(s.Lead, doc.Say(of.Name()+": "+text+".")...)
			}
		}
	}
	return s, nil
}

// claimSentence says how much it is, or how it compares.
func claimSentence(c *Claim) string {
	own, other, common := apart(c.Cell, c.Against)
	n, unit, kind := nounOf(c.Metric), strings.TrimSuffix(c.Metric.Unit, "/round"), "95 % interval "
	text := "with " + doc.List(own) + ", " + n.text + " "
	if c.Against == nil {
		blocks := ", " + common + ", " + doc.Plural(c.Value.Blocks, "block") + "."
		if c.Whole != nil {
			return capital(text + n.verb + " " + amount("%", c.Value, c.Even, kind) + " of " + nounOf(*c.Whole).text + blocks)
		}
		return capital(text + n.verb + " " + amount(unit, c.Value, c.Even, kind) + blocks)
	}
	blocks := ", " + common + ", " + doc.Plural(c.Value.Blocks, "block") + " each"
	if a, b := c.Value.Blocks, c.Other.Blocks; a != b {
		blocks = fmt.Sprintf(", %s, %d and %d blocks", common, a, b)
	}
	with, exact := " with "+doc.List(other), c.Even && c.OtherEven
	if exact && c.Value.Center == c.Other.Center {
		return capital(text + n.same + with + ": " + amount(unit, c.Value, c.Even, "") + blocks + ".")
	}
	text += fmt.Sprintf(n.times, doc.Quantity("1", c.Ratio.Center)) + with
	if !exact {
		text += " (" + kind + doc.Quantity("1", c.Ratio.Low) + " to " + doc.Quantity("1", c.Ratio.High) + ")"
	}
	text += ": " + amount(unit, c.Value, c.Even, "") + " against " + amount(unit, c.Other, c.OtherEven, "") + blocks
	if c.Shown {
		return capital(text) + "."
	}
	return "Too close to call: " + text + "; a difference of " + doc.Percent(c.Detectable-1) + " would have shown."
}

// amount writes an estimate; what its bounds are stands before them. What is the same in
// all blocks has none.
func amount(unit string, i stat.Interval, even bool, kind string) string {
	switch {
	case even && i.Center == 0:
		return "exactly 0"
	case !even:
		return strings.Replace(doc.Bounded(unit, i), "(", "("+kind, 1)
	case unit == "1" && i.Center == math.Round(i.Center):
		return "exactly " + strconv.FormatFloat(i.Center, 'f', -1, 64)
	}
	return doc.Quantity(unit, i.Center) + " in every block"
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// apart says what one cell has and the other has not, behind the word with, and what both
// have in common and does not go without saying. A cell alone is set apart by its transport.
func apart(c, other *metrics.Cell) (own, others []string, common string) {
	var same []string
	for _, a := range metrics.Axes() {
		x, y := phrase(a, c), ""
		if other != nil {
			y = phrase(a, other)
		}
		switch {
		case other != nil && x != y:
			own, others = appendWords(own, x), appendWords(others, y)
		case other == nil && a.Name == "transport":
			own = append(own, x)
		case a.Of(c) != a.Usual:
			same = append(same, x)
		}
	}
	if other != nil && len(own) == 0 { // in what no axis tells
		own, others = []string{c.Name()}, []string{other.Name()}
	}
	return own, others, strings.Join(same, ", ")
}

// appendWords appends text, if there is any.
func appendWords(all []string, text string) []string {
	if text == "" {
		return all
	}
	return append(all, text)
}

// phrase says what a cell is on an axis; nothing where it is not on it.
func phrase(a metrics.Axis, c *metrics.Cell) string {
	value := a.Of(c)
	switch {
	case a.Name == "language" && c.Peer != "": // its name says all that is known
		return ""
	case a.Dim != nil:
		return a.Dim.Heading(c.Setup)
	case a.Name == "transport":
		return c.Uncoded()
	case a.Name == "codec" && !c.Encoded():
		return "no codec"
	case a.Name == "up" && value == a.Usual:
		return "updates like the model"
	case a.Name == "up":
		return "updates " + value
	case a.Name == "workers":
		return doc.Plural(c.Workers, "worker")
	case a.Name == "clients":
		return doc.Plural(c.Clients, "client")
	case a.Name == "build":
		return "build " + value
	}
	return value
}

// A noun is how a metric stands in a sentence.
type noun struct {
	text        string
	verb        string // before an amount
	times, same string // before the word with: as often as %s says, or equal
}

func takes(text string) noun {
	return noun{text, "takes", "takes %s times as long as", "takes as long as"}
}
func is(text string) noun { return noun{text, "is", "is %s times what it is", "is the same as"} }
func are(text string) noun {
	return noun{text, "are", "are %s times what they are", "are the same as"}
}

// nounOf returns that of any metric. Units a round are as the noun says, and need not be
// said again.
func nounOf(m metrics.Metric) noun {
	if n, ok := map[string]noun{
		"round": takes("a round"), "cold_round": takes("the first round of a session"), "spawn": takes("starting the workers"),
		"transfer": takes("a client's transfer"), "rtt": takes("a client's round trip"), "train": takes("a client's training"),
		"reconstruct": takes("putting a client's update together"), "restart": is("the share of a round in which its workers start and end"),
		"down": takes("a client's way down"), "uplink": takes("a client's way up"), "up": takes("a client's way up with its training"),
		"cpu_per_round": is("the CPU time of a round"), "cpu_server": is("the server's CPU time of a round"), "cpu_per_gb": is("the CPU time of what is delivered"),
		"rpcs": are("requests of a round"), "rpcs_tensors": are("requests of a round that bring tensors"), "connections": are("connections that a round opens"), "connecting": takes("waiting for connections in a round, added up over workers,"), "handshaking": takes("waiting for handshakes in a round, added up over workers,"),
		"in_service": is("the mean number of requests in service"), "in_service_most": is("the highest number of requests in service at once"),
		"queued_share": is("the share of requests that wait for a thread of the server"), "phase.queue": takes("waiting for threads of the server in a round, added up over requests,"),
		"queue_wait": takes("waiting for a processor in a round, added up over threads,"), "attested": is("the share of tensors that went the transport's own way"),
		"cache_growth": is("the growth of the workers' caches in a round"), "communication": is("the share of a client's round trip that is not training"),
		"queued": takes("waiting of one client's requests for threads of the server"), "cold_work": takes("a cold round without starting the workers"),
		"speedup_round": is("the speed-up of a round"), "speedup_transfer": is("the speed-up of a client's transfer"),
		"moving_share": is("the share of a round that moving tensors takes"), "start_ratio": is("the ratio of starting the workers to a cold round"),
		"overhead": is("the overhead of a round"), "peak_rss": is("the peak memory of all processes"), "peak_rss_server": is("the server's peak memory"), "peak_rss_workers": is("the largest worker's peak memory"),
	}[m.Name]; ok {
		return n
	}
	text, perRound := strings.ReplaceAll(m.Name, "_", " "), strings.HasSuffix(m.Unit, "/round")
	if name, ok := strings.CutPrefix(m.Name, "phase."); ok {
		text = "phase " + name
	}
	if perRound {
		text += " of a round"
	}
	if strings.HasPrefix(m.Name, "phase.") {
		text += ", added up over all processes,"
	}
	switch {
	case m.Unit == "s" || m.Unit == "s/round":
		return takes(text)
	case strings.HasSuffix(m.Name, "s"):
		return are(text)
	}
	return is(text)
}
