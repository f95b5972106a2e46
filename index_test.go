package ipcbench_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

var (
	testFunc  = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	clause    = regexp.MustCompile(`(?m)^package (\w+?)(_test)?$`)
	docTest   = regexp.MustCompile("`(\\w+)\\.((?:Test|Fuzz|Benchmark)\\w+)(?:/(\\w+))?`")
	mechanism = regexp.MustCompile(`\b[BAO][1-9][0-9]?\b`)
	guard     = regexp.MustCompile(`(?i)\bguards? ((?:[0-9]+(?:, | and )?)+)`)
	number    = regexp.MustCompile(`[0-9]+`)
)

// TestIndex: the tests that docs/ names exist, and what tests quote, mechanisms
// and guards, stands in docs/; each guard is quoted.
func TestIndex(t *testing.T) {
	tests := map[string]bool{} // by package and name
	quotedIDs, quotedGuards := map[string]bool{}, map[int]bool{}
	note := func(text string) {
		for _, id := range mechanism.FindAllString(text, -1) {
			quotedIDs[id] = true
		}
		for _, m := range guard.FindAllStringSubmatch(text, -1) {
			for _, digits := range number.FindAllString(m[1], -1) {
				n, _ := strconv.Atoi(digits)
				quotedGuards[n] = true
			}
		}
	}
	goFiles(t, func(path string, _ []string) {
		text := read(t, path)
		if strings.Contains(path, "drivertest/") {
			note(comments(text))
		}
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		note(comments(text))
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
		note(comments(read(t, path)))
		tests["cli.TestScripts/"+strings.TrimSuffix(filepath.Base(path), ".txtar")] = true
	}

	measuring, mechanisms := read(t, "docs/measuring.md"), read(t, "docs/mechanisms.md")
	for _, m := range docTest.FindAllStringSubmatch(measuring+mechanisms+read(t, "docs/arithmetic.md")+read(t, "docs/protocol.md"), -1) {
		name := m[1] + "." + m[2]
		if name == "cli.TestScripts" {
			name += "/" + m[3]
		}
		check.That(t, tests[name], "docs name the test %s, which does not exist", name)
	}
	for id := range quotedIDs {
		check.That(t, strings.Contains(mechanisms, "| "+id+" |"), "a test quotes %s, which has no row in docs/mechanisms.md", id)
	}
	rows := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([0-9]+) \|`).FindAllStringSubmatch(measuring, -1) {
		n, _ := strconv.Atoi(m[1])
		rows[n] = true
	}
	for n := range 100 { // far more than there are
		check.That(t, rows[n] == quotedGuards[n],
			"guard %d: has a row in docs/measuring.md: %v; is quoted by a test: %v; it needs both", n, rows[n], quotedGuards[n])
	}
}

// TestLinks: what pages link to is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]+)`) // not to another host, not within the page
	for _, pattern := range []string{"*.md", "*/*.md"} {
		pages, err := filepath.Glob(pattern)
		check.Need(t, err == nil && len(pages) != 0, "%v %v", pages, err)
		for _, page := range pages {
			for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
}

var (
	where = regexp.MustCompile(`(?m)^\| [BAO][0-9]+ \| .* \| (.*) \| .* \|$`)
	place = regexp.MustCompile("`([^`]+)`(?: \\(((?:`[^`]+`(?:, )?)+)\\))?")
	word  = regexp.MustCompile(`\w+`)
)

// TestWhere: the files that docs/mechanisms.md names exist, and hold what it says
// is in them. A name without a folder is of the folder before it.
func TestWhere(t *testing.T) {
	skip.Long(t)
	rows := where.FindAllStringSubmatch(read(t, "docs/mechanisms.md"), -1)
	check.Need(t, len(rows) >= 80, "only %d rows of docs/mechanisms.md are understood", len(rows))
	for _, row := range rows {
		folder := ""
		places, _, _ := strings.Cut(row[1], "metric") // metrics are no files
		for _, m := range place.FindAllStringSubmatch(places, -1) {
			path := m[1]
			if strings.Contains(path, ".") && !strings.Contains(path, "/") {
				path = folder + "/" + path
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Errorf("%s: %v", row[0][:20], err)
				continue
			}
			folder = path
			files := []string{path}
			if info.IsDir() {
				files, _ = filepath.Glob(path + "/*.go")
			} else {
				folder = filepath.Dir(path)
			}
			for _, named := range strings.Split(m[2], ", ") {
				words := word.FindAllString(named, -1)
				if len(words) == 0 {
					continue
				}
				last := regexp.MustCompile(`\b` + words[len(words)-1] + `\b`)
				held := false
				for _, f := range files {
					held = held || last.MatchString(read(t, f))
				}
				check.That(t, held, "%s: %s does not hold %s", row[0][:20], path, named)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	return string(text)
}

// comments returns the comments that fill a line, of Go and of scripts.
func comments(text string) string {
	var all strings.Builder
	for line := range bytes.Lines([]byte(text)) {
		line = bytes.TrimSpace(line)
		if bytes.HasPrefix(line, []byte("//")) || bytes.HasPrefix(line, []byte("#")) {
			all.Write(bytes.TrimLeft(line, "/# "))
			all.WriteByte(' ')
		}
	}
	return all.String()
}
