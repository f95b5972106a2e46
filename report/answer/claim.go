package answer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A claim is one metric of a cell, or its contrast with the same metric of another cell. All
// intervals are 95 % confidence intervals.
type claim struct {
	name    string // METRIC or METRIC/METRIC2
	metric  metrics.Metric
	whole   *metrics.Metric // the metric is a share of this one; nil if it is no share
	subject side
	against *side // nil for a claim about one cell; then judged is unset
	judged  contrast.Judged
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
		names := table.Clip(table.Each(left.Cells, (*metrics.Cell).Name), 6)
		return nil, fmt.Errorf("%q: must leave one cell, not %d: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// newClaim reads METRIC[/METRIC2] CHOICE… [against CHOICE…]. The choices must leave one cell. For
// the second cell, choices after against replace the ones with the same key. It returns an error if a
// cell has no 95 % interval, or if something forbids to show the difference. The claim is judged as
// the only one of its family.
func newClaim(r *metrics.Result, text string) (c claim, err error) {
	words := strings.Fields(text)
	choices, against := words, []string(nil)
	at := slices.Index(words, "against")
	if at >= 0 {
		choices, against = words[:at], words[at+1:]
	}
	if len(choices) < 2 || at >= 0 && len(against) == 0 {
		return c, errors.New("must be claim METRIC[/METRIC2] CHOICE... [against CHOICE...]")
	}
	c.name, choices = choices[0], choices[1:]
	part, whole, isShare := strings.Cut(c.name, "/")
	if c.metric, err = claimable(part); err != nil {
		return c, err
	}
	if isShare {
		if c.whole, err = c.shareOf(whole, against); err != nil {
			return c, err
		}
	}
	if c.subject, err = c.side(r, choices); err == nil && len(against) > 0 {
		err = c.compare(r, choices, against)
	}
	if err != nil {
		return c, err
	}
	for _, f := range Findings(r) { // a contradictory result supports no claim
		if f.Severity == Error && (f.Measured == nil || slices.Contains(c.cells(), f.Measured)) {
			return c, errors.New(FindingLine(f))
		}
	}
	return c, nil
}

// shareOf returns the metric of which the claim's is a share.
func (c *claim) shareOf(name string, against []string) (*metrics.Metric, error) {
	whole, err := claimable(name)
	switch {
	case err != nil:
		return nil, err
	case !c.metric.Sampled() || !whole.Sampled():
		return nil, fmt.Errorf("%s: both metrics of a share must be measured per block", c.name)
	case strings.TrimSuffix(c.metric.Unit, "/round") != strings.TrimSuffix(whole.Unit, "/round"):
		return nil, fmt.Errorf("%s: both metrics of a share must have one unit: %s is in %s, %s in %s",
			c.name, c.metric.Name, c.metric.Unit, name, whole.Unit)
	case len(against) > 0:
		return nil, fmt.Errorf("%s: a share is about one cell, so it cannot have against", c.name)
	}
	return &whole, nil
}

func (c *claim) cells() []*metrics.Cell {
	if c.against == nil {
		return []*metrics.Cell{c.subject.cell}
	}
	return []*metrics.Cell{c.subject.cell, c.against.cell}
}

// side returns the side of the one cell of choices.
func (c *claim) side(r *metrics.Result, choices []string) (s side, err error) {
	if s.cell, err = pick(r, choices); err != nil {
		return s, err
	}
	s.value = s.cell.Of(c.metric.Name)
	if c.metric.Sampled() {
		blocks := s.cell.Samples(c.metric.Name)
		if c.whole != nil {
			blocks = shares(blocks, s.cell.Samples(c.whole.Name))
		}
		medians := stat.Medians(blocks)
		s.value = stat.Of(blocks)
		s.even = len(medians) > 0 && slices.Min(medians) == slices.Max(medians) // as counts often are
	}
	if c.whole != nil && s.value.High > 1 {
		return s, fmt.Errorf("%s of %s is above 1: %s is a sum over workers or requests, not a part of %s",
			c.name, s.cell.Name(), c.metric.Name, c.whole.Name)
	}
	return s, supports(s.cell, c.name, s.value)
}

// supports returns an error if the estimate of a metric of c cannot support a claim.
func supports(c *metrics.Cell, metric string, estimate stat.Interval) error {
	switch reasons := contrast.Unusable(c); {
	case reasons != nil:
		return errors.New(doc.List(reasons))
	case !estimate.Known():
		return fmt.Errorf("%s has no %s", c.Name(), metric)
	case estimate.Sure():
		return nil
	case len(c.Timed()) >= stat.Blocks && estimate.Confidence == 0:
		return fmt.Errorf("%s has no interval", metric)
	}
	return fmt.Errorf("too few blocks for a 95 %% interval of %s: must be at least %d, not %d (%s)",
		metric, stat.Blocks, estimate.Blocks, c.Name())
}

// compare adds the second cell.
func (c *claim) compare(r *metrics.Result, choices, against []string) error {
	if !c.metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: it must be one that is measured per block, such as round", c.name)
	}
	kept := slices.DeleteFunc(slices.Clone(choices), func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return metrics.Filters(against, key)
	})
	other, err := c.side(r, append(kept, against...))
	switch {
	case err != nil:
		return fmt.Errorf("against: %w", err)
	case other.cell == c.subject.cell:
		return errors.New("against: must choose another cell")
	}
	c.against, c.judged = &other, contrast.Alone("of this sentence", contrast.New(c.name, c.subject.cell, other.cell))
	switch {
	case !c.judged.Ratio.Known():
		return fmt.Errorf("%s is not above 0 in every block, so there is no ratio: make a claim about each cell alone", c.name)
	case c.judged.Forbids != nil:
		return errors.New(doc.List(c.judged.Forbids))
	}
	return nil
}

