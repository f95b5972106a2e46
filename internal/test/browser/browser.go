// Package browser opens files in headless Chromium, for tests. A test fails if its page
// requests anything, writes to its console, throws or opens a dialog, unless the test has
// fetched these [Page.Problems] itself.
package browser

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// A Browser is one Chromium process, for the pages of a test and of its subtests.
type Browser struct {
	ctx context.Context
}

// Start starts a browser that ends with t. Starting takes about a second, so subtests
// should share one.
func Start(t testing.TB) *Browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		skip.Missing(t, "chromium (Debian: chromium)")
	}
	home := t.TempDir() // for the browser's files
	// By default the library keeps shared memory out of /dev/shm, which is small in
	// containers. The sandbox is off, because in some containers only root can have one,
	// and all pages are the tests' own. A start from a cold disk takes longer than the
	// library's 20 s.
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.Env("HOME="+home, "TMPDIR="+home), chromedp.NoSandbox, chromedp.WSURLReadTimeout(waiting.Limit))...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	check.Must(t, chromedp.Do(ctx), "browser: start", path)
	return &Browser{ctx}
}

// Options set how a page is displayed.
type Options struct {
	Width, Height int  // of the window; zero means 1280 and 800
	Dark          bool // the reader prefers dark pages
	Print         bool // use the style for paper
	NoScript      bool // JavaScript is off
}

// A Page is an open file.
type Page struct {
	t     testing.TB
	ctx   context.Context
	url   string
	still bool // scripts are off, so there are no frames to wait for
	sync  chan bool

	mu       sync.Mutex // guards problems
	problems []string
}

// Open opens a file and waits until it is loaded. The page is closed when t ends.
func (b *Browser) Open(t testing.TB, path string, o Options) *Page {
	t.Helper()
	path = check.Value(filepath.Abs(path))(t)
	p := &Page{t: t, url: (&url.URL{Scheme: "file", Path: path}).String(), still: o.NoScript, sync: make(chan bool, 1)}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(b.ctx, chromedp.WithListener(p.listen))
	context.AfterFunc(waiting.Lasting(t), cancel) // ends a page that hangs; cleanups can still use the page
	t.Cleanup(cancel)
	media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "light"}}}
	if o.Dark {
		media.Features[0].Value = "dark"
	}
	if o.Print {
		media.Media = "print"
	}
	p.do("open",
		chromedp.EmulateViewport(int64(cmp.Or(o.Width, 1280)), int64(cmp.Or(o.Height, 800))),
		command(emulation.SetEmulatedMedia, media),
		command(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: o.NoScript}),
		chromedp.Navigate(p.url))
	t.Cleanup(func() {
		for _, problem := range p.Problems() {
			t.Error(problem)
		}
	})
	return p
}

// mark is written to the page's console: once it arrives, all earlier events have arrived.
const mark = "ipcbench: so far"

// listen handles the browser's events, in the order in which they occurred.
func (p *Page) listen(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Request.URL != p.url {
			p.problem("request: " + e.Request.URL)
		}
	case *runtime.EventConsoleAPICalled:
		var all []string
		for _, arg := range e.Args {
			all = append(all, cmp.Or(arg.Description, strings.Trim(string(arg.Value), `"`)))
		}
		if text := strings.Join(all, " "); text == mark {
			p.sync <- true
		} else {
			p.problem("console: " + text)
		}
	case *log.EventEntryAdded: // includes violations of the page's policy
		p.problem("console: " + e.Entry.Text)
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.problem("exception: " + text)
	case *page.EventJavascriptDialogOpening:
		p.problem("dialog: " + e.Message)
		// This must not wait for the browser, and the page waits for an answer.
		go chromedp.Call(p.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{}) //nolint:errcheck
	}
}

func (p *Page) problem(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = append(p.problems, text)
}

// Problems returns the page's problems so far and forgets them.
func (p *Page) Problems() []string {
	p.t.Helper()
	p.do("wait", chromedp.Evaluate[chromedp.Void]("console.debug("+strconv.Quote(mark)+")"))
	select {
	case <-p.sync:
	case <-p.ctx.Done():
		p.t.Fatal("browser: wait for the console: ", p.ctx.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.problems
	p.problems = nil
	return all
}

// do runs actions, and ends the test if one of them fails.
func (p *Page) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	check.Must(p.t, chromedp.Do(p.ctx, actions...), "browser:", p.url, what)
}

// command is an action that sends a command without an answer.
func command[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// Eval returns the value of an expression of JavaScript, or of the promise that it
// evaluates to. It works even if the page's own scripts are off.
func Eval[T any](p *Page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	check.Must(p.t, err, "browser:", p.url, expression)
	return value
}

// Hover moves the mouse to the middle of the first element that matches a CSS selector, or
// to the middle of its first line. It ends the test if another element covers it.
func (p *Page) Hover(selector string) {
	p.t.Helper()
	x, y := p.middle(selector)
	p.do("hover", chromedp.MouseEvent(chromedp.MouseMoved, x, y))
}

// Click moves the mouse to an element, as Hover does, and clicks.
func (p *Page) Click(selector string) {
	p.t.Helper()
	x, y := p.middle(selector)
	p.do("click", chromedp.MouseEvent(chromedp.MouseMoved, x, y), chromedp.MouseClickXY(x, y))
}

// middle scrolls an element into view and returns its middle, once that no longer moves. A
// page may draw charts as they come into view, which shifts the elements below.
func (p *Page) middle(selector string) (x, y float64) {
	p.t.Helper()
	at := Eval[[]float64](p, fmt.Sprintf(`(async () => {
		const e = document.querySelector(%q), still = %t
		if (!e) throw new Error("there is none")
		for (let last, same = still ? 3 : 0; ; ) {
			e.scrollIntoView({block: "center", inline: "nearest", behavior: "instant"})
			const r = e.getClientRects()[0] ?? e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2
			if (same < 3) {
				same = last === x + " " + y ? same + 1 : 0
				last = x + " " + y
				await new Promise(next => requestAnimationFrame(() => requestAnimationFrame(next)))
				continue
			}
			const top = document.elementFromPoint(x, y)
			if (!top || !e.contains(top) && !top.contains(e)) throw new Error("above it lies " + (top ? top.outerHTML.slice(0, 80) : "nothing: it is not in view"))
			return [x, y]
		}
	})()`, selector, p.still))
	return at[0], at[1]
}

// Press presses keys one after the other: "\t" is the tab key, "\r" enter, "\x1b" escape.
// Package kb of chromedp has the other keys.
func (p *Page) Press(keys string) {
	p.t.Helper()
	p.do("press", chromedp.KeyEvent(keys))
}

// Screenshot returns a PNG picture of the first element that matches the selector: "html"
// is the page in its whole length.
func (p *Page) Screenshot(selector string) []byte {
	p.t.Helper()
	return p.bytes("screenshot", chromedp.Screenshot(chromedp.CSS(selector)))
}

// PDF returns the page as printed.
func (p *Page) PDF() []byte {
	p.t.Helper()
	return p.bytes("print", chromedp.PrintToPDF())
}

func (p *Page) bytes(what string, action chromedp.Action[[]byte]) []byte {
	p.t.Helper()
	data, err := chromedp.Run(p.ctx, action)
	check.Must(p.t, err, "browser:", p.url, what)
	return data
}
