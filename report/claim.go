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

// A claim is one metric of a cell, or its ratio to the same metric of another cell. All
// intervals are 95 % confidence intervals.
type claim struct {
	name   string // METRIC or METRIC/METRIC2
	metric metrics.Metric
	whole  *metrics.Metric // the metric is a share of this one; nil if it is no share
	own    side
	other  *side // nil for a claim about one cell; then the fields below are unset

	ratio      stat.Interval // own ÷ other
	shown      bool          // the Mann-Whitney test shows a difference, as in [metrics.Decide], and the interval of the ratio agrees
	detectable float64       // a ratio above 1 that these blocks would have shown, no smaller than the bounds of the ratio allow
}

// A side is the part of a claim that is about one cell.
type side struct {
	cell  *metrics.Cell
	value stat.Interval // the metric or the share
	even  bool          // the value is the same in all blocks
}

// pick returns the one cell that passes all filters, as in [metrics.Result.Narrow]. If they leave
// several, cells with the usual value of every axis without a filter are preferred. It returns an
// error if none or several are left.
func pick(r *metrics.Result, filters []string) (*metrics.Cell, error) {
	left := *r
	left.Cells = slices.Clone(r.Cells)
	if err := left.Narrow(filters); err != nil {
		return nil, err
	}
	open := slices.DeleteFunc(metrics.Axes(), func(a metrics.Axis) bool {
		return a.Usual == "" || metrics.Filters(filters, a.Name)
	})
	unusual := func(c *metrics.Cell) bool {
		return slices.ContainsFunc(open, func(a metrics.Axis) bool { return a.Of(c) != a.Usual })
	}
	if usual := slices.DeleteFunc(slices.Clone(left.Cells), unusual); len(usual) > 0 {
		left.Cells = usual
	}
	if n := len(left.Cells); n != 1 {
		names := clip(each(left.Cells, (*metrics.Cell).Name), 6)
		return nil, fmt.Errorf("%q: must leave one cell, not %d: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// newClaim returns a claim about a metric of the one cell of choices, or about a share if name
// is METRIC/METRIC2. For the second cell, choices in against replace those with the same key.
// It returns an error if a cell has no 95 % interval, is not proved or was interrupted.
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
			return c, fmt.Errorf("%s: both metrics of a share must be measured per block", name)
		case strings.TrimSuffix(c.metric.Unit, "/round") != strings.TrimSuffix(of.Unit, "/round"):
			return c, fmt.Errorf("%s: both metrics of a share must have one unit: %s is in %s, %s in %s", name, part, c.metric.Unit, whole, of.Unit)
		case len(against) > 0:
			return c, fmt.Errorf("%s: a share is about one cell, so it cannot have against", name)
		}
		c.whole = &of
	}
	if c.own, err = c.of(r, choices); err != nil || len(against) == 0 {
		return c, err
	}
	return c, c.compare(r, choices, against)
}

// of returns the side of the one cell of choices.
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
		made.value, made.even = stat.Of(blocks), len(medians) > 0 && slices.Min(medians) == slices.Max(medians) // as counts often are
	}
	if c.whole != nil && made.value.High > 1 {
		return made, fmt.Errorf("%s of %s is above 1: %s is a sum over workers or requests, not a part of %s",
			c.name, made.cell.Name(), c.metric.Name, c.whole.Name)
	}
	return made, checkSupport(made.cell, c.name, made.value)
}

// compare adds the second cell and its ratio to the first.
func (c *claim) compare(r *metrics.Result, choices, against []string) error {
	if !c.metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: it must be one that is measured per block, such as round", c.name)
	}
	all := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return metrics.Filters(against, key)
	})
	other, err := c.of(r, append(all, against...))
	switch {
	case err != nil:
		return fmt.Errorf("against: %w", err)
	case other.cell == c.own.cell:
		return errors.New("against: must choose another cell")
	}
	c.other, c.ratio = &other, c.own.cell.Ratio(c.name, other.cell)
	if !c.ratio.Known() {
		return fmt.Errorf("%s is not above 0 in every block, so there is no ratio: make a claim about each cell alone", c.name)
	}
	const alpha = 1 - stat.Confidence
	a, b := c.own.cell.Medians(c.name), other.cell.Medians(c.name)
	c.shown = stat.Test(a, b) <= alpha && (notOne(aboveOne(c.ratio)) || c.own.even && other.even && c.ratio.Excludes(1))
	// Most blocks of counts are equal, so the test alone would detect tiny ratios.
	c.detectable = max(stat.Detectable(a, b, alpha), c.ratio.High, 1/c.ratio.Low)
	return nil
}

