package ipcbench_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// A size is how much code a room has, of product and of tests: lines that are neither blank
// nor comment, and tokens, which no formatting changes.
type size struct{ lines, tokens, testLines, testTokens int }

// ceilings are the most that a room may have: the top-level folders and, of the larger
// ones, each package. Who adds code says in the same change what goes, and lowers a ceiling
// when code goes. TestCeilings prints this table as it would be now.
var ceilings = map[string]size{
	".":                            {0, 0, 879, 7556},
	"bench":                        {3792, 31888, 3303, 36372},
	"bench/benchtest":              {0, 0, 453, 5456},
	"bench/exchange":               {392, 3110, 0, 0},
	"bench/floors":                 {1036, 7758, 418, 3909},
	"bench/result":                 {1202, 8730, 549, 5984},
	"bench/stat":                   {406, 3441, 448, 5321},
	"cli":                          {3637, 30476, 2511, 25479},
	"cmd":                          {16, 64, 886, 9453},
	"codec":                        {1695, 15089, 952, 12040},
	"examples":                     {615, 5090, 610, 5548},
	"identity":                     {421, 3354, 423, 5609},
	"internal":                     {5907, 46047, 4684, 45877},
	"phase":                        {747, 4783, 617, 5639},
	"python":                       {207, 1475, 214, 2090},
	"receipt":                      {818, 6747, 796, 9285},
	"report":                       {5119, 54037, 3328, 41143},
	"report/doc":                   {1558, 13203, 517, 6461},
	"report/doc/doctest":           {0, 0, 181, 1311},
	"report/metrics":               {1199, 12029, 292, 3868},
	"scripts":                      {144, 1085, 289, 3257},
	"tensor":                       {1875, 16037, 2177, 25598},
	"total":                        {45295, 379505, 38169, 412048},
	"trainer":                      {2672, 20282, 1515, 15527},
	"transports":                   {1058, 8817, 927, 10177},
	"transports/all":               {23, 90, 858, 8348},
	"transports/batched":           {2595, 20322, 2413, 27092},
	"transports/driver":            {1272, 9342, 809, 8057},
	"transports/driver/drivertest": {0, 0, 2056, 19696},
	"transports/http":              {1610, 13693, 1701, 19272},
	"transports/http/exchange":     {536, 4199, 165, 1820},
	"transports/http/store":        {973, 7744, 427, 5291},
	"transports/inproc":            {217, 1818, 45, 497},
	"transports/internal/mailbox":  {188, 1136, 139, 1402},
	"transports/internal/slab":     {924, 7376, 819, 8240},
	"transports/pickle":            {690, 5963, 416, 4430},
	"transports/shm":               {1751, 14280, 1352, 14943},
}

// byPackage are the folders whose packages are rooms.
var byPackage = []string{"bench", "cli", "report", "trainer", "transports"}

var (
	testCode = regexp.MustCompile(`_test\.go$|(^|/)(drivertest|benchtest|doctest|browser|rig|gotest|skip)/|^internal/test/`)
	notOurs  = regexp.MustCompile(`federationpb/|(^|/)testdata/`)
	comment  = regexp.MustCompile("(?s)(`[^`]*`|\"(?:\\\\.|[^\"\\\\\\n])*\"|'(?:\\\\.|[^'\\\\\\n])*')|//[^\\n]*|/\\*.*?\\*/")
	lexeme   = regexp.MustCompile("`[^`]*`|\"(?:\\\\.|[^\"\\\\\\n])*\"|'(?:\\\\.|[^'\\\\\\n])*'|[\\pL_][\\pL\\pN_]*|[0-9][\\pL\\pN_.]*|[^\\s\\pL\\pN_]")
)

// room returns the room of a file.
func room(path string) string {
	dir, top := filepath.Dir(path), strings.SplitN(path, "/", 2)[0]
	switch {
	case dir == ".":
		return "."
	case slices.Contains(byPackage, top):
		return dir
	}
	return top
}

// sizes returns how much code each room has, and all of them under "total".
func sizes(t *testing.T) map[string]size {
	t.Helper()
	all := map[string]size{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != "." && strings.HasPrefix(e.Name(), "."):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || notOurs.MatchString(path):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		code, lines := comment.ReplaceAllString(string(text), "$1"), 0
		for line := range strings.Lines(code) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		tokens := len(lexeme.FindAllString(code, -1))
		for _, of := range []string{room(filepath.ToSlash(path)), "total"} {
			s := all[of]
			if testCode.MatchString(filepath.ToSlash(path)) {
				s.testLines, s.testTokens = s.testLines+lines, s.testTokens+tokens
			} else {
				s.lines, s.tokens = s.lines+lines, s.tokens+tokens
			}
			all[of] = s
		}
		return nil
	})
	check.Must(t, err)
	return all
}

// TestCeilings: no room has more code than its ceiling, and each room has one.
func TestCeilings(t *testing.T) {
	now := sizes(t)
	var table strings.Builder
	var names []string
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		s, most := now[name], ceilings[name]
		fmt.Fprintf(&table, "\t%q: {%d, %d, %d, %d},\n", name, s.lines, s.tokens, s.testLines, s.testTokens)
		for _, of := range []struct {
			what      string
			has, most int
		}{{"lines", s.lines, most.lines}, {"tokens", s.tokens, most.tokens}, {"lines of tests", s.testLines, most.testLines}, {"tokens of tests", s.testTokens, most.testTokens}} {
			check.That(t, of.has <= of.most, "%s has %d %s, and its ceiling is %d", name, of.has, of.what, of.most)
		}
	}
	for name := range ceilings {
		_, ok := now[name]
		check.That(t, ok, "%s has a ceiling and no code", name)
	}
	if t.Failed() {
		t.Logf("the table as it would be now:\n%s", table.String())
	}
}
