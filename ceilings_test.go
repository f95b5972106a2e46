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

// A size is how much code a room has, of product and of tests, in tokens, which no formatting changes.
type size struct{ tokens, testTokens int }

// ceilings are the most that a room may have: the top-level folders and, of the larger
// ones, each package. Who adds code says in the same change what goes, and lowers a ceiling
// when code goes. TestCeilings prints this table as it would be now.
var ceilings = map[string]size{
	".":                            {0, 8004},
	"bench":                        {13474, 23913},
	"bench/benchtest":              {0, 6167},
	"bench/exchange":               {3189, 209},
	"bench/floors":                 {7138, 3580},
	"bench/place":                  {3410, 2032},
	"bench/program":                {4160, 8936},
	"bench/result":                 {8720, 6100},
	"bench/session":                {14026, 6632},
	"bench/stat":                   {4472, 7475},
	"cli":                          {30898, 28793},
	"cmd":                          {64, 9606},
	"codec":                        {14721, 11959},
	"examples":                     {1825, 1023},
	"fedavg":                       {2024, 5227},
	"identity":                     {3349, 5777},
	"internal":                     {46311, 46599},
	"phase":                        {4734, 5830},
	"python":                       {2384, 2150},
	"receipt":                      {6701, 9173},
	"report":                       {17215, 48600},
	"report/answer":                {13292, 0},
	"report/contrast":              {4746, 2334},
	"report/doc":                   {13719, 6655},
	"report/doc/doctest":           {0, 1311},
	"report/metrics":               {12416, 2986},
	"report/table":                 {26927, 4701},
	"scripts":                      {1072, 3258},
	"tensor":                       {18035, 26670},
	"total":                        {395350, 444445},
	"trainer":                      {19858, 15652},
	"transports":                   {9013, 10434},
	"transports/all":               {90, 8663},
	"transports/batched":           {19804, 27051},
	"transports/driver":            {2900, 1643},
	"transports/driver/drivertest": {0, 22648},
	"transports/endpoint":          {7054, 6989},
	"transports/http":              {13503, 18227},
	"transports/http/exchange":     {3910, 2128},
	"transports/http/store":        {7742, 5763},
	"transports/inproc":            {1846, 500},
	"transports/internal/gobs":     {1574, 1196},
	"transports/internal/mailbox":  {1136, 1413},
	"transports/internal/slab":     {7460, 8801},
	"transports/pickle":            {4521, 3094},
	"transports/shm":               {15920, 14543},
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
		tokens := len(lexeme.FindAllString(comment.ReplaceAllString(string(text), "$1"), -1))
		for _, name := range []string{room(filepath.ToSlash(path)), "total"} {
			s := all[name]
			if testCode.MatchString(filepath.ToSlash(path)) {
				s.testTokens += tokens
			} else {
				s.tokens += tokens
			}
			all[name] = s
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
		fmt.Fprintf(&table, "\t%q: {%d, %d},\n", name, s.tokens, s.testTokens)
		check.That(t, s.tokens <= most.tokens, "%s has %d tokens, and its ceiling is %d", name, s.tokens, most.tokens)
		check.That(t, s.testTokens <= most.testTokens, "%s has %d tokens of tests, and its ceiling is %d", name, s.testTokens, most.testTokens)
	}
	for name := range ceilings {
		_, ok := now[name]
		check.That(t, ok, "%s has a ceiling and no code", name)
	}
	if t.Failed() {
		t.Logf("the table as it would be now:\n%s", table.String())
	}
}
