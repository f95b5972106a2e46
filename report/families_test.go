package report_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/bench/stat"
	"ipcbench/internal/test/check"
	"ipcbench/report"
	"ipcbench/report/contrast"
	"ipcbench/report/metrics"
)

// TestFamilies: all places that compare two cells by a metric agree on ratio, interval, p and marks, and each of them
// says what Holm's method shows in its own family. Where a question and a ranking disagree, both are named.
func TestFamilies(t *testing.T) {
	results := 1000
	if testing.Short() {
		results = 200
	}
	for seed := range uint64(results) {
		r := rand.New(rand.NewPCG(68, seed))
		p := places{
			TB: t, seed: seed, result: randomResult(r), cells: map[string]*metrics.Cell{},
			ranked: map[string]contrast.Judged{}, asked: map[string]contrast.Judged{}, views: map[string][]string{},
		}
		for _, c := range metrics.New(p.result).Cells {
			p.cells[chosen(c.Cell)] = c
		}
		p.tables()
		p.sentences(r)
		if r.IntN(8) == 0 {
			p.separate(randomResult(rand.New(rand.NewPCG(68, seed))), randomResult(rand.New(rand.NewPCG(69, seed))))
		}
		if t.Failed() {
			return // one result says enough
		}
	}
	check.That(t, disagreed > 0, "no question and no ranking disagreed, so the sentences about that were not tested")
}

// places has a random result, and what its places must say.
type places struct {
	testing.TB
	seed   uint64
	result *result.Result
	cells  map[string]*metrics.Cell   // by choices
	ranked map[string]contrast.Judged // by their claims
	asked  map[string]contrast.Judged // by questions
	views  map[string][]string        // what the sentences of other views must say
}

// choices chooses a cell for a claim.
func choices(variant, model, language, program string) string {
	text := fmt.Sprintf("transport=%s model=%s language=%s", variant, model, language)
	if program != "" {
		text += " program=" + program
	}
	return text
}

// chosen returns the choices of a cell.
func chosen(c *result.Cell) string {
	return choices(c.Variant, c.Model.Name, cmp.Or(c.Language, "go"), c.Build())
}

// claimOf returns the claim about a contrast.
func claimOf(x contrast.Contrast) string {
	return x.Metric.Name + " " + chosen(x.Cell.Cell) + " against " + chosen(x.Against.Cell)
}

// contrast returns the contrast of a claim.
func (p places) contrast(claim string) contrast.Contrast {
	metric, sides, _ := strings.Cut(claim, " ")
	cell, against, _ := strings.Cut(sides, " against ")
	return contrast.New(metric, p.cells[cell], p.cells[against])
}

func (p places) that(ok bool, format string, values ...any) {
	p.Helper()
	check.That(p, ok, "result %d: "+format, append([]any{p.seed}, values...)...)
}

// judged tests a family as its place must, by other code than that of contrast.Judge.
func (p places) judged(place string, family []contrast.Contrast) (all []contrast.Judged) {
	corrected, among := holm(family)
	for i, x := range family {
		p.agrees(x)
		j := contrast.Judged{Contrast: x, Place: place, Among: among, P: corrected[i], Level: 0.05 / float64(max(1, among))}
		if x.Equal {
			j.Among = 0
		}
		j.Shown = differs(x, corrected[i]) && !p.forbidden(x)
		all = append(all, j)
	}
	return all
}

// holm returns the corrected p of each contrast of a family, and how many of them are tested.
func holm(family []contrast.Contrast) (corrected []float64, among int) {
	ps := make([]float64, len(family))
	for i, x := range family {
		if ps[i] = math.NaN(); !x.Equal {
			ps[i], among = x.P, among+1
		}
	}
	return stat.Holm(ps), among
}

// differs reports whether a contrast shows a difference unless something forbids it.
func differs(x contrast.Contrast, corrected float64) bool {
	return corrected <= 0.05 && (x.Ratio.Low > 1 || x.Ratio.High < 1) || x.Equal && x.Ratio.Center != 1
}

