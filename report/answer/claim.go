package answer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ipcbench/bench/stat"
	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// A claim is one metric of a cell, or its contrast with the same metric of another cell. All
// intervals are 95 % confidence intervals.
type claim struct {
	text string
	err  error  // why the claim cannot be made; its contrast is then of no cells
	name string // METRIC or METRIC/METRIC2

	whole           *metrics.Metric // the metric is a share of this one; nil if it is no share
	trainings       []time.Duration // the share is computed for this much more training; nil if it is measured
	contrast.Judged                 // without Against for a claim about one cell, which is not tested

	again   *claim         // the same claim in a second run; nil if there is none
	between contrast.Again // both runs
	later   time.Duration  // from the first run to the second
}

// claimsOf reads claims, and judges their contrasts as one family.
func claimsOf(r *metrics.Result, place string, texts []string) []*claim {
	untested := contrast.Contrast{P: math.NaN(), More: stat.None()}
	claims := doc.Each(texts, func(text string) *claim {
		c := &claim{text: text, Judged: contrast.Judged{Contrast: untested}}
		if c.err = c.read(r, strings.Fields(text)); c.err != nil {
			c.Contrast = untested
		}
		return c
	})
	family := doc.Each(claims, func(c *claim) contrast.Contrast { return c.Contrast })
	for i, judged := range contrast.Judge(place, contrast.Alpha, family) {
		claims[i].Judged = judged
	}
	return claims
}

// pick returns the one cell that passes all filters, as in [metrics.Result.Narrow]. If they leave
// several, cells with the usual value of every axis without a filter are preferred. It returns an
// error if none or several are left.
func pick(r *metrics.Result, filters []string) (*metrics.Cell, error) {
	left := r.With(slices.Clone(r.Cells))
	if err := left.Narrow(filters); err != nil {
		return nil, err
	}
	usual := table.Only(left.Cells, func(c *metrics.Cell) bool {
		return !slices.ContainsFunc(metrics.Axes(), func(a metrics.Axis) bool {
			return a.Usual != "" && a.Of(c) != a.Usual && !metrics.Filters(filters, a.Name)
		})
	})
	if len(usual) > 0 {
		left.Cells = usual
	}
	if n := len(left.Cells); n != 1 {
		names := table.Clip(doc.Each(left.Cells, (*metrics.Cell).Name), 6)
		return nil, fmt.Errorf("%q: must leave one cell, not %d: %s", strings.Join(filters, " "), n, strings.Join(names, "; "))
	}
	return left.Cells[0], nil
}

// read reads METRIC[/METRIC2] CHOICE… [against CHOICE…], or moving_share CHOICE… computed TIME…. The
// choices must leave one cell. For the second cell, choices after against replace the ones with the
// same key. It returns an error if a cell has no 95 % interval, or if something forbids to show the
// difference.
func (c *claim) read(r *metrics.Result, words []string) (err error) {
	if words, err = c.compute(words); err != nil {
		return err
	}
	choices, against := words, []string(nil)
	at := slices.Index(words, "against")
	if at >= 0 {
		choices, against = words[:at], words[at+1:]
	}
	if len(choices) < 2 || at >= 0 && len(against) == 0 {
		return errors.New("must be claim METRIC[/METRIC2] CHOICE... [against CHOICE...]")
	}
	c.name, choices = choices[0], choices[1:]
	part, whole, isShare := strings.Cut(c.name, "/")
	if c.Metric, err = claimable(part); err == nil && isShare {
		err = c.shareOf(whole, against)
	}
	if err != nil {
		return err
	}
	if c.Cell, err = c.cell(r, choices); err != nil {
		return err
	}
	c.Marks = contrast.Marks(c.Cell)
	if len(against) > 0 {
		if err := c.compare(r, choices, against); err != nil {
			return err
		}
	}
	for _, f := range Findings(r) { // a contradictory result supports no claim
		if f.Severity == Error && (f.Measured == nil || slices.Contains(c.cells(), f.Measured)) {
			return errors.New(FindingLine(f))
		}
	}
	return nil
}

// compute makes the claim one that is computed for the times after that word, if there is one. It
// returns the words before it.
func (c *claim) compute(words []string) ([]string, error) {
	at := slices.Index(words, "computed")
	if at < 0 {
		return words, nil
	}
	if at == len(words)-1 || words[0] != "moving_share" || slices.Contains(words, "against") {
		return nil, errors.New("must be claim moving_share CHOICE... computed TIME..., such as computed 1s 10s")
	}
	for _, word := range words[at+1:] {
		training, err := time.ParseDuration(word)
		if err != nil || training <= 0 {
			return nil, fmt.Errorf("computed: %q must be a time, such as 1s", word)
		}
		c.trainings = append(c.trainings, training)
	}
	return words[:at], nil
}