func claimable(name string) (metrics.Metric, error) {
	m, ok := metrics.MetricNamed(name)
	if !ok {
		return m, fmt.Errorf("unknown metric %q: see ipcbench list metrics", name)
	}
	return m, nil
}

// checkSupport returns an error if the estimate i of a metric of c cannot support a claim.
func checkSupport(c *metrics.Cell, metric string, i stat.Interval) error {
	switch {
	case c.Unproved != "":
		return fmt.Errorf("%s is not proved: %s", c.Name(), c.Unproved)
	case c.Lacks() != "":
		return fmt.Errorf("%s lacks %s, which its project needs", c.Name(), c.Lacks())
	case !c.Proved():
		return fmt.Errorf("%s is not proved", c.Name())
	case c.Stopped == "interrupted":
		return fmt.Errorf("%s was interrupted", c.Name())
	case !i.Known():
		return fmt.Errorf("%s has no %s", c.Name(), metric)
	case i.Sure():
		return nil
	case len(c.Timed()) >= stat.Blocks && i.Confidence == 0:
		return fmt.Errorf("%s has no interval", metric)
	}
	return fmt.Errorf("too few blocks for a 95 %% interval of %s: must be at least %d, not %d (%s)", metric, stat.Blocks, i.Blocks, c.Name())
}

// shares returns parts as shares of wholes, by block: the mean of the one over the mean of the
// other. If both are about whole rounds, that is the ratio of their sums. It returns nil if a
// whole is not above 0.
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

// claimView is the name of a view that only markers can ask for.
const claimView = "claim"

// claimsSection returns a sentence for each of several claims, which are separated by ";".
func claimsSection(r *metrics.Result, words []string) (s doc.Section, err error) {
	for one := range strings.SplitSeq(strings.Join(words, " "), " ; ") {
		of, err := claimSection(r, strings.Fields(one))
		if err != nil {
			return s, err
		}
		s.Lead = appendNew(s.Lead, of.Lead)
	}
	return s, nil
}

// appendNew appends the paragraphs that are not in all, such as a remark about the cell of two claims.
func appendNew(all, more []doc.Paragraph) []doc.Paragraph {
	return append(all, slices.DeleteFunc(more, func(p doc.Paragraph) bool { return slices.Contains(all, p) })...)
}

// claimSection returns one sentence about a result, which can be quoted as it is. words are
// METRIC[/METRIC2] CHOICE… [against CHOICE…]. It returns an error if a finding says that the
// numbers cannot be used.
func claimSection(r *metrics.Result, words []string) (doc.Section, error) {
	at := slices.Index(words, "against")
	choices, against := words, []string(nil)
	if at >= 0 {
		choices, against = words[:at], words[at+1:]
	}
	if len(choices) < 2 || at >= 0 && len(against) == 0 {
		return doc.Section{}, errors.New("must be claim METRIC[/METRIC2] CHOICE... [against CHOICE...]")
	}
	c, err := newClaim(r, choices[0], choices[1:], against)
	if err != nil {
		return doc.Section{}, err
	}
	cells := []*metrics.Cell{c.own.cell}
	if c.other != nil {
		cells = append(cells, c.other.cell)
	}
	for _, f := range Findings(r) { // a contradictory result supports no claim
		if f.Severity == Error && (f.Measured == nil || slices.Contains(cells, f.Measured)) {
			return doc.Section{}, errors.New(FindingLine(f))
		}
	}
	s := doc.Section{Lead: []doc.Paragraph{{Text: c.sentence(), Tone: doc.Strong}}}
	for _, of := range cells {
		found := of.Marks()
		found.Outliers = 0 // a median tolerates them, and its interval shows them
		for _, text := range textsOf(of, found) {
			s.Lead = append(s.Lead, doc.Say(strings.Join(inWords([]*metrics.Cell{of}), ", ")+": "+text+".")...)
		}
	}
	return s, nil
}

