package ipcbench_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// dialect has lists of words that this project once used far more often than other projects do, each with the limit per
// 10,000 words of a room's comments and docs.
var dialect = [...]struct {
	words *regexp.Regexp
	most  int
}{
	{regexp.MustCompile(`(?i)\bwhat\b`), 30},
	{regexp.MustCompile(`(?i)\b(nobody|whoever|somebody|anybody)\b`), 0},
	{regexp.MustCompile(`(?i)\b(stands?|stood|standing|lies?|lay|lying)\b`), 3},
	{regexp.MustCompile(`(?i)\b(that of|those)\b`), 6},
}

// notYet has the limits of rooms that are still above those of dialect. They only fall.
var notYet = map[string][len(dialect)]int{
	"results": {237, 8, 13, 11},
}

var (
	word    = regexp.MustCompile(`[A-Za-z']+`)
	tables  = regexp.MustCompile(`(?s)<!-- ipcbench: begin.*?ipcbench: end -->`) // generated from results
	pyNotes = regexp.MustCompile(`(?s)#[^\n]*|""".*?"""`)
)

// notes returns the comments of a program, or the text of a page, and its room: a top-level folder, "tests" or "docs".
// Other files have none.
func notes(path, text string) (room, found string) {
	room, _, _ = strings.Cut(path, "/")
	switch {
	case notOurs.MatchString(path):
		return "", ""
	case strings.HasSuffix(path, ".go"):
		if testCode.MatchString(path) {
			room = "tests"
		}
		for _, m := range comment.FindAllStringSubmatch(text, -1) {
			if m[1] == "" { // not a literal
				found += m[0] + "\n"
			}
		}
	case strings.HasSuffix(path, ".py"):
		found = strings.Join(pyNotes.FindAllString(text, -1), "\n")
	case strings.HasSuffix(path, ".md"):
		if room != "results" {
			room = "docs"
		}
		found = tables.ReplaceAllString(text, "")
	default:
		return "", ""
	}
	return room, found
}

// TestProse: no room has more words of the dialect than its limits allow.
func TestProse(t *testing.T) {
	words, hits := map[string]int{}, map[string][len(dialect)]int{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case e.IsDir():
			return nil
		}
		text := check.Value(os.ReadFile(path))(t)
		room, found := notes(filepath.ToSlash(path), string(text))
		words[room] += len(word.FindAllString(found, -1))
		n := hits[room]
		for i, d := range dialect {
			n[i] += len(d.words.FindAllString(found, -1))
		}
		hits[room] = n
		return nil
	})
	check.Must(t, err)
	for room, n := range hits {
		limits, above := notYet[room]
		for i, d := range dialect {
			most := d.most
			if above {
				most = limits[i]
			}
			check.That(t, n[i]*10_000 <= most*words[room], "%s: %d of %d words are %s, more than %d per 10,000", room, n[i], words[room], d.words, most)
		}
	}
	if t.Failed() {
		t.Log(fmt.Sprint(words, hits))
	}
}