// computed returns such a claim in words.
func (c *claim) computed() string {
	return fmt.Sprintf("Computed from rounds without it, not measured: with %s and %s more of training, moving tensors takes %s of a round%s.",
		c.Cell.Uncoded(), doc.List(doc.Each(c.trainings, time.Duration.String)), c.amount(c.Cell, "95 % interval "),
		c.scope(table.NamingOf(c.cells(), "transport").Common)+c.secondly(nil))
}

// shareOf makes the claim one about a share of a metric.
func (c *claim) shareOf(name string, against []string) error {
	whole, err := claimable(name)
	switch {
	case err != nil:
		return err
	case !c.Metric.Sampled() || !whole.Sampled():
		return fmt.Errorf("%s: both metrics of a share must be measured per block", c.name)
	case strings.TrimSuffix(c.Metric.Unit, "/round") != strings.TrimSuffix(whole.Unit, "/round"):
		return fmt.Errorf("%s: both metrics of a share must have one unit: %s is in %s, %s in %s",
			c.name, c.Metric.Name, c.Metric.Unit, name, whole.Unit)
	case len(against) > 0:
		return fmt.Errorf("%s: a share is about one cell, so it cannot have against", c.name)
	}
	c.whole = &whole
	return nil
}

func (c *claim) cells() []*metrics.Cell {
	if c.Against == nil {
		return []*metrics.Cell{c.Cell}
	}
	return []*metrics.Cell{c.Cell, c.Against}
}

// value returns the metric or the share of a cell, and whether it is the same in all blocks, as
// counts often are.
func (c *claim) value(cell *metrics.Cell) (value stat.Interval, even bool) {
	if !c.Metric.Sampled() {
		return cell.Of(c.Metric.Name), false
	}
	blocks := cell.Samples(c.Metric.Name)
	if c.whole != nil {
		blocks = shares(blocks, cell.Samples(c.whole.Name))
	}
	medians := stat.Medians(blocks)
	return stat.Of(blocks), len(medians) > 0 && slices.Min(medians) == slices.Max(medians)
}

// cell returns the one cell of choices. It returns an error if its value cannot support the claim.
func (c *claim) cell(r *metrics.Result, choices []string) (*metrics.Cell, error) {
	cell, err := pick(r, choices)
	if err != nil {
		return nil, err
	}
	value, _ := c.value(cell)
	switch reasons := contrast.Unusable(cell); {
	case c.whole != nil && value.High > 1:
		return nil, fmt.Errorf("%s of %s is above 1: %s is a sum over workers or requests, not a part of %s",
			c.name, cell.Name(), c.Metric.Name, c.whole.Name)
	case reasons != nil:
		return nil, errors.New(doc.List(reasons))
	case !value.Known():
		return nil, fmt.Errorf("%s has no %s", cell.Name(), c.name)
	case value.Sure():
		return cell, nil
	case len(cell.Timed()) >= stat.Blocks && value.Confidence == 0:
		return nil, fmt.Errorf("%s has no interval", c.name)
	}
	return nil, fmt.Errorf("too few blocks for a 95 %% interval of %s: must be at least %d, not %d (%s)",
		c.name, stat.Blocks, value.Blocks, cell.Name())
}

