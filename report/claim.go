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

// A claim is what one number of a cell is, or how it compares with that of another cell.
// All of its intervals are of 95 %.
type claim struct {
	name   string // METRIC or METRIC/METRIC2
	metric metrics.Metric
	whole  *metrics.Metric // of which the metric is a share; nil if of none
	own    side
	other  *side // nil if there is none; then neither are the others

	ratio      stat.Interval // of the metric of own to that of other
	shown      bool          // they differ by the rule of [metrics.Decide]: the Mann-Whitney test, and the interval of the ratio agrees
	detectable float64       // a ratio that these blocks would have shown, and no smaller than what its interval leaves open
}

// A side is what is claimed of one cell.
type side struct {
	cell  *metrics.Cell
	value stat.Interval // the metric of the cell, or the share
	even  bool          // it is the same in all blocks
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
		names := clip(each(left.Cells, (*metrics.Cell).Name), 6)
		return nil, fmt.Errorf("%q: %d cells are left, want one: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// newClaim returns what a metric of the one cell of choices is, as a share if name is
// METRIC/METRIC2. Choices of against replace those with the same key, and so choose the
// cell that is compared with the first. There is no claim without an interval of 95 %,
// or about what is not proved or was interrupted.
func newClaim(r *metrics.Result, name string, choices, against []string) (c claim, err error) {
	part, whole, isShare := strings.Cut(name, "/")
	c.name = name
	if c.metric, err = claimable(part); err != nil {
		return c, err
	}
	if isShare {
		of, err := claimable(whole)
		switch {
		case err != nil:
			return c, err
		case !c.metric.Sampled() || !of.Sampled():
			return c, fmt.Errorf("%s: want a share of two metrics that blocks measure", name)
		case strings.TrimSuffix(c.metric.Unit, "/round") != strings.TrimSuffix(of.Unit, "/round"):
			return c, fmt.Errorf("%s: a share of %s (%s) in %s (%s): want one unit", name, part, c.metric.Unit, whole, of.Unit)
		case len(against) > 0:
			return c, fmt.Errorf("%s: a share is of one cell, so it has no against", name)
		}
		c.whole = &of
	}
	if c.own, err = c.of(r, choices); err != nil || len(against) == 0 {
		return c, err
	}
	return c, c.compare(r, choices, against)
}

// of returns what is claimed of the one cell of choices.
func (c *claim) of(r *metrics.Result, choices []string) (made side, err error) {
	if made.cell, err = pick(r, choices); err != nil {
		return made, err
	}
	made.value = made.cell.Of(c.metric.Name)
	if c.metric.Sampled() {
		blocks := made.cell.Samples(c.metric.Name)
		if c.whole != nil {
			blocks = shares(blocks, made.cell.Samples(c.whole.Name))
		}
		medians := stat.Medians(blocks)
		made.value, made.even = stat.Of(blocks), len(medians) > 0 && slices.Min(medians) == slices.Max(medians) // as counts may be
	}
	if c.whole != nil && made.value.High > 1 {
		return made, fmt.Errorf("%s of %s is more than 1: %s is added up over workers or requests, and no part of %s",
			c.name, made.cell.Name(), c.metric.Name, c.whole.Name)
	}
	return made, upholds(made.cell, c.name, made.value)
}

// compare adds the cell that is compared with the first.
func (c *claim) compare(r *metrics.Result, choices, against []string) error {
	if !c.metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: want one that blocks measure, such as round", c.name)
	}
	all := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return slices.ContainsFunc(against, func(other string) bool { return strings.HasPrefix(other, key+"=") })
	})
	other, err := c.of(r, append(all, against...))
	switch {
	case err != nil:
		return fmt.Errorf("against: %w", err)
	case other.cell == c.own.cell:
		return errors.New("against: that is the same cell")
	}
	c.other, c.ratio = &other, c.own.cell.Ratio(c.name, other.cell)
	if !c.ratio.Known() {
		return fmt.Errorf("%s is not above zero in all blocks, so there is no ratio: claim each cell by itself", c.name)
	}
	const alpha = 1 - stat.Confidence
	a, b := c.own.cell.Medians(c.name), other.cell.Medians(c.name)
	c.shown = stat.Test(a, b) <= alpha && c.ratio.Excludes(1)
	// Of counts, most blocks are equal, and the test alone would tell a trifle.
	c.detectable = max(stat.Detectable(a, b, alpha), c.ratio.High, 1/c.ratio.Low)
	return nil
}

