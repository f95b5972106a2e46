package result

import (
	"bytes"
	"cmp"
	"encoding"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"ipcbench/bench/stat"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
)

// schemaPage says what a result file holds.
const schemaPage = "../../docs/result.md"

// A row is a key of a result file as the page has it.
type row struct{ of, key, kind, unit string }

// rowsOf returns the keys of a struct and of those inside of it, in their order.
func rowsOf(t reflect.Type, seen map[reflect.Type]bool) (rows []row) {
	seen[t] = true
	var inner []reflect.Type
	var fields []reflect.StructField
	for i := range t.NumField() {
		if f := t.Field(i); f.Anonymous && f.Type != reflect.TypeFor[Setup]() { // which has a section of its own
			fields = slices.AppendSeq(fields, f.Type.Fields())
		} else {
			fields = append(fields, f)
		}
	}
	for _, f := range fields {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if retired := f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == reflect.TypeFor[Result]().PkgPath() && f.Type.Name() == "retired"; key == "-" || retired || f.Type.Name() == "otherClocks" { // is not in files that this build writes
			continue
		}
		key = cmp.Or(key, f.Name)
		kind, structs := kindOf(f.Type)
		if options != "" {
			kind = strings.TrimSuffix(kind, " or null") + ", or absent"
		}
		unit := ""
		switch {
		case strings.HasSuffix(key, "_ns"):
			unit = "ns"
		case strings.HasSuffix(key, "bytes"):
			unit = "bytes"
		}
		rows = append(rows, row{t.Name(), key, kind, unit})
		inner = append(inner, structs...)
	}
	for _, t := range inner {
		if !seen[t] {
			rows = append(rows, rowsOf(t, seen)...)
		}
	}
	return rows
}

// kindOf returns what JSON values of a type are, and the structs in it.
func kindOf(t reflect.Type) (string, []reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer:
		kind, inner := kindOf(t.Elem())
		return kind + " or null", inner
	case reflect.Slice:
		kind, inner := kindOf(t.Elem())
		return "list of " + kind, inner
	case reflect.Map:
		kind, inner := kindOf(t.Elem())
		return "object of " + kind, inner
	case reflect.Struct:
		switch {
		case t == reflect.TypeFor[time.Time]():
			return "time", nil
		case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
			return "text", nil
		}
		return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")", []reflect.Type{t}
	case reflect.String:
		return "text", nil
	case reflect.Bool:
		return "true or false", nil
	case reflect.Float64:
		return "number", nil
	}
	return "integer", nil
}

// TestSchemaPage: the page lists every key of a result file, in the order of the
// file, and no other; it says of which kind each is, its unit and its meaning.
func TestSchemaPage(t *testing.T) {
	text, err := os.ReadFile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	var got []row
	of := ""
	for line := range strings.Lines(string(text)) {
		if title, ok := strings.CutPrefix(line, "### "); ok {
			of = strings.TrimSpace(title)
		}
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		key := strings.Trim(cells[0], "|` ")
		if len(strings.TrimSpace(cells[3])) < len("two words") {
			t.Errorf("%s.%s: %q is no meaning", of, key, cells[3])
		}
		unit := strings.TrimSpace(cells[2])
		if unit != "ns" && unit != "bytes" { // of what has its unit not in its name
			unit = ""
		}
		got = append(got, row{of, key, strings.TrimSpace(cells[1]), unit})
	}
	want := rowsOf(reflect.TypeFor[Result](), map[reflect.Type]bool{})
	if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("%s (-the program +the page):\n%s", schemaPage, diff)
	}
	if v := fmt.Sprintf("This is schema %d.", Schema); !strings.Contains(string(text), v) {
		t.Errorf("%s does not say: %s", schemaPage, v)
	}
}

// example is a command of the page and what it prints.
var example = regexp.MustCompile("(?s)```sh\n(jq [^`]*)```\n+```text\n([^`]*)```")

// TestSchemaExamples: what the page says of jq is true, of a committed result.
func TestSchemaExamples(t *testing.T) {
	skip.Long(t)
	page, err := os.ReadFile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	examples := example.FindAllStringSubmatch(string(page), -1)
	if len(examples) < 6 || strings.Count(string(page), "\njq ") != len(examples) {
		t.Fatalf("%d examples with their output, want at least 6", len(examples))
	}
	known := map[string]bool{"key": true, "value": true} // of jq itself
	for _, r := range rowsOf(reflect.TypeFor[Result](), map[reflect.Type]bool{}) {
		known[r.key] = true
	}
	path := regexp.MustCompile(`\.([a-z][a-z_]*)\b`)
	noPath := regexp.MustCompile(`result\.json|\["[^"]*"\]`)
	for _, e := range examples {
		for _, m := range path.FindAllStringSubmatch(noPath.ReplaceAllString(e[1], ""), -1) {
			if !known[m[1]] {
				t.Errorf("no result has the key %s:\n%s", m[1], e[1])
			}
		}
	}
	if _, err := exec.LookPath("jq"); err != nil {
		skip.Missing(t, "jq (Debian: jq)")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "result.json"), unzipped(t, "../testdata/result.json.gz"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, e := range examples {
		cmd := exec.Command("sh", "-c", e[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if diff := gocmp.Diff(e[2], string(out)); err != nil || diff != "" {
			t.Errorf("%s%v (-the page +jq):\n%s\nall of it:\n%s", e[1], err, diff, out)
		}
	}
}

// TestCountersPage: every counter of a result stands on the page.
func TestCountersPage(t *testing.T) {
	page, err := os.ReadFile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ = bytes.Cut(page, []byte("\n## Counters\n"))
	for _, name := range []string{
		phase.WireSent, phase.WireReceived, phase.Calls, phase.Served, phase.HandleTensors, phase.HandleBytes, phase.BodyTensors, phase.BodyBytes,
		phase.Fallback, phase.Copied, phase.CacheHits, phase.CacheBytes, phase.Dialled, phase.Accepted, phase.DialTime, phase.Retries,
		phase.Refused, phase.Handshakes, phase.HandshakeTime,
	} {
		if !bytes.Contains(page, []byte("`"+name+"`")) {
			t.Errorf("%s does not say what %s counts", schemaPage, name)
		}
	}
}

// TestMedianByHand: the page says how the median round is computed from the file, and
// that is what reports show.
func TestMedianByHand(t *testing.T) {
	r, err := ReadFile("../testdata/result.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cells {
		var blocks [][]float64
		for _, b := range c.Timed() {
			var seconds []float64
			for _, ns := range b.Round {
				seconds = append(seconds, time.Duration(ns).Seconds())
			}
			blocks = append(blocks, seconds)
		}
		medians := stat.Medians(blocks)
		if got, want := stat.Median(medians), stat.Of(blocks).Center; got != want {
			t.Errorf("%s: the median of medians is %v, a report has %v", c.ID(), got, want)
		}
	}
}