// compare adds the second cell.
func (c *claim) compare(r *metrics.Result, choices, against []string) error {
	if !c.Metric.Sampled() {
		return fmt.Errorf("metric %q cannot be compared: it must be one that is measured per block, such as round", c.name)
	}
	kept := table.Only(choices, func(choice string) bool {
		key, _, _ := strings.Cut(choice, "=")
		return !metrics.Filters(against, key)
	})
	other, err := c.cell(r, append(kept, against...))
	switch {
	case err != nil:
		return fmt.Errorf("against: %w", err)
	case other == c.Cell:
		return errors.New("against: must choose another cell")
	}
	c.Contrast = contrast.New(c.name, c.Cell, other)
	switch {
	case !c.Ratio.Known():
		return fmt.Errorf("%s is not above 0 in every block, so there is no ratio: make a claim about each cell alone", c.name)
	case c.Forbids != nil:
		return errors.New(doc.List(c.Forbids))
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
// family, unless a question of the result asks them. If there is a second run, each also says what that gave.
func ClaimsSection(r, second *metrics.Result, words []string) (s doc.Section, err error) {
	claims, err := judgedClaims(r, words)
	if err != nil {
		return s, err
	}
	if second != nil {
		again, err := judgedClaims(second, words)
		if err != nil {
			return s, fmt.Errorf("in the second run: %w", err)
		}
		claims = repeated(r, second, claims, again)
	}
	for _, c := range claims {
		s.Lead = appendNew(s.Lead, c.paragraphs(r))
	}
	return s, nil
}

func judgedClaims(r *metrics.Result, words []string) ([]*claim, error) {
	claims := claimsOf(r, "of these sentences", strings.Split(strings.Join(words, " "), " ; "))
	for _, c := range claims {
		if c.err != nil {
			return nil, c.err
		}
		if judged := askedOf(r, c.Contrast); judged != nil {
			c.Judged = *judged
		}
	}
	return claims, nil
}

// appendNew appends the paragraphs that are not in all, such as a remark about the cell of two claims.
func appendNew(all, more []doc.Paragraph) []doc.Paragraph {
	return append(all, slices.DeleteFunc(more, func(p doc.Paragraph) bool { return slices.Contains(all, p) })...)
}

// paragraphs returns one sentence, which can be quoted as it is, and remarks about its cells.
func (c *claim) paragraphs(r *metrics.Result) []doc.Paragraph {
	all := []doc.Paragraph{{Text: c.sentence(r), Tone: doc.Strong}}
	remark := func(cell *metrics.Cell, text string) {
		all = append(all, doc.Say(strings.Join(inWords([]*metrics.Cell{cell}), ", ")+": "+text+".")...)
	}
	for _, m := range c.Marks {
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
	switch {
	case c.trainings != nil:
		return c.computed()
	case c.Against == nil:
		return c.aboutOne()
	}
	verb, noun := c.Metric.Noun()
	x, turned := c.Judged, c.Ratio.Center < 1 // whether the subject of the sentence is the second cell
	if turned {
		x = x.Inverse()
	}
	if x.Equal {
		x.Ratio.Confidence = 0
	}
	naming := table.NamingOf(c.cells())
	with, per, than, and := "With ", "", "with ", " and "
	if c.Metric.Name == "round" && (naming.Apart == nil || naming.Apart[0].Name == "transport") {
		with, noun, per, than, and = "", "", " per round", "", " with " // shm-slab with workers in Python
	}
	name := func(cell *metrics.Cell) string { return strings.Join(table.Phrases(naming.Apart, cell), and) }
	subject := func(cell *metrics.Cell) string { return with + name(cell) + table.Unless(noun == "", ", "+noun) }
	amounts := func(first, second *metrics.Cell) string {
		return ": " + c.amount(first, "") + per + " instead of " + c.amount(second, "") + c.scope(naming.Common)
	}
	predicate := func(second contrast.Judged) string {
		if turned {
			second = second.Inverse()
		}
		if !second.Shown {
			return contrast.Range(c.Metric, second.Ratio) + ", not shown"
		}
		return contrast.Effect(c.Metric, second.Ratio)
	}
	text, doubt := "", x.Doubt()
	switch {
	case x.Equal && x.More.Center == 0:
		return subject(x.Cell) + " " + equals[verb] + " " + than + name(x.Against) + ": " + c.amount(x.Cell, "") + c.scope(naming.Common) + c.secondly(nil) + "."
	case !x.Shown && doubt == "":
		predicate = func(second contrast.Judged) string { return contrast.Range(c.Metric, second.Ratio) }
		text = "Not shown: with " + name(c.Cell) + " instead of " + name(c.Against) + ", " + cmp.Or(noun, "a round") + " " +
			contrast.Range(c.Metric, c.Ratio) + " (95 % interval)" + amounts(c.Cell, c.Against)
	case verb == "takes" && x.Ratio.Center >= contrast.InPercent:
		turned = !turned
		text = subject(x.Against) + " is " + doc.Quantity("1", x.Ratio.Center) + " times as fast as " + than + name(x.Cell) +
			contrast.Interval("1", x.Ratio) + amounts(x.Against, x.Cell)
	default:
		as := " than "
		if x.Ratio.Center >= contrast.InPercent {
			as = " as "
		}
		text = subject(x.Cell) + " " + contrast.Effect(c.Metric, x.Ratio) + as + than + name(x.Against) + amounts(x.Cell, x.Against)
	}
	if doubt != "" {
		text = strings.ToUpper(doubt[:1]) + doubt[1:] + ": " + strings.Replace(text, "With ", "with ", 1)
	}
	return text + elsewhere(r, x) + c.secondly(predicate) + "."
}

// aboutOne returns a claim about one cell in words. A share of a step has the training time in
// its subject, because it depends on that.
func (c *claim) aboutOne() string {
	verb, noun := c.Metric.Noun()
	share, trained := "", ""
	if c.whole != nil {
		_, whole := c.whole.Noun()
		share = " of " + whole
	}
	except := []string{"transport"}
	if train := c.Cell.Of("train"); c.ofTime() && train.Known() {
		except = append(except, "train-ms")
		trained = " and " + doc.Quantity("s", train.Center) + " of training"
	}
	return fmt.Sprintf("With %s%s, %s %s %s%s%s.", c.Cell.Uncoded(), trained, noun, verb, c.amount(c.Cell, "95 % interval "), share,
		c.scope(table.NamingOf(c.cells(), except...).Common)+c.secondly(nil))
}

// ofTime reports whether the claim is a share of a time that includes training.
func (c *claim) ofTime() bool {
	if c.whole != nil {
		return strings.HasPrefix(c.whole.Unit, "s")
	}
	return c.Metric.Name == "moving_share" || c.Metric.Name == "communication"
}

// equals are the predicates for equal numbers, by the verb of a metric.
var equals = map[string]string{"takes": "takes as long as", "is": "is the same as", "are": "are the same as"}

// scope says what the claim is about, on the axes that its cells have in common: the numbers of
// blocks, and of rounds in each, and of codecs what codecText says.
func (c *claim) scope(common []metrics.Axis) string {
	cells, blocks, each := c.cells(), doc.Plural(len(c.Cell.Timed()), "block"), ""
	if c.Against != nil {
		each = " each"
		if a, b := len(c.Cell.Timed()), len(c.Against.Timed()); a != b {
			blocks = fmt.Sprintf("%d and %d blocks", a, b)
		}
	}
	least, most := metrics.RoundsPerBlock(cells...)
	text := table.Described("", common, c.Cell) + ", " + blocks + " of " + table.Between(least, most, "round") + each
	if when := c.Cell.When(); when != "" {
		text += ", " + when + table.Unless(!c.ByCycle, ", compared in each cycle")
	}
	return text + codecText(cells)
}

// codecText says what a reader must know of cells with codecs: what each loses, and that the values are
// generated. It begins with a comma, and is empty without codecs.
func codecText(cells []*metrics.Cell) (text string) {
	for _, cell := range cells {
		lost := 0.0
		for _, name := range []string{"error_down_rms", "error_up_rms"} {
			if rms := cell.Of(name).Center; rms > lost { // not if it is unknown
				lost = rms
			}
		}
		loses := ", " + cell.Codec() + " loses " + doc.Quantity("%", lost) + " (RMS)"
		if lost > 0 && !strings.Contains(text, loses) { // both cells may lose the same
			text += loses
		}
	}
	if slices.ContainsFunc(cells, func(c *metrics.Cell) bool { return c.Encoded() && c.Train == "" }) {
		text += ", values generated, not trained"
	}
	return text
}

// amount writes the value of a cell, or what is computed for it, with kind before the first bounds. A value that is the same
// in all blocks has no bounds. Bytes of a model that is named in powers of 1024 are in these, too.
func (c *claim) amount(cell *metrics.Cell, kind string) string {
	if c.trainings != nil {
		shares := doc.Each(c.trainings, func(more time.Duration) string { return doc.Bounded("%", cell.MovingShare(more.Seconds())) })
		return strings.Replace(doc.List(shares), "(", "("+kind, 1)
	}
	value, even := c.value(cell)
	unit := strings.TrimSuffix(c.Metric.Unit, "/round")
	if _, noun := c.Metric.Noun(); c.whole != nil || strings.HasPrefix(noun, "the share of ") {
		unit = "%"
	} else if unit == "B" {
		unit = table.BytesUnit(c.Cell.Model) // one unit for both cells
	}
	switch x := value.Center; {
	case even && x == 0:
		return "exactly 0"
	case !even:
		return strings.Replace(doc.Bounded(unit, value), "(", "("+kind, 1)
	case unit == "1" && x == math.Round(x):
		return "exactly " + strconv.FormatFloat(x, 'f', -1, 64)
	default:
		return doc.Quantity(unit, x) + " in every block"
	}
}
