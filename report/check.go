package report

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/answer"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

// Tables in Markdown files are rendered from results, between markers:
//
//	<!-- ipcbench: begin results/main.json cells model=cnn workers=1 -->
//	…
//	<!-- ipcbench: end -->
//
// The path of the result is relative to the Markdown file, in its folder or below. Then follow
// a view and choices of cells, by the axes of [metrics.Axes], or a claim:
//
//	claim METRIC CHOICE… against CHOICE…	compares the metric of two cells
//	claim METRIC CHOICE…			the metric of one cell
//	claim METRIC/METRIC2 CHOICE…		the metric as a share of another one
//	claim moving_share CHOICE… computed TIME…	the share with that much more training
//	claim … ; …				several of them: METRIC follows the semicolon
//
// or machine, for a line about the machine, the day and the build, or
//
//	answers QUESTION…		the answers to these questions; openfl is all of openfl/
//
// A claim and answers may end with again and the file of a second run, whose value then follows.
//
// The choices of a claim must leave one cell. If they leave several, cells with the usual value of
// every axis without a choice are preferred, such as train-ms=0. For the second cell, the choices
// after against replace the choices with the same key. The result of a run that ended early is rejected,
// and so is a first answer, whose rounds have fixed places.
const (
	beginMark = "<!-- ipcbench: begin "
	endMark   = "<!-- ipcbench: end -->"
	closeMark = " -->"
)

// A Drift is a marked table that differs from what its result gives now.
type Drift struct {
	File    string // path of the Markdown file
	Line    int    // line of the marker
	View    string // text of the marker: result, view and choices
	renewed []byte // text of the file with all tables rendered again
}

// Check renders every marked table in Markdown files below dir, and returns their number and
// the tables that differ. It returns an error if a marker or its result is invalid, or if there
// is no table. It skips hidden folders and folders with test data.
func Check(dir string) (tables int, all []Drift, err error) {
	var errs []error
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != dir && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".md" || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		n, drifts, err := rerender(path, text)
		tables, all, errs = tables+n, append(all, drifts...), append(errs, err)
		return nil
	})
	if err = errors.Join(append(errs, err)...); err == nil && tables == 0 {
		err = fmt.Errorf("%s: no Markdown file in it has a line %sFILE VIEW%s", dir, beginMark, closeMark)
	}
	return tables, all, err
}

// Rewrite renders every marked table in Markdown files below dir, and replaces the files whose
// tables differ. It returns their paths.
func Rewrite(dir string) (changed []string, err error) {
	_, drifts, err := Check(dir)
	for _, d := range drifts {
		if slices.Contains(changed, d.File) {
			continue
		}
		changed = append(changed, d.File)
		err = errors.Join(err, result.ReplaceFile(d.File, func(w io.Writer) error {
			_, err := w.Write(d.renewed)
			return err
		}))
	}
	return changed, err
}

// marked matches a code block, in which markers are only examples; two markers with the table
// between them; or a marker without its counterpart.
var marked = regexp.MustCompile("(?ms)^[ \t]*(?:```.*?^[ \t]*```|~~~.*?^[ \t]*~~~" +

	"|" + beginMark + "([^\n]*)" + closeMark + "[ \t\r]*\n(.*?)^[ \t]*" + endMark + "[ \t\r]*$" +
	"|(" + beginMark + "|" + endMark + "))")

// rerender renders all marked tables of a text again. It returns their number, and the tables that
// differ.
func rerender(path string, text []byte) (tables int, drifts []Drift, err error) {
	results := map[string]*result.Result{}
	var renewed []byte
	done := 0 // bytes of text that renewed covers
	for _, at := range marked.FindAllSubmatchIndex(text, -1) {
		line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
		if at[6] >= 0 || at[2] >= 0 && bytes.Contains(text[at[4]:at[5]], []byte(beginMark)) {
			return 0, nil, fmt.Errorf("%s:%d: must be %sFILE VIEW%s alone on its line, then the table, then %s alone on its line",
				path, line, beginMark, closeMark, endMark)
		}
		if at[2] < 0 { // a code block
			continue
		}
		d := Drift{File: path, Line: line, View: string(text[at[2]:at[3]])}
		table, err := render(filepath.Dir(path), d.View, results)
		if err != nil {
			return 0, nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if string(text[at[4]:at[5]]) != table {
			drifts = append(drifts, d)
		}
		tables++
		renewed = append(append(renewed, text[done:at[4]]...), table...)
		done = at[5]
	}
	for i := range drifts {
		drifts[i].renewed = append(renewed, text[done:]...)
	}
	return tables, drifts, nil
}

// render returns the text for a marker: FILE VIEW [CHOICE…], FILE and a claim, or FILE again SECOND. results
// caches the files that were read.
func render(dir, spec string, results map[string]*result.Result) (string, error) {
	s, err := section(dir, strings.Fields(spec), results)
	if err == nil && s.Empty() {
		err = errors.New("there is nothing to show")
	}
	if err != nil {
		return "", fmt.Errorf("marker %q: %w", spec, err)
	}
	return s.Markdown() + "\n", nil
}

// againView is a view that only markers can ask for, and the word before the file of a claim's second run.
const againView = "again"

// answersView is the view that a marker can narrow to questions.
const answersView = "answers"

func section(dir string, words []string, results map[string]*result.Result) (s doc.Section, err error) {
	if len(words) < 2 {
		return s, errors.New("must be FILE.json VIEW")
	}
	if words[1] == machinesView {
		return machines(dir, words[0], results)
	}
	r, err := citable(dir, words[0], results)
	if err != nil {
		return s, err
	}
	v, view, rest, second := metrics.New(r), words[1], words[2:], (*metrics.Result)(nil)
	if at := slices.Index(words, againView); at > 0 {
		if at != len(words)-2 || at > 1 && view != answer.ClaimView && view != answersView {
			return s, errors.New("must be FILE.json again SECOND.json, or a claim or answers with again SECOND.json at the end")
		}
		if r, err = citable(dir, words[at+1], results); err != nil {
			return s, err
		}
		rest, second = words[2:max(at, 2)], metrics.New(r)
	}
	switch view {
	case answer.ClaimView:
		return answer.ClaimsSection(v, second, rest)
	case answersView:
		return answer.AnswersTo(v, second, rest)
	case againView:
		return again(v, second), nil
	case table.MachineView:
		return doc.Section{Lead: doc.Say(table.Heading(v))}, nil
	case "all":
		return s, errors.New("must name one view")
	}
	if err := cmp.Or(CheckViews([]string{view}), v.Narrow(rest)); err != nil {
		return s, err
	}
	return viewNamed(view).section(v), nil
}

// citable returns the result in dir or below, which may be in results already, or an error if pages must not have its
// numbers.
func citable(dir, name string, results map[string]*result.Result) (*result.Result, error) {
	file := filepath.FromSlash(name)
	if !filepath.IsLocal(file) {
		return nil, errors.New("the result must be in the same folder or below")
	}
	r := results[file]
	if r == nil {
		var err error
		if r, err = result.ReadFile(filepath.Join(dir, file)); err != nil {
			return nil, err
		}
		results[file] = r
	}
	switch {
	case r.Partial != "":
		return nil, fmt.Errorf("the run of %s ended early (%s), and tables are made of complete runs only: run it again", name, r.Partial)
	case r.Plan.Rules >= 4 && r.Plan.Starts == 0: // earlier rules had no random starts
		return nil, fmt.Errorf("timed rounds of %s began at a fixed place (--quick, or no flags): measure it with --blocks", name)
	}
	return r, nil
}
