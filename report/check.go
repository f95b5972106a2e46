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
	"strings"

	"ipcbench/bench/result"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// Tables in Markdown files are rendered from results that stand beside them:
//
//	<!-- ipcbench: begin results/main.json cells model=cnn workers=1 -->
//	…
//	<!-- ipcbench: end -->
//
// The file is relative to the Markdown file and lies below its folder; then come a view
// and what cells to take, by the axes of [metrics.Axes], or a claim:
//
//	claim METRIC CHOICE… against CHOICE…	how the metric of one cell compares with another's
//	claim METRIC CHOICE…			what it is
//	claim METRIC/METRIC2 CHOICE…		how much of another metric of the cell it is
//
// The choices of a claim leave one cell. Those behind against stand in for the ones with
// the same key. Nothing is made of a run that ended early.
const (
	beginMark = "<!-- ipcbench: begin "
	endMark   = "<!-- ipcbench: end -->"
	closeMark = " -->"
)

// A Drift is a committed table that its result no longer gives.
type Drift struct {
	File string // the Markdown file
	Line int    // of the marker
	View string // as the marker has it
	Got  string // what the file holds
	Want string // what the result gives
}

// Check renders every marked table below dir again and returns those that have
// changed. It is an error if a marker cannot be followed.
func Check(dir string) ([]Drift, error) {
	var all []Drift
	err := eachDrifted(dir, func(_ string, _ []byte, drifts []Drift) error {
		all = append(all, drifts...)
		return nil
	})
	return all, err
}

// Rewrite writes every marked table below dir anew and returns the files that it
// changed.
func Rewrite(dir string) ([]string, error) {
	var changed []string
	err := eachDrifted(dir, func(path string, renewed []byte, _ []Drift) error {
		changed = append(changed, path)
		return result.ReplaceFile(path, func(w io.Writer) error {
			_, err := w.Write(renewed)
			return err
		})
	})
	return changed, err
}

// eachDrifted calls f for every Markdown file below dir of which marked tables have
// changed, with what it should hold. Folders that are hidden or hold test data are left out.
func eachDrifted(dir string, f func(path string, renewed []byte, drifts []Drift) error) error {
	var errs []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
		renewed, drifts, err := rerender(path, text)
		if err == nil && len(drifts) > 0 {
			err = f(path, renewed, drifts)
		}
		errs = append(errs, err)
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// marked matches a block of code, in which markers are but examples; a view and a
// table between markers; and a marker that has no other.
var marked = regexp.MustCompile("(?ms)^[ \t]*(?:```.*?^[ \t]*```|~~~.*?^[ \t]*~~~" +
	"|" + beginMark + "([^\n]*)" + closeMark + "[ \t\r]*\n(.*?)^[ \t]*" + endMark + "[ \t\r]*$" +
	"|(" + beginMark + "|" + endMark + "))")

// rerender returns text with all marked tables as their results give them, and
// those that have changed.
func rerender(path string, text []byte) ([]byte, []Drift, error) {
	var out []byte
	var drifts []Drift
	results := map[string]*result.Result{}
	done := 0 // of text, that out holds
	for _, at := range marked.FindAllSubmatchIndex(text, -1) {
		line := 1 + bytes.Count(text[:at[0]], []byte("\n"))
		if at[6] >= 0 || at[2] >= 0 && bytes.Contains(text[at[4]:at[5]], []byte(beginMark)) {
			return nil, nil, fmt.Errorf("%s:%d: want %sFILE VIEW%s alone in its line, then the table, then %s alone in its line", path, line, beginMark, closeMark, endMark)
		}
		if at[2] < 0 { // code
			continue
		}
		d := Drift{File: path, Line: line, View: string(text[at[2]:at[3]]), Got: string(text[at[4]:at[5]])}
		var err error
		if d.Want, err = render(filepath.Dir(path), d.View, results); err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if d.Got != d.Want {
			drifts = append(drifts, d)
		}
		out = append(append(out, text[done:at[4]]...), d.Want...)
		done = at[5]
	}
	return append(out, text[done:]...), drifts, nil
}

// render returns what a marker asks for: FILE VIEW [CHOICE…], or FILE and a claim.
func render(dir, spec string, results map[string]*result.Result) (string, error) {
	words := strings.Fields(spec)
	if len(words) < 2 {
		return "", fmt.Errorf("marker %q: want FILE.json VIEW", spec)
	}
	file := filepath.FromSlash(words[0])
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("marker %q: the result must lie in the same folder or below", spec)
	}
	if err := CheckViews(words[1:2]); words[1] != claimView && (err != nil || words[1] == "all") {
		return "", cmp.Or(err, fmt.Errorf("marker %q: name one view", spec))
	}
	var err error
	r := results[file]
	if r == nil {
		if r, err = result.ReadFile(filepath.Join(dir, file)); err != nil {
			return "", err
		}
		results[file] = r
	}
	if r.Partial != "" {
		return "", fmt.Errorf("marker %q: the run of %s ended early (%s), and nothing is made of a part of one: run it again, to its end", spec, words[0], r.Partial)
	}
	v := metrics.New(r)
	var s doc.Section
	if words[1] == claimView {
		s, err = claimSection(v, words[2:])
	} else if err = v.Narrow(words[2:]); err == nil {
		s = view(v, words[1])
	}
	if err != nil {
		return "", fmt.Errorf("marker %q: %w", spec, err)
	}
	if s.Empty() {
		return "", fmt.Errorf("marker %q: there is nothing to show", spec)
	}
	var b bytes.Buffer
	if err := s.Markdown(&b); err != nil {
		return "", err
	}
	b.WriteByte('\n')
	return b.String(), nil
}