// claimable returns the metric of a name that a user wrote.
func claimable(name string) (metrics.Metric, error) {
	m, ok := metrics.MetricNamed(name)
	if !ok {
		return m, fmt.Errorf("unknown metric %q: ipcbench list metrics has all", name)
	}
	return m, nil
}

// upholds returns an error if nothing may be side from an estimate of the cell.
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

// shares returns parts as shares of wholes, by block: the mean of the one over the mean of
// the other. Where both are of whole rounds, that is the ratio of their sums.
func shares(parts, wholes [][]float64) (shares [][]float64) {
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

// claimSection is one sentence about a result, which can be quoted as it is. Its words are
// METRIC[/METRIC2] CHOICE… [against CHOICE…].
func claimSection(r *metrics.Result, words []string) (doc.Section, error) {
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
	cells := []*metrics.Cell{c.own.cell}
	if c.other != nil {
		cells = append(cells, c.other.cell)
	}
	for _, f := range Findings(r) { // what cannot be is no claim
		if f.Severity == Error && (f.Measured == nil || slices.Contains(cells, f.Measured)) {
			return doc.Section{}, errors.New(FindingLine(f))
		}
	}
	s := doc.Section{Lead: []doc.Paragraph{{Text: c.sentence(), Tone: doc.Strong}}}
	for _, of := range cells {
		found := of.Marks()
		found.Outliers = 0 // which a median bears, and its interval shows
		for _, text := range markTexts(of, found) {
			if text != "" {
				s.Lead = append(s.Lead, doc.Say(of.Name()+": "+text+".")...)
			}
		}
	}
	return s, nil
}

// sentence says how much it is, or how it compares.
func (c *claim) sentence() string {
	const kind = "95 % interval "
	verb, noun := nounOf(c.metric)
	unit, own := strings.TrimSuffix(c.metric.Unit, "/round"), c.own
	if c.other == nil { // the transport alone sets the cell apart
		share := ""
		if c.whole != nil {
			_, whole := nounOf(*c.whole)
			unit, share = "%", " of "+whole
		}
		return fmt.Sprintf("With %s, %s %s %s%s%s, %s.", own.cell.Uncoded(), noun, verb, own.amount(unit, kind), share,
			said("", namingOf([]*metrics.Cell{own.cell}, "transport").common, own.cell), doc.Plural(own.value.Blocks, "block"))
	}
	other := *c.other
	of := namingOf([]*metrics.Cell{own.cell, other.cell})
	have, lack := phrases(of.apart, own.cell), phrases(of.apart, other.cell)
	if len(have) == 0 { // in what no axis tells
		have, lack = []string{own.cell.Name()}, []string{other.cell.Name()}
	}
	behind := said("", of.common, own.cell) + ", " + doc.Plural(own.value.Blocks, "block") + " each"
	if a, b := own.value.Blocks, other.value.Blocks; a != b {
		behind = said("", of.common, own.cell) + fmt.Sprintf(", %d and %d blocks", a, b)
	}
	exact, text := own.even && other.even, doc.List(have)+", "+noun+" "
	if exact && own.value.Center == other.value.Center {
		return "With " + text + verbs[verb].same + " with " + doc.List(lack) + ": " + own.amount(unit, "") + behind + "."
	}
	text += fmt.Sprintf(verbs[verb].times, doc.Quantity("1", c.ratio.Center)) + " with " + doc.List(lack)
	if !exact {
		text += fmt.Sprintf(" (%s%s to %s)", kind, doc.Quantity("1", c.ratio.Low), doc.Quantity("1", c.ratio.High))
	}
	text += ": " + own.amount(unit, "") + " against " + other.amount(unit, "") + behind
	if c.shown {
		return "With " + text + "."
	}
	return "Too close to call: with " + text + "; a difference of " + doc.Percent(c.detectable-1) + " would have shown."
}

// amount writes an estimate; what its bounds are stands before them. What is the same in
// all blocks has none.
func (c side) amount(unit, kind string) string {
	switch x := c.value.Center; {
	case c.even && x == 0:
		return "exactly 0"
	case !c.even:
		return strings.Replace(doc.Bounded(unit, c.value), "(", "("+kind, 1)
	case unit == "1" && x == math.Round(x):
		return "exactly " + strconv.FormatFloat(x, 'f', -1, 64)
	default:
		return doc.Quantity(unit, x) + " in every block"
	}
}

// A naming has the axes on which cells differ, and those on which they are alike and not
// as usual.
type naming struct{ apart, common []metrics.Axis }

// told are the axes that a cell's label tells, and the build.
var told = []string{"transport", "codec", "language", "build"}

// namingOf tells cells apart on all axes but some.
func namingOf(cells []*metrics.Cell, but ...string) (n naming) {
	for _, a := range axes(but...) {
		switch kinds := metrics.GroupBy(cells, func(c *metrics.Cell) string { return phrase(a, c) }); {
		case len(kinds) > 1:
			n.apart = append(n.apart, a)
		case len(kinds) == 1 && a.Of(cells[0]) != a.Usual:
			n.common = append(n.common, a)
		}
	}
	return n
}

// said writes first, and then what a cell is on axes.
func said(first string, of []metrics.Axis, c *metrics.Cell) string {
	return strings.Join(append([]string{first}, phrases(of, c)...), ", ")
}

// phrases say what a cell is on axes.
func phrases(of []metrics.Axis, c *metrics.Cell) (all []string) {
	for _, a := range of {
		if text := phrase(a, c); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// phrase says what a cell is on an axis; nothing where it is not on it.
func phrase(a metrics.Axis, c *metrics.Cell) string {
	switch value := a.Of(c); {
	case a.Name == "language" && c.Peer != "": // its name says all that is known
		return ""
	case a.Name == "transport":
		return c.Uncoded()
	case a.Name == "workers" && c.Workers == 1 || a.Name == "clients" && c.Clients == 1:
		return "1 " + strings.TrimSuffix(a.Name, "s")
	case a.Else != "" && value == a.Usual:
		return a.Else
	default:
		return strings.Replace(a.Words, "%s", value, 1)
	}
}

// verbs compare: as often as %s says, or equal. The word with follows.
var verbs = map[string]struct{ times, same string }{
	"takes": {"takes %s times as long as", "takes as long as"},
	"is":    {"is %s times what it is", "is the same as"},
	"are":   {"are %s times what they are", "are the same as"},
}

// nounOf returns how any metric stands in a sentence, and the verb before an amount of it.
// Units a round are as the noun says, and need not be said again.
func nounOf(m metrics.Metric) (verb, text string) {
	if known := map[string]string{
		"round": "takes a round", "cold_round": "takes the first round of a session", "spawn": "takes starting the workers",
		"transfer": "takes a client's transfer", "rtt": "takes a client's round trip", "train": "takes a client's training",
		"reconstruct": "takes putting a client's update together", "restart": "is the share of a round in which its workers start and end",
		"down": "takes a client's way down", "uplink": "takes a client's way up", "up": "takes a client's way up with its training",
		"cpu_per_round": "is the CPU time of a round", "cpu_server": "is the server's CPU time of a round",
		"cpu_per_gb": "is the CPU time of what is delivered", "rpcs": "are requests of a round",
		"rpcs_tensors": "are requests of a round that bring tensors", "connections": "are connections that a round opens",
		"connecting":      "takes waiting for connections in a round, added up over workers,",
		"handshaking":     "takes waiting for handshakes in a round, added up over workers,",
		"in_service":      "is the mean number of requests in service",
		"in_service_most": "is the highest number of requests in service at once",
		"queued_share":    "is the share of requests that wait for a thread of the server",
		"phase.queue":     "takes waiting for threads of the server in a round, added up over requests,",
		"queue_wait":      "takes waiting for a processor in a round, added up over threads,",
		"attested":        "is the share of tensors that went the transport's own way",
		"cache_growth":    "is the growth of the workers' caches in a round",
		"communication":   "is the share of a client's round trip that is not training", "overhead": "is the overhead of a round",
		"peak_rss": "is the peak memory of all processes", "peak_rss_server": "is the server's peak memory",
		"peak_rss_workers": "is the largest worker's peak memory",
		"queued":           "takes waiting of one client's requests for threads of the server", "cold_work": "takes a cold round without starting the workers",
		"speedup_round": "is the speed-up of a round", "speedup_transfer": "is the speed-up of a client's transfer",
		"moving_share": "is the share of a round that moving tensors takes",
		"start_ratio":  "is the ratio of starting the workers to a cold round",
	}[m.Name]; known != "" {
		verb, text, _ = strings.Cut(known, " ")
		return verb, text
	}
	verb, text = "is", strings.ReplaceAll(m.Name, "_", " ")
	if strings.HasSuffix(m.Name, "s") {
		verb = "are"
	}
	unit, perRound := strings.CutSuffix(m.Unit, "/round")
	if perRound {
		text += " of a round"
	}
	if unit == "s" {
		verb = "takes"
	}
	if phase, ok := strings.CutPrefix(text, "phase."); ok {
		text = "phase " + phase + ", added up over all processes,"
	}
	return verb, text
}
