package cli

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

// TestClaims: the last table of results/CLAIMS.md has the claims of results/claims.yaml, each with its source, the
// questions that ask it, and whether a file here has measured them as they are asked now.
func TestClaims(t *testing.T) {
	var claims []struct {
		Claim, Source, Shape, Answer string
		Questions                    []string
	}
	decoder := yaml.NewDecoder(check.Value(os.Open("../results/claims.yaml"))(t))
	decoder.KnownFields(true)
	check.Must(t, decoder.Decode(&claims))
	now, measured := map[string]result.Question{}, map[string]result.Question{}
	for _, q := range questions() {
		now[q.Name] = q.Question
	}
	for _, path := range check.Value(filepath.Glob("../results/*.json.gz"))(t) {
		for _, q := range check.Value(result.ReadFile(path))(t).Questions {
			measured[q.Name] = q
		}
	}
	table := "| claim | source | questions | shape | answer |\n| --- | --- | --- | --- | --- |\n"
	for _, c := range claims {
		check.That(t, slices.Contains([]string{"own", "partly", "not answered", "not a matter of time"}, c.Shape), "%s: shape %q", c.Claim, c.Shape)
		check.That(t, (len(c.Questions) > 0) == (c.Shape == "own" || c.Shape == "partly"), "%s: %s, with %d questions", c.Claim, c.Shape, len(c.Questions))
		check.That(t, c.Source != "" && (c.Shape == "own" || c.Answer != ""), "%s: no source, or no reason", c.Claim)
		var asked []string
		for _, name := range c.Questions {
			q, ok := now[name]
			check.That(t, ok, "%s: no question %s", c.Claim, name)
			switch old, ok := measured[name]; {
			case !ok:
				name += " (not measured yet)"
			case old.Text != q.Text || !slices.Equal(old.Claims, q.Claims):
				name += " (measured in an older form)"
			}
			asked = append(asked, name)
		}
		table += fmt.Sprintf("| %s | %s | %s | %s | %s |\n", c.Claim, c.Source, cmp.Or(strings.Join(asked, ", "), "none"), c.Shape, c.Answer)
	}
	const path = "../../results/CLAIMS.md" // from testdata
	before, rest, found := strings.Cut(string(check.Value(os.ReadFile(filepath.Join("testdata", path)))(t)), "\n## Claim by claim\n")
	check.Need(t, found, "%s has no such section", path)
	about, _, _ := strings.Cut(rest, "| ")
	doctest.Golden(t, path, before+"\n## Claim by claim\n"+about+table)
}
