package report

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
)

func schemaOf(t *testing.T, of string) *jsonschema.Schema {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, WriteSchema(&b, of))
	text := check.Value(jsonschema.UnmarshalJSON(&b))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	check.Must(t, c.AddResource("schema.json", text))
	return c.MustCompile("schema.json")
}

func violation(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	v := check.Value(jsonschema.UnmarshalJSON(strings.NewReader(text)))(t)
	return s.Validate(v)
}

// TestSchemaFile: docs/reference has what ipcbench schema result prints, for programs that read results without ipcbench.
func TestSchemaFile(t *testing.T) {
	var b bytes.Buffer
	check.Must(t, WriteSchema(&b, "result"))
	doctest.Golden(t, "../../docs/reference/result.schema.json", b.String())
}

// TestSchema: the schemas accept written real and synthetic results, and reject other keys
// and kinds of values.
func TestSchema(t *testing.T) {
	results := map[string]*result.Result{
		"synthetic": benchtest.Synthetic(6, 10), "linked": benchtest.Linked(threeLinks), "encrypted": benchtest.Encrypted(encrypted),
		"python": benchtest.Python(), "fleet": benchtest.Fleet(), "interleaved": benchtest.Interleaved(2), "one block": benchtest.Synthetic(1, 1), "rich": rich(),
	}
	paths, err := filepath.Glob("../results/*.json.gz")
	if testing.Short() {
		paths = []string{"../results/all.json.gz", "../results/profile.json.gz"} // with the tables that the others here lack
	}
	check.Need(t, err == nil && len(paths) != 0, "no committed results: %v", err)
	for _, path := range paths {
		results[path] = check.Value(result.ReadFile(path))(t)
	}
	answers, files, tables := schemaOf(t, "answer"), schemaOf(t, "result"), map[string]bool{}
	for name, r := range results {
		check.OK(t, violation(t, answers, format(t, "json", r)), name, "its answer")
		check.OK(t, violation(t, files, format(t, "result", r)), name)
		for _, table := range data(metrics.New(r)).Sections {
			for _, table := range table.Tables {
				tables[table.Key] = tables[table.Key] || len(table.Rows) > 0
			}
		}
	}
	for _, s := range programTables().Sections {
		for _, table := range s.Tables {
			check.That(t, tables[table.Key], "no result has a row of the table %s", table.Key)
		}
	}
	r := rich()
	r.Environment.Listen = ""
	for _, c := range []struct {
		format, old, broken string
	}{
		{"json", `"rule":`, `"rules":`},
		{"json", `"model_tensors":`, `"tensors_of_model":`},
		{"json", `"clients":1`, `"clients":"1"`},
		{"json", `"median":`, `"middle":`},
		{"json", `"settings":["elems=on","tls=on"]`, `"settings":"elems=on"`},
		{"json", `"kind": "result"`, `"kind": "comparison"`},
		{"json", `"transport":"a",`, ``},
		{"result", `"round_ns":`, `"rounds_ns":`},
		{"result", `"schema": 5`, `"schema": 6`},
		{"result", `"index": 0`, `"index": 0.5`},
		{"result", `"name": "base"`, `"name": ["base"]`},
		{"result", `"stopped": "time"`, `"stopped": null`},
		{"result", `"started": "`, `"started": "on `},
	} {
		whole := format(t, c.format, r)
		check.That(t, strings.Contains(whole, c.old), "%s has no %s", c.format, c.old)
		s := map[string]*jsonschema.Schema{"json": answers, "result": files}[c.format]
		check.That(t, violation(t, s, strings.Replace(whole, c.old, c.broken, 1)) != nil, "%s: %s in the place of %s is accepted", c.format, c.broken, c.old)
	}
}
