package report

import (
	gocmp "cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/report/doc"
	"ipcbench/report/doc/doctest"
	"ipcbench/report/metrics"
	"ipcbench/report/table"
)

const answerPage = "../docs/reference/answer.md"

// answerExample matches a command of the page and the output beside it.
var answerExample = regexp.MustCompile("(?s)(```sh\n(jq [^`]*)```\n+```text\n)([^`]*)```")

// answerTables returns the page's description of the tables: the meaning of a row, and of
// all columns except those that name a cell.
func answerTables() string {
	var b strings.Builder
	b.WriteString("\n| column | unit | meaning |\n| --- | --- | --- |\n")
	for _, s := range append(programTables().Sections, doc.Section{Tables: []doc.Table{differenceTable(new(Comparison))}}) {
		for _, shown := range s.Tables {
			if shown.Key == "" {
				continue
			}
			fmt.Fprintf(&b, "| **%s** |  | a row is %s |\n", shown.Key, shown.Help)
			metric := false
			for _, col := range shown.Columns {
				name := gocmp.Or(col.Key, strings.ReplaceAll(col.Name, " ", "_"))
				_, isMetric := metrics.MetricNamed(name)
				switch {
				case col.Key == "-" || slices.Contains(table.AxisNames(table.Axes()), name):
				case shown.Key == "metrics" && isMetric:
					metric = true
				default:
					fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, strings.Replace(col.Unit, "%", "1", 1), col.Help)
				}
			}
			if metric {
				b.WriteString("| every metric |  | an estimate; `ipcbench list metrics` defines them |\n")
			}
		}
	}
	return b.String()
}

// tablesOf matches the generated part of the page.
var tablesOf = regexp.MustCompile("(?s)(<!-- tables: begin[^\n]*\n)(.*)(<!-- tables: end -->)")

// TestAnswerPage: the page has the generated tables and the current output of jq.
func TestAnswerPage(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		skip.Missing(t, "jq (Debian: jq)")
	}
	text := check.Value(os.ReadFile(answerPage))(t)
	page := tablesOf.ReplaceAllString(string(text), "${1}"+strings.ReplaceAll(answerTables(), "$", "$$")+"\n${3}")
	check.That(t, strings.Count(page, answerTables()) == 1, "%s has no place for the tables", answerPage)
	examples := answerExample.FindAllStringSubmatch(page, -1)
	check.That(t, len(examples) >= 4 && strings.Count(page, "\njq ") == len(examples), "%d examples with their output, want at least 4", len(examples))
	real := check.Value(result.ReadFile("../bench/testdata/result.json.gz"))(t)
	dir := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(dir, "answer.json"), []byte(format(t, "json", real)), 0o600))
	for _, e := range examples {
		cmd := exec.Command("sh", "-c", e[2])
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		check.OK(t, err, e[2], string(out))
		page = strings.Replace(page, e[0], e[1]+string(out)+"```", 1)
	}
	doctest.Golden(t, "../"+answerPage, page)
}
