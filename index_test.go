package ipcbench_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	clause   = regexp.MustCompile(`(?m)^package (\w+?)(_test)?$`)
	docTest  = regexp.MustCompile("`(\\w+)\\.((?:Test|Fuzz|Benchmark)\\w+)(?:/(\\w+))?`")
)

// TestIndex: the tests that docs/ and SECURITY.md name exist, and each guard names at least one.
func TestIndex(t *testing.T) {
	tests := map[string]bool{} // by package and name
	goFiles(t, func(path string, _ []string) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		text := read(t, path)
		pkg := clause.FindStringSubmatch(text)[1]
		if pkg == "main" { // programs are named by their folders
			pkg = filepath.Base(filepath.Dir(path))
		}
		for _, m := range testFunc.FindAllStringSubmatch(text, -1) {
			tests[pkg+"."+m[1]] = true
		}
	})
	scripts, err := filepath.Glob("cli/testdata/script/*.txtar")
	check.Need(t, err == nil && len(scripts) != 0, "no scripts %v", err)
	for _, path := range scripts {
		tests["cli.TestScripts/"+strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
	}
	pages := check.Value(filepath.Glob("docs/*/*.md"))(t)
	pages = append(pages, append(check.Value(filepath.Glob("docs/*.md"))(t), "SECURITY.md")...)
	for _, page := range pages {
		for _, m := range docTest.FindAllStringSubmatch(read(t, page), -1) {
			name := m[1] + "." + m[2]
			if name == "cli.TestScripts" {
				name += "/" + m[3]
			}
			check.That(t, tests[name], "%s names the test %s, which does not exist", page, name)
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| [0-9]+ \|.*`).FindAllString(read(t, "docs/reference/guards.md"), -1) {
		check.That(t, docTest.MatchString(row), "no test is named in the row %s", row)
	}
}

// TestLinks: files that pages link to exist.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)`) // not other hosts, not within the page
	for _, pattern := range []string{"llms.txt", "*.md", "*/*.md", "*/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		check.Need(t, err == nil && len(pages) != 0, "%v %v", pages, err)
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
				check.OK(t, check.Err(os.Stat(filepath.Join(filepath.Dir(page), m[1]))), page)
			}
		}
	}
}

// TestWhere: the files that docs/reference/mechanisms.md names exist. A name without a folder is in the folder named
// before it.
func TestWhere(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| [BAO][0-9]+ \| .* \| (.*) \| .* \|$`).FindAllStringSubmatch(read(t, "docs/reference/mechanisms.md"), -1)
	check.Need(t, len(rows) >= 80, "only %d rows of docs/reference/mechanisms.md are understood", len(rows))
	for _, row := range rows {
		folder := ""
		// Words in parentheses are identifiers within a file, and metrics are not files either.
		places, _, _ := strings.Cut(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(row[1], ""), "metric")
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(places, -1) {
			path := m[1]
			if strings.Contains(path, ".") && !strings.Contains(path, "/") {
				path = folder + "/" + path
			}
			info, err := os.Stat(path)
			check.Need(t, err == nil, "%s: %v", row[0][:20], err)
			if folder = path; !info.IsDir() {
				folder = filepath.Dir(path)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := check.Value(os.ReadFile(path))(t)
	return string(text)
}
