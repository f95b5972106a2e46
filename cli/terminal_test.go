package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestClosedPipe: a reader that stops early, such as head, is not an error, and the exit
// code is the one for SIGPIPE.
func TestClosedPipe(t *testing.T) {
	r, w, err := os.Pipe()
	check.Must(t, err)
	defer w.Close()
	check.Must(t, r.Close())
	var stderr bytes.Buffer
	code := newApp(w, &stderr, all.Transports()).main([]string{"list", "metrics"})
	check.That(t, code == exitPipe && stderr.Len() == 0, "got code %d: %s", code, &stderr)
	full := check.Value(os.OpenFile("/dev/full", os.O_WRONLY, 0))(t)
	defer full.Close()
	code = newApp(full, &stderr, all.Transports()).main([]string{"list", "metrics"})
	check.That(t, code == exitFailed && stderr.Len() != 0, "a full disk: got code %d: %s", code, &stderr)
}

// TestReadable: no command writes a page to a terminal; run rejects it before measuring.
func TestReadable(t *testing.T) {
	const file = "../results/all.json.gz"
	for _, args := range [][]string{{"report", file, "--format", "html"}, {"compare", file, "--format", "html"}, {"run", "--format", "html"}} {
		master, slave := terminal(t)
		var stderr bytes.Buffer
		check.Equal(t, newApp(slave, &stderr, all.Transports()).main(args), exitUsage, args)
		check.That(t, strings.Contains(stderr.String(), "hint: redirect it to a file: > page.html"),
			"%v: %s", args, &stderr)
		slave.Close()
		left, err := io.ReadAll(master)
		check.That(t, len(left) <= 0, "%v: %d bytes on the terminal, %v", args, len(left), err)
	}
}

// TestTerminal: output is coloured if the terminal has a width. The terminal that mpirun
// gives a rank has none, and its output may end in a file.
func TestTerminal(t *testing.T) {
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	_, slave := terminal(t)
	defer slave.Close()
	a := newApp(slave, io.Discard, nil)
	o := a.terminal()
	check.That(t, !o.Colour && o.Width == pageWidth, "without a size: %+v", o)
	check.Must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
	o = a.terminal()
	check.That(t, o.Colour && o.Width == 80, "with 80 columns: %+v", o)
	t.Setenv("COLUMNS", "66")
	check.Equal(t, a.terminal().Width, 66, "with COLUMNS")
}

// TestMessages: lines on a terminal are broken between words, at its width or at COLUMNS. Lines
// in a file or a pipe are not.
func TestMessages(t *testing.T) {
	const text = "ipcbench: warning: one two three\n    indented four five six\nshort\n"
	for _, test := range []struct{ columns, want string }{
		{"", text},
		{"24", "ipcbench: warning: one\ntwo three\n    indented four five\n    six\nshort\n"},
	} {
		t.Setenv("COLUMNS", test.columns)
		master, slave := terminal(t)
		check.Must(t, unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}))
		check.Must(t, check.Err(messages{slave}.Write([]byte(text))))
		slave.Close()
		got, _ := io.ReadAll(master) // ends with EIO
		check.Equal(t, strings.ReplaceAll(string(got), "\r\n", "\n"), test.want)
		file := check.Value(os.CreateTemp(t.TempDir(), ""))(t)
		check.Must(t, check.Err(messages{file}.Write([]byte(text))))
		check.Equal(t, string(check.Value(os.ReadFile(file.Name()))(t)), text, "in a file")
	}
}

func TestUnicodeLocale(t *testing.T) {
	for _, test := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false},
		{"", "", "C", false},
		{"", "", "de_DE.UTF-8", true},
		{"", "C.utf8", "C", true},
		{"POSIX", "C.UTF-8", "en_US.UTF-8", false},
		{"en_US.UTF-8", "C", "", true},
		{"", "", "de_DE.ISO-8859-1", false},
	} {
		env := map[string]string{"LC_ALL": test.all, "LC_CTYPE": test.ctype, "LANG": test.lang}
		check.Equal(t, unicodeLocale(func(name string) string { return env[name] }), test.want, env)
	}
}

// TestCalled: hints repeat the program's name as typed, if it can be typed again.
func TestCalled(t *testing.T) {
	for arg, want := range map[string]string{
		"ipcbench": "ipcbench", "./ipcbench": "./ipcbench", "/usr/bin/ipcbench": "/usr/bin/ipcbench",
		"/tmp/go-build123/b001/exe/ipcbench": "go run ./cmd/ipcbench", "./a b": "ipcbench", "$(x)": "ipcbench",
	} {
		check.Equal(t, called(arg), want, arg)
	}
}
