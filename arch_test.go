// Package ipcbench_test holds the rules for the whole tree.
package ipcbench_test

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/report"
)

const module = "ipcbench/"

var update = flag.Bool("update", false, "rewrite what ARCHITECTURE.md shows of the code")

// layers lists, for each package, the packages of this module that it may import. Every package of the module needs a
// row. ARCHITECTURE.md shows the table as a picture: go test . -run TestPicture -update.
var layers = map[string][]string{
	"tensor":                       {"internal/kernel", "tensor/pages"},
	"internal/kernel":              {},
	"internal/kernel/gen":          {},
	"internal/test/layouts":        {},
	"tensor/models":                {"internal/legible", "internal/near", "internal/ranges", "tensor"},
	"receipt":                      {"tensor"},
	"internal/futex":               {},
	"tensor/pages":                 {},
	"internal/link":                {"internal/machine", "internal/reexec"},
	"internal/world":               {},
	"python":                       {},
	"identity":                     {},
	"internal/test/skip":           {},
	"internal/test/browser":        {"internal/test/check", "internal/test/skip", "internal/test/waiting"},
	"internal/test/rig":            {"internal/test/check", "internal/test/proc", "internal/test/skip", "internal/link"},
	"internal/frame":               {},
	"internal/legible":             {},
	"internal/near":                {},
	"internal/ranges":              {},
	"internal/test/check":          {},
	"internal/test/child":          {"internal/test/check", "internal/test/waiting"},
	"internal/test/proc":           {"internal/test/check"},
	"internal/test/mutate":         {"internal/test/check"},
	"internal/test/reply":          {"internal/test/check"},
	"internal/test/gotest":         {},
	"internal/test/waiting":        {},
	"internal/crash":               {},
	"codec":                        {"tensor"},
	"internal/scratch":             {},
	"phase":                        {},
	"phase/usage":                  {"tensor/pages"},
	"internal/machine":             {"internal/kernel", "phase/usage"},
	"internal/doctor":              {"internal/link", "internal/machine", "phase/usage", "internal/scratch"},
	"internal/reexec":              {"phase/usage", "internal/legible"},
	"internal/profile":             {"bench/result", "phase", "internal/profile/capture"},
	"internal/profile/capture":     {"internal/near", "phase"},
	"transports":                   {"codec", "internal/crash", "internal/near", "transports/driver", "phase", "tensor", "transports/endpoint"},
	"transports/endpoint":          {"identity", "phase", "tensor"},
	"transports/driver":            {"tensor", "phase", "transports/endpoint", "tensor/pages"},
	"transports/internal/mailbox":  {"tensor", "transports/driver"},
	"transports/internal/slab":     {"tensor", "internal/crash", "phase", "transports/driver", "tensor/pages"},
	"transports/inproc":            {"tensor", "transports/driver", "transports/internal/mailbox", "transports/internal/slab", "transports/endpoint"},
	"transports/internal/gobs":     {"tensor", "phase", "transports/driver"},
	"transports/pickle":            {"internal/machine", "tensor", "phase", "internal/scratch", "transports/driver", "transports/endpoint", "transports/internal/gobs"},
	"transports/shm":               {"internal/machine", "tensor", "phase", "internal/futex", "internal/crash", "internal/scratch", "transports/driver", "transports/internal/gobs", "transports/internal/slab", "transports/endpoint", "tensor/pages"},
	"transports/batched":           {"tensor", "phase", "internal/crash", "transports/driver", "transports/internal/mailbox", "transports/batched/federationpb", "transports/endpoint"},
	"transports/http":              {"internal/machine", "tensor", "phase", "internal/scratch", "transports/driver", "transports/internal/mailbox", "transports/internal/slab", "transports/http/exchange", "transports/http/store", "transports/endpoint", "tensor/pages"},
	"transports/driver/drivertest": {"identity", "internal/crash", "internal/reexec", "internal/test/check", "internal/test/proc", "internal/test/skip", "internal/test/waiting", "phase", "phase/usage", "python", "tensor", "internal/scratch", "transports", "transports/driver", "trainer", "transports/endpoint"},
	"transports/all":               {"transports/driver", "transports/inproc", "transports/pickle", "transports/shm", "transports/batched", "transports/http"},
	"trainer":                      {"codec", "internal/crash", "identity", "internal/frame", "tensor", "phase", "phase/usage", "internal/profile/capture", "internal/reexec", "internal/scratch", "transports", "transports/driver", "receipt", "transports/endpoint", "tensor/pages"},
	"internal/agent":               {"bench/floors", "identity", "internal/frame", "internal/machine", "internal/reexec", "internal/scratch", "trainer", "transports/driver", "transports/endpoint"},
	"bench":                        {"internal/agent", "internal/doctor", "internal/link", "phase", "internal/machine", "transports", "trainer", "internal/profile", "internal/profile/capture", "bench/floors", "bench/result", "bench/stat", "bench/place", "bench/program", "bench/session", "transports/endpoint", "tensor/pages"},
	"bench/place":                  {"bench/floors", "bench/result", "bench/session", "internal/agent", "internal/link", "internal/machine", "internal/scratch", "phase/usage", "python", "trainer", "transports/driver"},
	"bench/program":                {"bench/exchange", "bench/place", "bench/result", "bench/session", "internal/machine", "internal/reexec", "internal/scratch", "python", "trainer", "transports", "transports/driver"},
	"bench/session":                {"bench/exchange", "bench/floors", "bench/result", "bench/stat", "identity", "internal/crash", "internal/link", "internal/machine", "phase", "phase/usage", "python", "receipt", "tensor", "tensor/models", "trainer", "transports", "transports/driver", "transports/endpoint", "tensor/pages", "internal/scratch"},
	"bench/result":                 {"internal/legible", "internal/link", "internal/machine", "phase", "phase/usage", "tensor", "tensor/pages"},
	"bench/exchange":               {"bench/result", "internal/machine", "internal/reexec", "tensor", "tensor/models", "trainer"},
	"bench/floors":                 {"internal/futex", "internal/machine", "internal/reexec", "identity", "tensor/pages"},
	"bench/stat":                   {},
	"bench/benchtest":              {"bench/result", "internal/link", "internal/machine", "phase/usage", "tensor", "internal/test/check", "tensor/models", "trainer", "transports", "transports/driver"},
	"report/doc":                   {"internal/legible", "bench/stat"},
	"report/doc/doctest":           {"internal/test/check"},
	"report/metrics":               {"bench/result", "internal/link", "internal/machine", "bench/stat", "internal/profile/capture", "phase"},
	"report/contrast":              {"bench/stat", "internal/machine", "phase", "report/doc", "report/metrics", "tensor/pages"},
	"report/table":                 {"bench/result", "bench/stat", "internal/link", "internal/machine", "internal/profile/capture", "phase", "report/contrast", "report/doc", "report/metrics"},
	"report/answer":                {"bench/result", "bench/stat", "internal/doctor", "internal/link", "internal/machine", "phase", "report/contrast", "report/doc", "report/metrics", "report/table"},
	"report":                       {"bench/result", "bench/stat", "internal/machine", "internal/near", "report/answer", "report/contrast", "report/doc", "report/metrics", "report/table"},
	"cli":                          {"bench", "bench/floors", "bench/place", "bench/program", "bench/result", "bench/session", "codec", "identity", "internal/agent", "internal/doctor", "internal/legible", "internal/link", "internal/machine", "internal/near", "internal/profile/capture", "internal/ranges", "internal/reexec", "internal/scratch", "internal/world", "python", "report", "report/answer", "report/doc", "report/metrics", "tensor", "tensor/models", "trainer", "transports", "transports/driver", "transports/endpoint", "transports/inproc", "tensor/pages"},
	"scripts/wheel":                {},
	"cmd/ipcbench":                 {"cli", "transports/all"},
	"transports/http/exchange":     {"internal/crash", "phase"},
	"transports/http/store":        {"phase", "tensor", "transports/http/exchange", "transports/internal/slab", "transports/driver", "tensor/pages"},
	"fedavg":                       {"receipt", "tensor", "trainer", "transports"},
	"examples/transport":           {"cli", "phase", "tensor", "transports/driver", "transports/endpoint"},
}

