package cli

import (
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ipcbench/report"
	"ipcbench/report/doc"
)

// sink remembers that something could not be written: what prints to it need
// not look.
type sink struct {
	io.Writer
	err    error // the first, besides closed
	closed bool  // the reader has closed its end of a pipe, as head does: no error
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

// pageWidth is how wide text is where there is no terminal.
const pageWidth = 100

// terminal says what stdout can show: the width and colours of a terminal, and
// other signs than ASCII where the locale has them.
func (a *app) terminal() doc.TextOptions {
	o := doc.TextOptions{Width: pageWidth, Unicode: unicodeLocale(os.Getenv)}
	if f, ok := a.out.Writer.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 { // what mpirun gives ranks has none, and may be a file in the end
			o.Width = width
			o.Colour = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		}
	}
	return o
}

// readable refuses to fill a terminal with a page that only a browser can show.
func (a *app) readable(format string) error {
	if f, ok := a.out.Writer.(*os.File); ok && format == "html" && term.IsTerminal(int(f.Fd())) {
		return hinted{usagef("--format html: a page of half a megabyte, and stdout is a terminal"), "send it to a file: > page.html"}
	}
	return nil
}

// called is how the program was called, for hints that can be typed again: by a path,
// by its name, or with go run, which runs a file that is gone afterwards.
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

// printing says how results are written: the flags --format and --view.
type printing struct {
	format  string
	formats []string
	views   []string
}

func (o *printing) add(fs *pflag.FlagSet, formats ...string) {
	o.formats = formats
	fs.StringVar(&o.format, "format", "text", "print as `FORMAT`: "+strings.Join(formats, "|"))
	fs.StringSliceVar(&o.views, "view", nil, "print these `VIEWS`, or all, instead of the first screen")
	offer(fs, "format", func() []string { return formats })
	offer(fs, "view", viewWords)
}

// format returns the format that o asks for, if stdout can show it.
func (a *app) format(o printing) (report.Format, error) {
	f, ok := report.FormatNamed(o.format)
	if !ok || !slices.Contains(o.formats, f.Name) {
		return f, usagef("--format %s: want %s", o.format, strings.Join(o.formats, "|"))
	}
	if err := a.readable(f.Name); err != nil {
		return f, err
	}
	if len(o.views) > 0 && f.Name != "text" && f.Name != "md" && f.Name != "html" {
		return f, usagef("--view: --format %s has everything, and only text, md and html have views", f.Name)
	}
	if err := report.CheckViews(o.views); err != nil {
		return f, hinted{usagef("--view: %w", err), "ipcbench list views"}
	}
	return f, nil
}

// perfetto is a format of report alone: a run prints its answer.
const perfetto = "perfetto"

func formatNames() []string {
	return each(report.Formats(), func(f report.Format) string { return f.Name })
}