// agrees checks a contrast against that of the exchanged cells, and that it forbids what it must.
func (p places) agrees(x contrast.Contrast) {
	near := func(a, b stat.Interval) bool {
		apart := func(a, b float64) bool { return math.Abs(a-b) > 1e-9*math.Abs(a) }
		return !apart(a.Center, b.Center) && !apart(a.Low, b.Low) && !apart(a.High, b.High) && a.Confidence == b.Confidence
	}
	y := contrast.New(x.Metric.Name, x.Against, x.Cell)
	inverse := contrast.Judged{Contrast: x}.Inverse()
	alike := near(inverse.Ratio, y.Ratio) && near(inverse.More, y.More) && x.P == y.P && x.Equal == y.Equal
	p.that(alike && slices.Equal(marksOf(x), marksOf(y)), "%s: %+v\nthe other way round: %+v", claimOf(x), x, y)
	p.that((x.Forbids != nil) == p.forbidden(x), "%s: forbidden by %q", claimOf(x), x.Forbids)
}

// forbidden reports whether a difference must not be shown, from what randomResult put into the cells.
func (p places) forbidden(x contrast.Contrast) bool {
	return doubtful(p.result.Plan, x.Cell) || doubtful(p.result.Plan, x.Against) || few(x)
}

// doubtful reports whether no difference of a cell may be shown.
func doubtful(plan result.Plan, c *metrics.Cell) bool {
	extended := plan.Precision == 0 && len(c.Blocks) > plan.Blocks
	return c.Unproved != "" || c.Blocks[0].Proof.Updates == 0 || c.Stopped == "interrupted" || extended
}

// few reports whether there are too few blocks for an interval of 95 %.
func few(x contrast.Contrast) bool {
	return stat.Least(len(x.Cell.Blocks), len(x.Against.Blocks)) > 0.05
}

