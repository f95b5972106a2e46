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
	"strings"

	"ipcbench/bench"
	"ipcbench/report/analysis"
)

// Tables in Markdown files are rendered from results that stand beside them:
//
//	<!-- ipcbench: begin results/main.json cells model=cnn workers=1 -->
//	…
//	<!-- ipcbench: end -->
//
// The file is relative to the Markdown file and lies below its folder; then come
// a view and what cells to take: transport, model, up, workers or clients, each once.
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
	var drifts []Drift
	err := eachMarkdown(dir, func(path string, text []byte) error {
		_, d, err := rerender(path, text)
		drifts = append(drifts, d...)
		return err
	})
	return drifts, err
}

// Update writes every marked table below dir anew and returns the files that it
// changed.
func Rewrite(dir string) ([]string, error) {
	var changed []string
	err := eachMarkdown(dir, func(path string, text []byte) error {
		renewed, drifts, err := rerender(path, text)
		if err != nil || len(drifts) == 0 {
			return err
		}
		changed = append(changed, path)
		return bench.ReplaceFile(path, func(w io.Writer) error {
			_, err := w.Write(renewed)
			return err
		})
	})
	return changed, err
}

// eachMarkdown calls f for every Markdown file below dir, but not in folders
// that are hidden or hold test data.
func eachMarkdown(dir string, f func(path string, text []byte) error) error {
	var errs []error
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != dir && (strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".md" || !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(beginMark)) || bytes.Contains(text, []byte(endMark)) {
			errs = append(errs, f(path, text))
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// rerender returns text with all marked tables as their results give them, and
// those that have changed.
func rerender(path string, text []byte) ([]byte, []Drift, error) {
	var out bytes.Buffer
	var drifts []Drift
	results := map[string]*bench.Result{}
	var d *Drift // whose table is being read
	var old strings.Builder
	number := 0
	fence := ""
	for line := range strings.Lines(string(text)) {
		number++
		trimmed := strings.TrimSpace(line)
		if f := fenceOf(trimmed); d == nil && f != "" && (fence == "" || f == fence) {
			if fence == "" {
				fence = f
			} else {
				fence = ""
			}
		}
		spec, begins := strings.CutPrefix(trimmed, beginMark)
		begins, ends := begins && fence == "", trimmed == endMark && fence == ""
		switch {
		case begins && d != nil:
			return nil, nil, fmt.Errorf("%s:%d: begins before the table of line %d has ended", path, number, d.Line)
		case ends && d == nil:
			return nil, nil, fmt.Errorf("%s:%d: ends a table that has not begun", path, number)
		case begins:
			spec, ok := strings.CutSuffix(spec, closeMark)
			if !ok {
				return nil, nil, fmt.Errorf("%s:%d: want the marker alone in its line, up to -->", path, number)
			}
			want, err := render(filepath.Dir(path), spec, results)
			if err != nil {
				return nil, nil, fmt.Errorf("%s:%d: %w", path, number, err)
			}
			d = &Drift{File: path, Line: number, View: spec, Want: want}
			old.Reset()
			out.WriteString(line)
		case ends:
			if d.Got = old.String(); d.Got != d.Want {
				drifts = append(drifts, *d)
			}
			out.WriteString(d.Want)
			out.WriteString(line)
			d = nil
		case d != nil:
			old.WriteString(line)
		default:
			out.WriteString(line)
		}
	}
	if d != nil {
		return nil, nil, fmt.Errorf("%s:%d: the table does not end: want a line %s", path, d.Line, endMark)
	}
	return out.Bytes(), drifts, nil
}

// fenceOf returns what opens or closes a block of code, in which markers are but
// examples.
func fenceOf(line string) string {
	for _, f := range []string{"```", "~~~"} {
		if strings.HasPrefix(line, f) {
			return f
		}
	}
	return ""
}

// render returns what a marker asks for: FILE VIEW [key=value…].
func render(dir, spec string, results map[string]*bench.Result) (string, error) {
	words := strings.Fields(spec)
	if len(words) < 2 {
		return "", fmt.Errorf("marker %q: want FILE.json VIEW", spec)
	}
	file := filepath.FromSlash(words[0])
	if !filepath.IsLocal(file) {
		return "", fmt.Errorf("marker %q: the result must lie in the same folder or below", spec)
	}
	if err := CheckViews(words[1:2]); err != nil || words[1] == "all" {
		return "", cmp.Or(err, fmt.Errorf("marker %q: name one view", spec))
	}
	r := results[file]
	if r == nil {
		var err error
		if r, err = bench.ReadFile(filepath.Join(dir, file)); err != nil {
			return "", err
		}
		results[file] = r
	}
	v := analysis.New(r)
	if err := v.Narrow(words[2:]); err != nil {
		return "", fmt.Errorf("marker %q: %w", spec, err)
	}
	s := view(v, words[1])
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
