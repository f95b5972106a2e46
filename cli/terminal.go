package cli

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ipcbench/report"
	"ipcbench/report/doc"
)

// sink is a writer that stores its first error, so callers need not check for errors.
type sink struct {
	io.Writer
	err    error // the first error, except a closed pipe
	closed bool  // the reader has closed the pipe, as head does; not an error
}

func (o *sink) Write(text []byte) (int, error) {
	if o.closed {
		return len(text), nil
	}
	n, err := o.Writer.Write(text)
	if errors.Is(err, syscall.EPIPE) {
		o.closed = true
		return len(text), nil
	}
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// pageWidth is the width of text without a terminal, in columns.
const pageWidth = 100

// columns returns the width of text in columns: COLUMNS, or the width of the first file that is a
// terminal, or 0 without one.
func columns(files ...*os.File) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n >= 20 {
		return n
	}
	for _, f := range files {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 { // the terminal that mpirun gives to ranks has no width, and may be redirected to a file
			return n
		}
	}
	return 0
}

// isTerminal reports whether w is a file that is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns the width of the terminal in columns, or 0 without one. If stdout is a pipe, the
// other files may still be the terminal.
func (a *app) width() int {
	if f, ok := a.out.Writer.(*os.File); ok {
		return columns(f, os.Stderr, os.Stdin)
	}
	return 0
}

// terminal returns the abilities of stdout: width and colours of a terminal, and Unicode if
// the locale has it.
func (a *app) terminal() doc.TextOptions {
	o := doc.TextOptions{Width: cmp.Or(a.width(), pageWidth), Unicode: unicodeLocale(os.Getenv)}
	if f, ok := a.out.Writer.(*os.File); ok {
		o.Colour = columns(f) > 0 && isTerminal(f) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	}
	return o
}

// A messages writer is stderr. On a terminal, it breaks long lines between words. The live line
// of [progress] is written to File.
type messages struct{ *os.File }

func (m messages) Write(text []byte) (int, error) {
	if width := columns(m.File); width > 0 && isTerminal(m.File) {
		_, err := m.WriteString(doc.Fold(string(text), width))
		return len(text), err
	}
	return m.File.Write(text)
}

// readable returns an error if format is a page for a browser and stdout is a terminal.
func (a *app) readable(format string) error {
	if format == "html" && isTerminal(a.out.Writer) {
		return hinted{usagef("--format html: stdout is a terminal, and the page has half a megabyte"), "redirect it to a file: > page.html"}
	}
	return nil
}

// called returns the command for hints that users can type: arg, the path or name of the
// program, or the go run command, whose program is deleted afterwards.
func called(arg string) string {
	switch {
	case strings.Contains(arg, "/go-build"):
		return "go run ./cmd/ipcbench"
	case strings.Trim(arg, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-") != "":
		return "ipcbench"
	}
	return arg
}

// unicodeLocale reports whether the locale's characters are UTF-8.
func unicodeLocale(env func(string) string) bool {
	locale := strings.ToLower(cmp.Or(env("LC_ALL"), env("LC_CTYPE"), env("LANG")))
	return strings.HasSuffix(locale, "utf-8") || strings.HasSuffix(locale, "utf8")
}

// printing has the flags for printing results, --format and --view.
type printing struct {
	format  string
	formats []string
	views   []string
}

func (o *printing) add(fs *pflag.FlagSet, formats ...string) {
	o.formats = formats
	fs.StringVar(&o.format, "format", "text", "print as `FORMAT`: "+strings.Join(formats, "|"))
	fs.StringSliceVar(&o.views, "view", nil, "print these `VIEWS` instead: see ipcbench list views")
	offer(fs, "format", func() []string { return formats })
	offer(fs, "view", viewWords)
}

// format returns the requested format, if stdout can show it.
func (a *app) format(o printing) (report.Format, error) {
	f, ok := report.FormatNamed(o.format)
	if !ok || !slices.Contains(o.formats, f.Name) {
		return f, usagef("--format must be %[2]s, not %[1]s", o.format, strings.Join(o.formats, "|"))
	}
	if err := a.readable(f.Name); err != nil {
		return f, err
	}
	if len(o.views) > 0 && f.Name != "text" && f.Name != "md" && f.Name != "html" {
		return f, usagef("--view: --format %s always has everything: only text, md and html have views", f.Name)
	}
	if err := report.CheckViews(o.views); err != nil {
		return f, hinted{usagef("--view: %w", err), "ipcbench list views"}
	}
	return f, nil
}

// perfetto is a format of ipcbench report only.
const perfetto = "perfetto"

func formatNames() []string {
	return doc.Each(report.Formats(), func(f report.Format) string { return f.Name })
}
