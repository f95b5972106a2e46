package ipcbench_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// public are the folders of the packages that other programs may import.
var public = []string{
	"cli", "phase", "phase/usage", "tensor", "tensor/models", "codec", "trainer", "transports", "transports/driver",
	"transports/endpoint", "transports/all", "receipt", "identity", "fedavg",
}

// TestPublic: no exported signature of a public package uses a type from internal/, which other modules cannot name.
func TestPublic(t *testing.T) {
	for _, dir := range public {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		check.Need(t, err == nil && len(paths) != 0, "%v %v", dir, err)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			file := check.Value(parser.ParseFile(fset, path, nil, parser.SkipObjectResolution))(t)
			hidden := map[string]bool{}
			for _, i := range file.Imports {
				if name, _ := strconv.Unquote(i.Path.Value); strings.Contains(name, "/internal/") {
					hidden[name[strings.LastIndex(name, "/")+1:]] = true
				}
			}
			ast.FileExports(file)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BlockStmt:
					return false // function bodies are not part of a signature
				case *ast.ValueSpec:
					return n.Type != nil
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && hidden[x.Name] {
						t.Errorf("%s: an exported declaration names %s.%s", fset.Position(n.Pos()), x.Name, n.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// TestExamples: each public package, and each package that a block passes through, has an example that uses it from
// outside and runs.
func TestExamples(t *testing.T) {
	for _, dir := range append(public, "bench/session", "bench/program", "bench/place") {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "example_test.go"), nil, parser.ParseComments)
		check.Need(t, err == nil, "%v", err)
		all := doc.Examples(file)
		check.That(t, strings.HasSuffix(file.Name.Name, "_test") && len(all) != 0 && all[0].Output != "",
			"%s/example_test.go: want an external example with its output", dir)
	}
}