// sentence returns the claim in words. If it compares two cells, the first one is the faster,
// or has the higher number, so that the ratio is at least 1.
func (c *claim) sentence() string {
	const kind = "95 % interval "
	verb, noun := nounOf(c.metric)
	unit, own := strings.TrimSuffix(c.metric.Unit, "/round"), c.own
	if strings.HasPrefix(noun, "the share of ") {
		unit = "%"
	}
	if c.other == nil {
		share := ""
		if c.whole != nil {
			_, whole := nounOf(*c.whole)
			unit, share = "%", " of "+whole
		}
		return fmt.Sprintf("With %s, %s %s %s%s%s, %s.", own.cell.Uncoded(), noun, verb, own.amount(unit, kind), share,
			described("", namingOf([]*metrics.Cell{own.cell}, "transport").common, own.cell), doc.Plural(own.value.Blocks, "block"))
	}
	other, ratio := *c.other, c.ratio
	if (verb == "takes") == (ratio.Center > 1) { // the faster one, or the higher number, is first
		own, other = other, own
	}
	ratio = aboveOne(ratio)
	of := namingOf([]*metrics.Cell{own.cell, other.cell})
	behind := described("", of.common, own.cell) + ", " + doc.Plural(own.value.Blocks, "block") + " each"
	if a, b := own.value.Blocks, other.value.Blocks; a != b {
		behind = described("", of.common, own.cell) + fmt.Sprintf(", %d and %d blocks", a, b)
	}
	exact, and, per := own.even && other.even, " and ", ""
	if c.metric.Name == "round" && (of.apart == nil || of.apart[0].Name == "transport") {
		and, per = " with ", " per round" // shm-slab with workers in Python
	}
	text, than := strings.Join(phrases(of.apart, own.cell), and), " "+strings.Join(phrases(of.apart, other.cell), and)
	if per == "" {
		text, than = "With "+text+", "+noun, " with"+than
	}
	if exact && own.value.Center == other.value.Center {
		return text + " " + verbs[verb].same + than + ": " + own.amount(unit, "") + behind + "."
	}
	text += " " + fmt.Sprintf(verbs[verb].times, doc.Quantity("1", ratio.Center)) + than
	if !exact {
		text += fmt.Sprintf(" (%s%s to %s)", kind, doc.Quantity("1", ratio.Low), doc.Quantity("1", ratio.High))
	}
	text += ": " + own.amount(unit, "") + per + " instead of " + other.amount(unit, "") + behind
	if c.shown {
		return text + "."
	}
	return "Not shown: " + strings.Replace(text, "With ", "with ", 1) + "; a difference of " + doc.Percent(c.detectable-1) + " would have shown."
}

// aboveOne returns a ratio or its inverse, as sentences have it.
func aboveOne(ratio stat.Interval) stat.Interval {
	if ratio.Center < 1 {
		return ratio.Map(func(x float64) float64 { return 1 / x })
	}
	return ratio
}

// amount writes an estimate, with kind before its bounds. A value that is the same in all
// blocks has no bounds.
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

// A naming has the axes on which cells differ, and the axes on which they have the same value,
// other than the usual one.
type naming struct{ apart, common []metrics.Axis }

// labelAxes are the axes that a cell's label names, and the build.
var labelAxes = []string{"transport", "codec", "language", "program"}

// namingOf compares cells on all axes except some.
func namingOf(cells []*metrics.Cell, except ...string) (n naming) {
	for _, a := range axes(except...) {
		switch kinds := metrics.GroupBy(cells, func(c *metrics.Cell) string { return phrase(a, c) }); {
		case a.Name == "respawn" && !slices.ContainsFunc(cells, func(c *metrics.Cell) bool { return c.Respawn }): // a peer may differ in it unknown
		case len(kinds) > 1:
			n.apart = append(n.apart, a)
		case len(kinds) == 1 && a.Of(cells[0]) != a.Usual:
			n.common = append(n.common, a)
		}
	}
	return n
}

// described returns first and the phrases of a cell on axes, separated by commas.
func described(first string, of []metrics.Axis, c *metrics.Cell) string {
	return strings.Join(append([]string{first}, phrases(of, c)...), ", ")
}

