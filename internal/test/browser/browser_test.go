package browser

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// TestProblems: Problems returns everything that a page must not do.
func TestProblems(t *testing.T) {
	skip.Long(t)
	path := filepath.Join(t.TempDir(), "page #1.html")
	check.Must(t, os.WriteFile(path, []byte(`<!doctype html><meta charset=utf-8><title>t</title>
		<meta http-equiv="Content-Security-Policy" content="default-src data:; script-src 'unsafe-inline'">
		<img src="https://example.com/x.png">
		<script>console.log("said", 1); alert("opened"); fetch("beside.json").catch(() => {}); throw new Error("thrown")</script>`), 0o600))
	p := Start(t).Open(t, path, Options{})
	all := strings.Join(p.Problems(), "\n")
	for _, want := range []string{"request: https://example.com/x.png", "console: said 1", "dialog: opened", "Content Security Policy directive", "beside.json", "exception: Uncaught Error: thrown"} {
		check.That(t, strings.Contains(all, want), "no %q in\n%s", want, all)
	}
	check.Equal(t, p.Problems(), nil, "forgotten")
}
