package browser

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

func file(t *testing.T, html string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page #1.html")
	check.Must(t, os.WriteFile(path, []byte("<!doctype html><meta charset=utf-8><title>t</title>"+html), 0o600))
	return path
}

// TestBrowser: what a page does is seen, and what a test asks for is done.
func TestBrowser(t *testing.T) {
	skip.Long(t)
	b := Start(t)
	t.Run("problems", func(t *testing.T) {
		p := b.Open(t, file(t, `<meta http-equiv="Content-Security-Policy" content="default-src data:; script-src 'unsafe-inline'">
			<img src="https://example.com/x.png">
			<script>console.log("said", 1); alert("opened"); fetch("beside.json").catch(() => {}); throw new Error("thrown")</script>`), Options{})
		all := strings.Join(p.Problems(), "\n")
		for _, want := range []string{"request: https://example.com/x.png", "console: said 1", "dialog: opened", "Content Security Policy directive", "beside.json", "exception: Uncaught Error: thrown"} {
			check.That(t, strings.Contains(all, want), "no %q in\n%s", want, all)
		}
		again := p.Problems()
		check.That(t, again == nil, "not forgotten: %q", again)
	})
	t.Run("requests", func(t *testing.T) {
		p := b.Open(t, file(t, `<link rel=stylesheet href="beside.css">`), Options{})
		if all := p.Problems(); !slices.ContainsFunc(all, func(s string) bool { return strings.HasPrefix(s, "request: ") && strings.HasSuffix(s, "/beside.css") }) {
			t.Errorf("%q", all)
		}
	})
	t.Run("hands", func(t *testing.T) {
		p := b.Open(t, file(t, `<p style="height: 3000px">far</p><div></div><button>b</button><input>
			<script>
				const b = document.querySelector("button"), said = []
				new IntersectionObserver(() => scrollY && (document.querySelector("div").style.height = "99px")).observe(b)
				for (const e of ["mouseover", "click", "keydown"]) b.addEventListener(e, v => said.push(e + (v.key ?? "")))
			</script>`), Options{})
		p.Hover("button")
		p.Hover("input")
		p.Click("button")
		p.Press("\x1b\t")
		p.Press("x")
		got := Eval[string](p, `said.join() + document.querySelector("input").value`)
		check.That(t, got == "mouseover,mouseover,click,keydownEscape,keydownTabx", "%v", got)
	})
	t.Run("looks", func(t *testing.T) {
		path := file(t, `<p>p</p><script>document.querySelector("p").textContent = "script"</script>`)
		const look = `[innerWidth, matchMedia("(prefers-color-scheme: dark)").matches, matchMedia("print").matches, document.querySelector("p").textContent].join()`
		for want, o := range map[string]Options{
			"1280,false,false,script": {},
			"420,true,false,script":   {Width: 420, Dark: true},
			"1280,false,true,p":       {Print: true, NoScript: true},
		} {
			p := b.Open(t, path, o)
			check.Equal(t, Eval[string](p, look), want)
			check.That(t, bytes.HasPrefix(p.Screenshot("html"), []byte("\x89PNG")) && bytes.HasPrefix(p.PDF(), []byte("%PDF")),
				"no picture or no print")
		}
	})
}