// generated packages are skipped by TestImports.
var generated = []string{"transports/batched/federationpb"}

// unsafeFiles are the only files that may import unsafe. Each cast in them has its proof beside it.
var unsafeFiles = []string{
	"tensor/cast.go",
	"internal/futex/word.go",
	"tensor/pages/pages.go",
	"phase/runtime.go",
	"transports/internal/slab/stamp.go",
}

// goFiles calls f with the path and imports of every Go file of this module.
func goFiles(t *testing.T, f func(path string, imports []string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && path != "." && strings.HasPrefix(e.Name(), ".") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); e.IsDir() && path != "." && err == nil {
			return filepath.SkipDir // another module
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		var imports []string
		for _, i := range file.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, name)
		}
		f(filepath.ToSlash(path), imports)
		return nil
	})
	check.Must(t, err)
}

// TestImports: each package imports only the packages that its row of layers allows, and each allowed import is used.
// Test files are not checked.
func TestImports(t *testing.T) {
	seen, used := map[string]bool{}, map[[2]string]bool{}
	goFiles(t, func(path string, imports []string) {
		pkg := strings.TrimSuffix(path[:max(0, strings.LastIndex(path, "/"))], "/")
		if pkg == "" || slices.Contains(generated, pkg) || strings.HasSuffix(path, "_test.go") {
			return
		}
		seen[pkg] = true
		allowed, ok := layers[pkg]
		if !ok {
			t.Errorf("%s: package %s has no row in the table of layers", path, pkg)
			return
		}
		for _, name := range imports {
			ours, ok := strings.CutPrefix(name, module)
			used[[2]string{pkg, ours}] = true
			check.That(t, !ok || slices.Contains(allowed, ours), "%s: %s may not import %s", path, pkg, ours)
		}
	})
	for pkg, allowed := range layers {
		check.That(t, seen[pkg], "layers: package %s does not exist", pkg)
		for _, name := range allowed {
			check.That(t, used[[2]string{pkg, name}], "layers: %s may import %s and does not: take it off the list", pkg, name)
		}
	}
}