// phrases describe a cell on axes. Axes without a phrase are left out.
func phrases(of []metrics.Axis, c *metrics.Cell) (all []string) {
	for _, a := range of {
		if text := phrase(a, c); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// phrase describes a cell on an axis, for example as "2 workers". It is empty if the axis does
// not apply to the cell.
func phrase(a metrics.Axis, c *metrics.Cell) string {
	switch value := a.Of(c); {
	case (a.Name == "language" || a.Name == "respawn") && c.IsPeer(): // unknown of a peer
		return ""
	case a.Name == "transport":
		return c.Uncoded()
	case a.Name == "workers" && c.PerProcess > 1 && !c.IsControl():
		return value + " workers" + inProcesses(c)
	case a.Name == "workers" && c.Workers == 1 || a.Name == "clients" && c.Clients == 1:
		return "1 " + strings.TrimSuffix(a.Name, "s")
	case a.Else != "" && value == a.Usual:
		return a.Else
	default:
		return strings.Replace(a.Words, "%s", value, 1)
	}
}

// inProcesses returns the number of processes that host the workers of c.
func inProcesses(c *metrics.Cell) string {
	n := (c.Workers + c.PerProcess - 1) / c.PerProcess
	return fmt.Sprintf(" in %d process", n) + unless(n == 1, "es")
}

// verbs are the predicates of comparisons, by the verb of nounOf: with a ratio for %s, and for
// equal numbers.
var verbs = map[string]struct{ times, same string }{
	"takes": {"is %s times as fast as", "takes as long as"},
	"is":    {"is %s times as high as", "is the same as"},
	"are":   {"are %s times as many as", "are the same as"},
}

// nounOf returns a metric as a noun in a sentence, and the verb between it and an amount. If
// the metric is per round, the noun says so, and the unit need not.
func nounOf(m metrics.Metric) (verb, text string) {
	if known := map[string]string{
		"round": "takes a round", "cold_round": "takes the first round of a session", "spawn": "takes starting the workers",
		"transfer": "takes a client's transfer", "rtt": "takes a client's round trip", "train": "takes a client's training",
		"reconstruct": "takes reassembling a client's update", "restart": "is the share of a round in which its workers start and end",
		"down": "takes a client's downlink", "uplink": "takes a client's uplink", "up": "takes a client's training and uplink",
		"cpu_per_round": "is the CPU time per round", "cpu_server": "is the server's CPU time per round",
		"cpu_per_gb": "is the CPU time of delivered data", "rpcs": "are requests per round",
		"rpcs_tensors": "are requests per round that carry tensors", "connections": "are connections opened per round",
		"connecting":      "takes waiting for connections in a round, added up over workers,",
		"handshaking":     "takes waiting for handshakes in a round, added up over workers,",
		"in_service":      "is the mean number of requests in service",
		"in_service_most": "is the highest number of requests in service at once",
		"queued_share":    "is the share of requests that wait for a thread of the server",
		"phase.queue":     "takes waiting for threads of the server in a round, added up over requests,",
		"queue_wait":      "takes waiting for a processor in a round, added up over threads,",
		"attested":        "is the share of tensors that used the transport's own mechanism",
		"cache_growth":    "is the growth of the workers' caches per round",
		"communication":   "is the share of a client's round trip that is not training", "overhead": "is the overhead per round",
		"peak_rss": "is the peak memory of all processes", "peak_rss_server": "is the server's peak memory",
		"peak_rss_workers": "is the largest worker's peak memory",
		"queued":           "takes one client's waiting for threads of the server", "cold_work": "takes a cold round without starting the workers",
		"speedup_round": "is the speed-up of a round", "speedup_transfer": "is the speed-up of a client's transfer",
		"moving_share": "is the share of a round that moving tensors takes",
		"start_ratio":  "is the ratio of starting the workers to a cold round",
	}[m.Name]; known != "" {
		verb, text, _ = strings.Cut(known, " ")
		return verb, text
	}
	if of, p, ok := strings.Cut(m.Name, "_p9"); ok {
		_, text = nounOf(metrics.Metric{Name: of})
		return "is", "the 9" + p + "th percentile of " + text
	}
	verb, text = "is", strings.ReplaceAll(m.Name, "_", " ")
	if strings.HasSuffix(m.Name, "s") {
		verb = "are"
	}
	unit, perRound := strings.CutSuffix(m.Unit, "/round")
	if perRound {
		text += " per round"
	}
	if unit == "s" {
		verb = "takes"
	}
	if phase, ok := strings.CutPrefix(text, "phase."); ok {
		text = "phase " + phase + ", added up over all processes,"
	}
	return verb, text
}