// marksOf returns the marks of a contrast and what forbids it as tables list them, but sorted.
func marksOf(x contrast.Contrast) []string {
	all := slices.Clone(x.Forbids)
	for _, m := range x.Marks {
		name := metrics.InLanguage(m.Cell.Variant, m.Cell.Language)
		if m.Cell.Unproved != "" {
			name += " (unproved)"
		}
		all = append(all, name+": "+m.Text)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

type estimate struct{ Median, Low, High, Confidence float64 }

// A row is one of a table for programs: of ranking, tls, gain or changes.
type row struct {
	Transport, Against, Model, Language, Program string
	Now, Instead, Project                        string
	Metric, Verdict                              string
	Rank                                         int
	TransferMore                                 *estimate `json:"transfer_more"`
	Ratio                                        *estimate
	RoundRatio                                   *estimate `json:"round_ratio"`
	TransferRatio                                *estimate `json:"transfer_ratio"`
	P                                            *float64
	Shown, Family                                string
	Marks                                        []string
}

// estimateOf returns a number as tables for programs have it.
func estimateOf(i stat.Interval) estimate { return estimate{i.Center, i.Low, i.High, i.Confidence} }

// checked compares a row with what its family must show.
func (p places) checked(got row, ratio *estimate, want contrast.Judged) {
	p.Helper()
	claim := claimOf(want.Contrast)
	p.that(ratio != nil && *ratio == estimateOf(want.Ratio), "%s: ratio %+v, want %+v", claim, ratio, want.Ratio)
	tested := got.P != nil
	p.that(tested != math.IsNaN(want.P) && (!tested || *got.P == want.P), "%s: tested %v, want p %v: %+v", claim, tested, want.P, got)
	slices.Sort(got.Marks)
	p.that(slices.Equal(slices.Compact(got.Marks), marksOf(want.Contrast)), "%s: marks %q", claim, got.Marks)
	shown, family := got.Shown == "yes", got.Family
	if got.Verdict != "" { // of a comparison, whose rows are one family
		shown, family = got.Verdict != "none shown", want.Family()
	}
	p.that(shown == want.Shown && family == want.Family(), "%s: shown %v %s, want %v %s",
		claim, shown, family, want.Shown, want.Family())
}

// A reading returns the claim of a row, and its ratio.
type reading func(row) (claim string, ratio *estimate)

// families compares the rows of a table with the contrasts that they must have. Rows of equal keys are one family.
func (p places) families(place string, rows []row, key func(row) string, of reading) (all []contrast.Judged) {
	p.Helper()
	for _, alike := range metrics.GroupBy(rows, key) {
		var family []contrast.Contrast
		for _, got := range alike {
			claim, _ := of(got)
			family = append(family, p.contrast(claim))
		}
		for i, want := range p.judged(place, family) {
			_, ratio := of(alike[i])
			p.checked(alike[i], ratio, want)
			all = append(all, want)
		}
	}
	return all
}

// together makes all rows one family.
func together(row) string { return "" }

// tables checks the tables for programs, and remembers the rankings.
func (p places) tables() {
	var b bytes.Buffer
	f, _ := report.FormatNamed("json")
	check.Must(p, f.Write(&b, p.result, report.Options{}))
	var got struct{ Ranking, TLS, Gain, Changes []row }
	check.Must(p, json.Unmarshal(b.Bytes(), &got))
	side := func(r row) string { return choices(r.Transport, r.Model, r.Language, r.Program) }
	for _, rows := range metrics.GroupBy(got.Ranking, func(r row) string { return r.Model + r.Program }) {
		metric, best := "round", side(rows[0])
		if rows[0].TransferMore != nil {
			metric = "transfer"
		}
		p.that(rows[0].Rank == 1, "the first of a ranking: %+v", rows[0])
		ranked := func(r row) (string, *estimate) { return metric + " " + side(r) + " against " + best, r.Ratio }
		for _, j := range p.families("of the ranking", rows[1:], together, ranked) {
			p.ranked[claimOf(j.Contrast)] = j
		}
	}
	largest := func(j contrast.Judged) bool { return j.Cell.Model.Name == p.result.Cells[0].Model.Name }
	tunnel := func(r row) (string, *estimate) {
		return "round " + side(r) + " against " + choices(r.Against, r.Model, r.Language, r.Program), r.RoundRatio
	}
	encrypted := slices.DeleteFunc(got.TLS, func(r row) bool { return r.Against == "" })
	var mutual []contrast.Contrast
	for _, j := range p.families("of this table", encrypted, func(r row) string { return r.Model }, tunnel) {
		if largest(j) && j.Cell.TLS() == metrics.MutualTLS {
			mutual = append(mutual, j.Contrast)
		}
	}
	for _, j := range p.judged("of these transports", mutual) {
		p.views["tls"] = append(p.views["tls"], " "+j.Says()+" over "+j.Against.Variant)
	}
	gain := func(r row) (string, *estimate) {
		sides := gainSides(r)
		transfer := p.contrast("transfer " + sides).Ratio
		p.that(r.TransferRatio == nil || *r.TransferRatio == estimateOf(transfer), "%s: transfer %+v", sides, transfer)
		return "round " + sides, r.RoundRatio
	}
	for _, j := range p.families("of this project", got.Gain, func(r row) string { return r.Project + r.Model }, gain) {
		if largest(j) {
			p.views["gain"] = append(p.views["gain"], " "+j.Inverse().Says()+": ")
		}
	}
	p.changes(got.Changes)
	p.that(len(got.Ranking) > 0 && (len(got.Changes) > 0 || len(got.TLS) > 0 && len(got.Gain) > 0), "empty tables")
	if p.result.Plan.Baseline == result.Base {
		o := report.CompareOptions{Metrics: []string{"round", "rtt", "cpu_per_round"}}
		p.changes(compared(p, check.Value(report.Compare(p.result, nil, o))(p)))
	}
}

// gainSides returns the sides of a claim about a row of gain.
func gainSides(r row) string {
	other, inGo := strings.CutSuffix(r.Instead, " and workers in Go")
	language := result.InPython
	if inGo {
		language = "go"
	}
	return choices(r.Now, r.Model, "go", "") + " against " + choices(other, r.Model, language, "")
}

// changes checks the rows of a comparison of two builds, which are one family.
func (p places) changes(rows []row) {
	p.families("of this comparison", rows, together, func(r row) (string, *estimate) {
		side := func(build string) string { return choices(r.Transport, r.Model, r.Language, build) }
		return r.Metric + " " + side(result.Head) + " against " + side(result.Base), r.Ratio
	})
}

// compared returns the rows of a comparison.
func compared(t testing.TB, c *report.Comparison) []row {
	var b bytes.Buffer
	check.Must(t, report.WriteComparison(&b, "json", c, report.ComparisonOptions{}))
	var got struct{ Changes []row }
	check.Must(t, json.Unmarshal(b.Bytes(), &got))
	return got.Changes
}

// separate compares two runs, whose differences are shown only if the user accepts that they took no turns.
func (p places) separate(base, head *result.Result) {
	for _, accepted := range []bool{false, true} {
		c, err := report.Compare(base, head, report.CompareOptions{Separate: accepted})
		if base.Plan.Baseline == result.Base || head.Plan.Baseline == result.Base {
			check.Fails(p, err, "an interleaved result holds both builds")
			return
		}
		check.Must(p, err)
		var family []contrast.Contrast
		for _, r := range c.Rows {
			family = append(family, r.Contrast)
		}
		corrected, _ := holm(family)
		for i, r := range c.Rows {
			forbidden := !accepted || doubtful(base.Plan, r.Against) || doubtful(head.Plan, r.Cell) || few(r.Contrast)
			p.that(forbidden == (r.Forbids != nil), "%s of two runs, accepted %v: %q", claimOf(r.Contrast), accepted, r.Forbids)
			want := differs(r.Contrast, corrected[i]) && !forbidden
			p.that(r.Shown == want, "%s of two runs, accepted %v: shown %v", claimOf(r.Contrast), accepted, r.Shown)
		}
	}
}

// answerable returns the contrasts of the claims that are not rejected.
func (p places) answerable(claims []string) (all []contrast.Contrast) {
	for _, claim := range claims {
		x := p.contrast(claim)
		if !p.forbidden(x) && x.Cell.Of(x.Metric.Name).Sure() && x.Against.Of(x.Metric.Name).Sure() {
			all = append(all, x)
		}
	}
	return all
}

// rendered returns the texts of markers in a Markdown file beside the result, without the escapes of Markdown.
func (p places) rendered(markers []string) (texts []string) {
	dir := p.TempDir()
	check.Must(p, p.result.WriteFile(filepath.Join(dir, "r.json")))
	page := filepath.Join(dir, "page.md")
	var b strings.Builder
	for _, marker := range markers {
		fmt.Fprintf(&b, "<!-- ipcbench: begin r.json %s -->\n<!-- ipcbench: end -->\n", marker)
	}
	check.Must(p, os.WriteFile(page, []byte(b.String()), 0o600))
	check.Value(report.Rewrite(dir))(p)
	plain := strings.NewReplacer("\\", "", "&lt;", "<").Replace(string(check.Value(os.ReadFile(page))(p)))
	for part := range strings.SplitSeq(plain, "<!-- ipcbench: begin ") {
		_, text, _ := strings.Cut(part, " -->\n")
		text, _, _ = strings.Cut(text, "<!-- ipcbench: end -->")
		texts = append(texts, text)
	}
	return texts[1:]
}

// sentences checks claims in a page, the answers to questions, and what verdicts say about them.
func (p places) sentences(r *rand.Rand) {
	var claims [][]contrast.Judged // the claims of each marker
	var questioned []string
	for _, q := range p.result.Questions {
		questioned = append(questioned, q.Claims...)
		judged := p.judged("of its question", p.answerable(q.Claims))
		for i, j := range judged {
			p.asked[claimOf(j.Contrast)], p.asked[claimOf(j.Inverse().Contrast)] = j, j.Inverse()
			if i == 0 {
				claims = append(claims, judged, []contrast.Judged{j.Inverse()})
			}
		}
	}
	if family := p.answerable(randomClaims(r, p.result)); len(family) > 0 {
		several := p.judged("of these sentences", family[:min(3, len(family))])
		for i, j := range several {
			if asked, ok := p.asked[claimOf(j.Contrast)]; ok {
				several[i] = asked
			}
		}
		claims = append(claims, several)
	}
	markers := []string{"verdict"}
	if len(p.result.Questions) > 0 {
		markers = append(markers, "answers")
	}
	first := len(markers) + len(p.views)
	for view := range p.views {
		markers = append(markers, view)
	}
	for _, judged := range claims {
		var words []string
		for _, j := range judged {
			words = append(words, claimOf(j.Contrast))
		}
		markers = append(markers, "claim "+strings.Join(words, " ; "))
	}
	texts := p.rendered(markers)
	for i, text := range texts[:first] {
		for _, says := range p.views[markers[i]] {
			p.that(strings.Contains(text, says), "the view %s lacks %q:\n%s", markers[i], says, text)
		}
	}
	for i, text := range texts[first:] {
		for k, sentence := range p.claimed(text, claims[i]) {
			if slices.Contains(questioned, claimOf(claims[i][k].Contrast)) {
				p.that(strings.Contains(texts[1], sentence), "the answers lack %s:\n%s", sentence, texts[1])
			}
		}
	}
	p.answered(texts)
}

// answered checks that the answers name what they reject, and that verdicts name the questions that disagree.
func (p places) answered(texts []string) {
	for _, q := range p.result.Questions {
		for _, claim := range q.Claims {
			rejected := strings.Contains(texts[1], "Not answered: "+claim+": ")
			p.that(rejected == (p.answerable([]string{claim}) == nil), "rejected %v: %s", rejected, claim)
		}
	}
	for claim, j := range p.ranked {
		asked, ok := p.asked[claim]
		not := map[bool]string{false: "not "}
		both := not[j.Shown] + "shown " + j.Family() + ", but " + not[asked.Shown] + "shown " + asked.Family() + "."
		if ok && j.Shown != asked.Shown {
			p.that(strings.Contains(texts[0], both), "the verdict lacks %q about %s:\n%s", both, claim, texts[0])
			disagreed++
		}
	}
}

// claimed checks the sentences of a marker, and returns them.
func (p places) claimed(text string, want []contrast.Judged) (sentences []string) {
	var remarks []string
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(line, "**") {
			sentences = append(sentences, line)
		} else {
			remarks = append(remarks, line)
		}
	}
	if p.that(len(sentences) == len(want), "%d sentences, want %d:\n%s", len(sentences), len(want), text); p.Failed() {
		return nil
	}
	all := map[string]bool{}
	for i, j := range want {
		p.says(sentences[i], j)
		for _, m := range j.Marks {
			if m.Kind != contrast.Scattered && m.Kind != contrast.FewRounds {
				all[m.Cell.Name()+m.Text] = true
				about := func(remark string) bool { return strings.HasSuffix(remark, ": "+m.Text+".") }
				p.that(slices.ContainsFunc(remarks, about), "no remark %q in:\n%s", m.Text, text)
			}
		}
	}
	p.that(len(remarks) == len(all), "%d remarks, want %d:\n%s", len(remarks), len(all), text)
	return sentences
}

// disagreed counts sentences and verdicts that must name two families.
var disagreed int

// says checks a sentence: the effect if it is shown, what remains possible if not, and the ranking that disagrees.
func (p places) says(sentence string, j contrast.Judged) {
	x := j
	if x.Ratio.Center < 1 {
		x = x.Inverse()
	}
	begin, effect := "**", contrast.Effect(j.Metric, x.Ratio)
	if verb, _ := j.Metric.Noun(); verb == "takes" && x.Ratio.Center >= contrast.InPercent {
		effect = contrast.Interval("1", x.Ratio)
	}
	switch excludes := j.Ratio.Low > 1 || j.Ratio.High < 1; {
	case j.Equal:
		effect = ""
	case !j.Shown && excludes:
		begin = "**Not shown " + j.Family()
	case !j.Shown:
		begin, effect = "**Not shown: ", contrast.Range(j.Metric, j.Ratio)
	}
	begins := strings.HasPrefix(sentence, begin) && (begin != "**") == strings.HasPrefix(sentence, "**Not shown")
	p.that(begins && strings.Contains(sentence, effect),
		"got %s\nwant %s ... %s", sentence, begin, effect)
	ranked, ok := p.ranked[claimOf(j.Contrast)]
	if !ok {
		ranked, ok = p.ranked[claimOf(j.Inverse().Contrast)]
	}
	other := ""
	if ok && ranked.Shown != j.Shown {
		other = map[bool]string{true: "; not shown ", false: "; shown "}[j.Shown] + ranked.Family()
		if j.Shown {
			other = "; shown " + j.Family() + ", but not shown " + ranked.Family()
		}
		disagreed++
	}
	named := strings.Contains(sentence, "of the ranking")
	p.that(strings.Contains(sentence, other) && named == (other != ""), "got %s\nwant in it %q", sentence, other)
}