// TestUnsafe: only the files of unsafeFiles import unsafe, and each of them does.
func TestUnsafe(t *testing.T) {
	check.That(t, len(unsafeFiles) <= 5, "%d files with unsafe, want at most 5", len(unsafeFiles))
	var found []string
	goFiles(t, func(path string, imports []string) {
		if slices.Contains(imports, "unsafe") && !slices.ContainsFunc(generated, func(g string) bool { return strings.HasPrefix(path, g+"/") }) {
			found = append(found, path)
		}
	})
	for _, path := range found {
		check.That(t, slices.Contains(unsafeFiles, path), "%s imports unsafe", path)
	}
	for _, path := range unsafeFiles {
		check.That(t, slices.Contains(found, path), "%s does not import unsafe: take it off the list", path)
	}
}

// packageComments returns the package comments of each package's files.
func packageComments(t *testing.T) map[string][]string {
	comments := map[string][]string{}
	goFiles(t, func(path string, _ []string) {
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return
		}
		file := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, parser.PackageClauseOnly|parser.ParseComments))(t)
		pkg := path[:strings.LastIndex(path, "/")]
		comments[pkg] = slices.Grow(comments[pkg], 1)
		if text := file.Doc.Text(); strings.TrimSpace(text) != "" {
			comments[pkg] = append(comments[pkg], text)
		}
	})
	return comments
}

// TestPackageComments: every package has one package comment.
func TestPackageComments(t *testing.T) {
	for pkg, all := range packageComments(t) {
		check.That(t, len(all) == 1 || slices.Contains(generated, pkg), "package %s has %d package comments, want 1", pkg, len(all))
	}
}

// TestTables: every generated table in README.md and results/ agrees with its committed result (guard 18).
func TestTables(t *testing.T) {
	_, drifts, err := report.Check(".")
	check.Must(t, err)
	for _, d := range drifts {
		t.Errorf("%s:%d: the table %q no longer matches its result: ipcbench report --update .", d.File, d.Line, d.View)
	}
}

// TestPicture: the picture of packages in ARCHITECTURE.md agrees with the table layers.
func TestPicture(t *testing.T) {
	shows(t, "layers of arch_test.go", "layers", "```text\n"+picture(t, layers)+"```\n")
}

