package result

import (
	"bytes"
	"cmp"
	"encoding"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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

var update = flag.Bool("update", false, "write the page of the result file anew")

// schemaPage says what a result file holds.
const schemaPage = "../../docs/result.md"

// A row is a key of a result file as the page has it.
type row struct{ of, key, kind, unit, meaning string }

// rowsOf returns the keys of a struct and of those inside of it, in their order. said are the
// comments of fields, by TYPE.FIELD; one may end with its unit, in brackets.
func rowsOf(t reflect.Type, said map[string]string, seen map[reflect.Type]bool) (rows []row) {
	seen[t] = true
	var inner []reflect.Type
	var add func(of reflect.Type)
	add = func(of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case key == "-" || f.Type.Name() == "retired" || f.Type.Name() == "otherClocks": // not in files that this build writes
				continue
			case f.Anonymous && f.Type != reflect.TypeFor[Setup](): // which has a section of its own
				add(f.Type)
				continue
			}
			key = cmp.Or(key, f.Name)
			kind, structs := kindOf(f.Type)
			if options != "" {
				kind = strings.TrimSuffix(kind, " or null") + ", or absent"
			}
			meaning, unit := said[of.Name()+"."+f.Name], ""
			switch m := unitBehind.FindStringSubmatch(meaning); {
			case m != nil:
				meaning, unit = m[1], m[2]
			case strings.HasSuffix(key, "_ns"):
				unit = "ns"
			case strings.HasSuffix(key, "bytes"):
				unit = "bytes"
			}
			rows = append(rows, row{t.Name(), key, kind, unit, meaning})
			inner = append(inner, structs...)
		}
	}
	add(t)
	for _, t := range inner {
		if !seen[t] {
			rows = append(rows, rowsOf(t, said, seen)...)
		}
	}
	return rows
}

var unitBehind = regexp.MustCompile(`(?s)^(.*) \[([^\]]*)\]$`)

// comments returns those of the fields of all structs in the folders, by TYPE.FIELD.
func comments(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	said := map[string]string{}
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok {
					return true
				}
				if of, ok := spec.Type.(*ast.StructType); ok {
					for _, f := range of.Fields.List {
						name := fmt.Sprint(f.Type) // of one that is embedded
						if len(f.Names) > 0 {
							name = f.Names[0].Name
						}
						said[spec.Name.Name+"."+name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
				return true
			})
		}
	}
	return said
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

// keysOf is the part of the page that is made of the types and of the comments of fields.
var keysOf = regexp.MustCompile("(?s)(<!-- keys: begin[^\n]*\n)(.*)(<!-- keys: end -->)")

// TestSchemaPage: the page lists every key of a result file, in the order of the
// file, and no other; it says of which kind each is, its unit and its meaning.
func TestSchemaPage(t *testing.T) {
	page, err := os.ReadFile(schemaPage)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	of := ""
	for _, r := range rowsOf(reflect.TypeFor[Result](), comments(t, ".", "../../internal/machine", "../../phase/usage"), map[reflect.Type]bool{}) {
		if r.of != of {
			of = r.of
			fmt.Fprintf(&b, "\n### %s\n\n| key | kind | unit | meaning |\n| --- | --- | --- | --- |\n", of)
		}
		if len(r.meaning) < len("two words") {
			t.Errorf("%s.%s: %q is no meaning", of, r.key, r.meaning)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.key, r.kind, r.unit, strings.ReplaceAll(r.meaning, "|", `\|`))
	}
	b.WriteByte('\n')
	at := keysOf.FindSubmatchIndex(page)
	if at == nil {
		t.Fatalf("%s has no place for keys", schemaPage)
	}
	if diff := gocmp.Diff(b.String(), string(page[at[4]:at[5]])); diff != "" {
		t.Errorf("%s: run the test with -update (-the program +the page):\n%s", schemaPage, diff)
	}
	if *update {
		page = slices.Concat(page[:at[4]], []byte(b.String()), page[at[5]:])
		if err := os.WriteFile(schemaPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if v := fmt.Sprintf("This is schema %d.", Schema); !bytes.Contains(page, []byte(v)) {
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
	for _, r := range rowsOf(reflect.TypeFor[Result](), nil, map[reflect.Type]bool{}) {
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
