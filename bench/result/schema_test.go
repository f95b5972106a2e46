package result_test

import (
	"cmp"
	"encoding"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
)

// schemaPage documents the keys of a result file.
const schemaPage = "../../docs/reference/result.md"

var update = flag.Bool("update", false, "rewrite the keys of docs/reference/result.md")

func readPage(t *testing.T) string {
	text := check.Value(os.ReadFile(schemaPage))(t)
	return string(text)
}

// tables writes the tables of the page.
type tables struct {
	strings.Builder
	comments map[string]string // first paragraphs, by type name and by Type.Field
}

// parse reads the comments of the types in the Go files that match the patterns.
func (w *tables) parse(patterns ...string) {
	var typeName string
	var doc *ast.CommentGroup
	put := func(name string, c *ast.CommentGroup) {
		w.comments[name] = strings.Join(strings.Fields(strings.Split(c.Text(), "\n\n")[0]), " ")
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return false
		case *ast.GenDecl:
			doc = n.Doc
		case *ast.TypeSpec:
			typeName = n.Name.Name
			put(typeName, doc)
		case *ast.Field:
			put(typeName+"."+cmp.Or(strings.Trim(fmt.Sprint(n.Names), "[]"), types.ExprString(n.Type)), cmp.Or(n.Doc, n.Comment))
		}
		return true
	}
	for _, pattern := range patterns {
		files, _ := filepath.Glob(pattern)
		for _, name := range files {
			file, _ := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments) // it compiles
			ast.Inspect(file, visit)
		}
	}
}

// table writes a row for a struct, rows for its keys, and the tables of the structs in it.
func (w *tables) table(of reflect.Type) {
	fmt.Fprintf(w, "| <a id=%q></a>**%s** |  |  | %s |\n", strings.ToLower(of.Name()), of.Name(), w.comments[of.Name()])
	for _, of := range w.rows(of) {
		if of != nil && !strings.Contains(w.String(), "**"+of.Name()+"**") {
			w.table(of)
		}
	}
}

var unitOf = regexp.MustCompile(`^(?:.*_(ns|ms)|.*(bytes)|.*)$`)

// rows writes a row for each key of a struct, and returns the types of the structs in it.
func (w *tables) rows(of reflect.Type) (inner []reflect.Type) {
	for f := range of.Fields() {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind, structs := kindOf(f.Type)
		switch {
		case f.Anonymous && f.Name != "Setup": // Setup has its own section
			inner = append(inner, w.rows(f.Type)...)
			continue
		case options != "":
			kind = strings.TrimSuffix(kind, " or null") + ", or absent"
		}
		unit := cmp.Or(f.Tag.Get("unit"), unitOf.ReplaceAllString(key, "$1$2"))
		fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", cmp.Or(key, f.Name), kind, unit, w.comments[of.Name()+"."+f.Name])
		inner = append(inner, structs)
	}
	return inner
}

// kinds are names of JSON values by Go kind; others are integers.
var kinds = map[string]string{
	"ptr": "%s or null", "slice": "list of %s", "map": "object of %s",
	"string": "text", "bool": "true or false", "float64": "number",
}

// kindOf returns the name of a type's JSON values, and the struct in them.
func kindOf(t reflect.Type) (string, reflect.Type) {
	kind := cmp.Or(kinds[t.Kind().String()], "integer")
	switch {
	case strings.Contains(kind, "%s"):
		of, inner := kindOf(t.Elem())
		return fmt.Sprintf(kind, of), inner
	case t.Name() == "Time":
		return "time", nil
	case t.Implements(reflect.TypeFor[encoding.TextMarshaler]()):
		return "text", nil
	case t.Kind() == reflect.Struct:
		return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")", t
	}
	return kind, nil
}

// TestSchemaPage: the page has every key of a result file, in the order of the file, with its kind, its unit and the
// comment of its field. -update writes them.
func TestSchemaPage(t *testing.T) {
	page := readPage(t)
	keys := regexp.MustCompile(fmt.Sprintf(`(?s)(This is schema %d[;.].*<!-- keys: begin[^\n]*\n).*(<!-- keys: end -->)`, result.Schema))
	w := tables{comments: map[string]string{}}
	w.parse("*.go", "../../internal/machine/*.go", "../../phase/usage/*.go")
	w.WriteString("\n| key | kind | unit | meaning |\n| --- | --- | --- | --- |\n")
	w.table(reflect.TypeFor[result.Result]())
	bare := regexp.MustCompile(`.*\|  \|\n`).FindAllString(w.String(), -1)
	check.Need(t, bare == nil && keys.MatchString(page), "docs/reference/result.md lacks %v, or these a comment: %q", keys, bare)
	linked := regexp.MustCompile(`docs/reference/(\w+\.md)(#\w+)?`).ReplaceAllString(w.String(), "[$1]($1$2)")
	linked = regexp.MustCompile(`docs/(\w+\.md)`).ReplaceAllString(linked, "[$1](../$1)")
	want := keys.ReplaceAllString(page, "${1}"+linked+"\n$2")
	if *update && os.WriteFile(schemaPage, []byte(want), 0o644) == nil {
		page = want
	}
	check.Same(t, gocmp.Diff(want, page), "docs/reference/result.md, which -update writes")
}

// example matches a command on the page and its output.
var example = regexp.MustCompile("(?s)```sh\n(jq [^`]*)```\n+```text\n([^`]*)```")

// TestSchemaExamples: the jq commands on the page print exactly the shown output for a committed result.
func TestSchemaExamples(t *testing.T) {
	skip.Long(t)
	page := readPage(t)
	examples := example.FindAllStringSubmatch(page, -1)
	check.Need(t, len(examples) >= 6 && strings.Count(page, "\njq ") == len(examples),
		"%d examples with their output, want at least 6", len(examples))
	path := regexp.MustCompile(`\.([a-z][a-z_]*)\b`)
	noPath := regexp.MustCompile(`result\.json|\["[^"]*"\]|\.(key|value)\b`)
	for _, e := range examples {
		for _, m := range path.FindAllStringSubmatch(noPath.ReplaceAllString(e[1], ""), -1) {
			check.That(t, strings.Contains(page, "\n| `"+m[1]+"` |"), "no result has the key %s:\n%s", m[1], e[1])
		}
	}
	if _, err := exec.LookPath("jq"); err != nil {
		skip.Missing(t, "jq (Debian: jq)")
	}
	dir := t.TempDir()
	check.Must(t, check.Value(result.ReadFile("../testdata/result.json.gz"))(t).WriteFile(filepath.Join(dir, "result.json")))
	for _, e := range examples {
		cmd := exec.Command("sh", "-c", e[1])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		check.OK(t, err, e[1])
		check.Same(t, gocmp.Diff(e[2], string(out)), e[1])
	}
}

// TestCountersPage: the page describes every counter of a result.
func TestCountersPage(t *testing.T) {
	_, page, _ := strings.Cut(readPage(t), "\n## Counters\n")
	for _, name := range []string{
		phase.WireSent, phase.WireReceived, phase.Calls, phase.Served, phase.HandleTensors, phase.HandleBytes, phase.BodyTensors, phase.BodyBytes,
		phase.Fallback, phase.Copied, phase.CacheHits, phase.CacheBytes, phase.Dialled, phase.Accepted, phase.DialTime, phase.Retries,
		phase.Refused, phase.Handshakes, phase.HandshakeTime,
	} {
		check.That(t, strings.Contains(page, "`"+name+"`"), "%s does not say what %s counts", schemaPage, name)
	}
}