// TestWords: the glossary in ARCHITECTURE.md agrees with package report.
func TestWords(t *testing.T) {
	table := "| word | means | not |\n| --- | --- | --- |\n"
	for _, w := range report.Words() {
		table += strings.TrimSuffix("| "+w.Word+" | "+w.Means+" | "+w.Not, " ") + " |\n"
	}
	shows(t, "words of package report", "words", table)
}

// shows checks the text between two marker comments of ARCHITECTURE.md; -update writes it.
func shows(t *testing.T, what, name, part string) {
	t.Helper()
	const file = "ARCHITECTURE.md"
	begin, end := "<!-- "+what+" -->\n", "<!-- end of "+name+" -->\n"
	text := read(t, file)
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	check.Need(t, found && closed, "%s lacks the lines %q and %q", file, begin, end)
	want := before + begin + part + end + after
	switch {
	case text == want:
	case *update:
		check.Must(t, os.WriteFile(file, []byte(want), 0o644))
	default:
		t.Errorf("%s does not show the %s: go test . -run '^%s$' -update", file, what, t.Name())
	}
}

// picture draws a table of imports: each package above all packages that it may import, with the first sentence of its
// package comment. A package's level is the length of the longest chain of imports below it. Packages below
// internal/test are left out.
func picture(t *testing.T, imports map[string][]string) string {
	levels := map[string]int{}
	var level func(pkg string) int
	level = func(pkg string) int {
		if _, ok := levels[pkg]; !ok {
			levels[pkg] = 0 // ends a cycle of imports, which does not compile anyway
			for _, i := range imports[pkg] {
				levels[pkg] = max(levels[pkg], 1+level(i))
			}
		}
		return levels[pkg]
	}
	order := func(a, b string) int { return cmp.Or(cmp.Compare(level(b), level(a)), cmp.Compare(a, b)) }
	comments := packageComments(t)
	var all strings.Builder
	last := -1
	for _, pkg := range slices.SortedFunc(maps.Keys(imports), order) {
		if strings.HasPrefix(pkg, "internal/test/") {
			continue
		}
		number := " "
		if l := level(pkg); l != last {
			number, last = strconv.Itoa(l), l
		}
		is := strings.TrimSuffix(new(doc.Package).Synopsis(strings.Join(comments[pkg], "")), ".")
		is = strings.TrimPrefix(strings.TrimPrefix(is, "Package "), filepath.Base(pkg)+" ")
		fmt.Fprintf(&all, "%s  %-28s  %s\n", number, pkg, is)
	}
	return all.String()
}

// pure lists functions that only make a value, so that package variables may call them.
var pure = []string{
	"errors.New", "fmt.Errorf", "reflect.TypeFor", "regexp.MustCompile", "strings.NewReplacer", "sync.OnceValue", "unsafe.Sizeof",
	"exchange.Refuse",   // transports/http/exchange: an error with a status
	"unary", "fetching", // transports/batched: describe one method of its service
	"differences", "half", "integer", // internal/kernel: parts of its table of rules
	"loads", // internal/kernel/gen: what an instruction does
}

// TestNoInitNoRegistry: importing a package has no effects. No package has an init function, and initializers of
// package variables call only pure functions.
func TestNoInitNoRegistry(t *testing.T) {
	goFiles(t, func(path string, _ []string) {
		if strings.HasSuffix(path, ".pb.go") {
			return
		}
		file := check.Value(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			check.That(t, !ok || f.Recv != nil || f.Name.Name != "init", "%s has an init function", path)
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR && !strings.HasSuffix(path, "_test.go") {
				for _, called := range calls(g) {
					t.Errorf("%s: a package variable is made by calling %s, which is not one of the pure functions", path, called)
				}
			}
		}
	})
}

// calls returns the functions that the initializers of d call, except pure ones and the bodies of function literals. A
// conversion is a call unless its type is in parentheses.
func calls(d *ast.GenDecl) (all []string) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.CallExpr:
			f := n.Fun
			if i, ok := f.(*ast.IndexExpr); ok {
				f = i.X
			}
			_, conversion := f.(*ast.ParenExpr)
			if name := types.ExprString(f); !conversion && !slices.Contains(pure, name) {
				all = append(all, name)
			}
		}
		return true
	})
	return all
}