func claimable(name string) (metrics.Metric, error) {
	m, ok := metrics.MetricNamed(name)
	if !ok {
		return m, fmt.Errorf("unknown metric %q: see ipcbench list metrics", name)
	}
	return m, nil
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

// ClaimView is the name of a view that only markers can ask for.
const ClaimView = "claim"

// ClaimsSection returns a sentence for each of several claims, which are separated by ";" and one
// family, unless a question of the result asks them.
func ClaimsSection(r *metrics.Result, words []string) (s doc.Section, err error) {
	var claims []*claim
	for text := range strings.SplitSeq(strings.Join(words, " "), " ; ") {
		c, err := newClaim(r, text)
		if err != nil {
			return s, err
		}
		claims = append(claims, &c)
	}
	judge("of these sentences", claims)
	for _, c := range claims {
		if c.against != nil {
			if asked := askedOf(r, c.judged.Contrast); asked != nil {
				c.judged = *asked
			}
		}
		s.Lead = appendNew(s.Lead, c.paragraphs(r))
	}
	return s, nil
}

// judge makes the contrasts of claims one family.
func judge(place string, claims []*claim) {
	compared := slices.DeleteFunc(slices.Clone(claims), func(c *claim) bool { return c.against == nil })
	family := table.Each(compared, func(c *claim) contrast.Contrast { return c.judged.Contrast })
	for i, j := range contrast.Judge(place, contrast.Alpha, family) {
		compared[i].judged = j
	}
}

// appendNew appends the paragraphs that are not in all, such as a remark about the cell of two claims.
func appendNew(all, more []doc.Paragraph) []doc.Paragraph {
	return append(all, slices.DeleteFunc(more, func(p doc.Paragraph) bool { return slices.Contains(all, p) })...)
}

// paragraphs returns one sentence, which can be quoted as it is, and remarks about its cells.
func (c *claim) paragraphs(r *metrics.Result) []doc.Paragraph {
	all := []doc.Paragraph{{Text: c.sentence(r), Tone: doc.Strong}}
	marks := c.judged.Marks
	if c.against == nil {
		marks = contrast.Marks(c.subject.cell)
	}
	remark := func(cell *metrics.Cell, text string) {
		all = append(all, doc.Say(strings.Join(inWords([]*metrics.Cell{cell}), ", ")+": "+text+".")...)
	}
	for _, m := range marks {
		if m.Kind != contrast.Scattered && m.Kind != contrast.FewRounds { // a median tolerates outliers, and the sentence has the rounds
			remark(m.Cell, m.Text)
		}
	}
	for _, f := range Findings(r) {
		if f.Rule == codecNeverPays && slices.Contains(c.cells(), f.Measured) {
			remark(f.Measured, f.Text)
		}
	}
	return all
}

// sentence returns the claim in words.
func (c *claim) sentence(r *metrics.Result) string {
	if c.against == nil {
		return c.aboutOne()
	}
	verb, noun := c.metric.Noun()
	x, larger, smaller := c.judged, c.subject, *c.against
	if x.Ratio.Center < 1 {
		x, larger, smaller = x.Inverse(), smaller, larger
	}
	naming := table.NamingOf(c.cells())
	name := func(s side) string { return strings.Join(table.Phrases(naming.Apart, s.cell), " and ") }
	with, per, than := "With ", "", "with "
	if c.metric.Name == "round" && (naming.Apart == nil || naming.Apart[0].Name == "transport") {
		with, noun, per, than = "", "", " per round", ""
		name = func(s side) string { return strings.Join(table.Phrases(naming.Apart, s.cell), " with ") } // shm-slab with workers in Python
	}
	subject := func(s side) string { return with + name(s) + table.Unless(noun == "", ", "+noun) }
	behind := table.Described("", naming.Common, larger.cell) + ", " + blocksText(c.cells()) + codecText(c.cells())
	amounts := func(first, second side) string {
		return ": " + first.amount(c.unit(), "") + per + " instead of " + second.amount(c.unit(), "") + behind
	}
	text := ""
	switch {
	case x.Equal && larger.value.Center == smaller.value.Center:
		return subject(larger) + " " + equals[verb] + " " + than + name(smaller) + ": " + larger.amount(c.unit(), "") + behind + "."
	case !x.Shown && x.Doubt() == "":
		first, second := c.subject, *c.against
		return "Not shown: with " + name(first) + " instead of " + name(second) + ", " + cmp.Or(noun, "a round") + " " +
			contrast.Range(c.metric, c.judged.Ratio) + " (95 % interval)" + amounts(first, second) + elsewhere(r, x) + "."
	case verb == "takes" && x.Ratio.Center >= contrast.InPercent:
		text = subject(smaller) + " is " + doc.Quantity("1", x.Ratio.Center) + " times as fast as " + than + name(larger) +
			table.Unless(x.Equal, contrast.Interval("1", x.Ratio)) + amounts(smaller, larger)
	default:
		as := " than "
		if x.Ratio.Center >= contrast.InPercent {
			as = " as "
		}
		ratio := x.Ratio
		if x.Equal {
			ratio.Confidence = 0
		}
		text = subject(larger) + " " + contrast.Effect(c.metric, ratio) + as + than + name(smaller) + amounts(larger, smaller)
	}
	if doubt := x.Doubt(); doubt != "" {
		text = strings.ToUpper(doubt[:1]) + doubt[1:] + ": " + strings.Replace(text, "With ", "with ", 1)
	}
	return text + elsewhere(r, x) + "."
}

// aboutOne returns a claim about one cell in words. A share of a step has the training time in
// its subject, because it depends on that.
func (c *claim) aboutOne() string {
	verb, noun := c.metric.Noun()
	unit, share, trained := c.unit(), "", ""
	cell := c.subject.cell
	if c.whole != nil {
		_, whole := c.whole.Noun()
		unit, share = "%", " of "+whole
	}
	except := []string{"transport"}
	if c.ofTime() && cell.Of("train").Known() {
		except = append(except, "train-ms")
		trained = " and " + doc.Quantity("s", cell.Of("train").Center) + " of training"
	}
	return fmt.Sprintf("With %s%s, %s %s %s%s%s, %s.", cell.Uncoded(), trained, noun, verb, c.subject.amount(unit, "95 % interval "), share,
		table.Described("", table.NamingOf(c.cells(), except...).Common, cell), blocksText(c.cells())+codecText(c.cells()))
}

// ofTime reports whether the claim is a share of a time that includes training.
func (c *claim) ofTime() bool {
	if c.whole != nil {
		return strings.HasPrefix(c.whole.Unit, "s")
	}
	return c.metric.Name == "moving_share" || c.metric.Name == "communication"
}

// unit returns the unit of the claim's amounts. Bytes of a model that is named in powers of 1024
// are in these, too.
func (c *claim) unit() string {
	if _, noun := c.metric.Noun(); strings.HasPrefix(noun, "the share of ") {
		return "%"
	}
	unit := strings.TrimSuffix(c.metric.Unit, "/round")
	if unit == "B" {
		return table.BytesUnit(c.subject.cell.Model)
	}
	return unit
}

// equals are the predicates for equal numbers, by the verb of a metric.
var equals = map[string]string{"takes": "takes as long as", "is": "is the same as", "are": "are the same as"}

// blocksText returns the numbers of blocks, and of rounds in each.
func blocksText(cells []*metrics.Cell) string {
	text, suffix := doc.Plural(len(cells[0].Timed()), "block"), ""
	if len(cells) > 1 {
		suffix = " each"
		if a, b := len(cells[0].Timed()), len(cells[1].Timed()); a != b {
			text = fmt.Sprintf("%d and %d blocks", a, b)
		}
	}
	least, most := cells[0].RoundsPerBlock()
	for _, c := range cells[1:] {
		low, high := c.RoundsPerBlock()
		least, most = min(least, low), max(most, high)
	}
	return text + " of " + table.Between(least, most, "round") + suffix
}

// codecText says what a reader must know of cells with a codec: what it loses, and that its values
// are generated, not trained.
func codecText(cells []*metrics.Cell) (text string) {
	for _, c := range cells {
		if lost := max(known(c.Of("error_down_rms")), known(c.Of("error_up_rms"))); lost > 0 {
			text += ", " + c.Codec() + " loses " + doc.Quantity("%", lost) + " (RMS)"
		}
	}
	if slices.ContainsFunc(cells, func(c *metrics.Cell) bool { return c.Encoded() && c.Train == "" }) {
		text += ", values generated, not trained"
	}
	return text
}

// known returns the center of an estimate, or 0 without one.
func known(i stat.Interval) float64 {
	if !i.Known() {
		return 0
	}
	return i.Center
}

// amount writes an estimate, with kind before its bounds. A value that is the same in all
// blocks has no bounds.
func (s side) amount(unit, kind string) string {
	switch x := s.value.Center; {
	case s.even && x == 0:
		return "exactly 0"
	case !s.even:
		return strings.Replace(doc.Bounded(unit, s.value), "(", "("+kind, 1)
	case unit == "1" && x == math.Round(x):
		return "exactly " + strconv.FormatFloat(x, 'f', -1, 64)
	default:
		return doc.Quantity(unit, x) + " in every block"
	}
}
