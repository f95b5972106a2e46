package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/internal/skip"
	"ipcbench/transports/all"
)

// pages writes the manual and returns its pages by name.
func pages(t *testing.T) (dir string, texts map[string]string) {
	t.Helper()
	dir, texts = filepath.Join(t.TempDir(), "man1"), map[string]string{}
	var stderr bytes.Buffer
	if code := newApp(io.Discard, &stderr, all.Transports()).main([]string{"man", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		texts[e.Name()] = string(text)
	}
	return dir, texts
}

// TestManual: each command has a page with all its flags, and a folder for temporary
// files changes none.
func TestManual(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	_, first := pages(t)
	t.Setenv("TMPDIR", t.TempDir())
	_, again := pages(t)
	if len(first) < 10 || len(first) != len(again) {
		t.Errorf("%d pages, and then %d", len(first), len(again))
	}
	for name, text := range first {
		if again[name] != text {
			t.Errorf("%s is another page the second time", name)
		}
		if !strings.Contains(text, `"2001-09-09"`) {
			t.Errorf("%s has not the day of SOURCE_DATE_EPOCH", name)
		}
	}
	everyCommand(func(c *cobra.Command) {
		text, ok := first[strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"]
		if ok == c.Hidden {
			t.Errorf("%s: has a page: %v", c.CommandPath(), ok)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if ok && !strings.Contains(text, `\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)+`\fR`) {
				t.Errorf("the page of %s lacks --%s", c.CommandPath(), f.Name)
			}
		})
	})
	for _, section := range []string{"EXIT STATUS", "ENVIRONMENT", "FILES"} {
		if !strings.Contains(first["ipcbench-run.1"], "\n.SH "+section+"\n") {
			t.Errorf("ipcbench-run(1) has no section %s", section)
		}
	}
}

// TestManualLint: mandoc finds nothing wrong in the pages.
func TestManualLint(t *testing.T) {
	if _, err := exec.LookPath("mandoc"); err != nil {
		skip.Missing(t, "mandoc")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1000000000")
	dir, texts := pages(t)
	for name := range texts {
		if out, err := exec.Command("mandoc", "-Tlint", "-W", "warning", filepath.Join(dir, name)).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
	// What a page shows is what the help says, whatever signs are in it.
	odd := `.B \fBx\fR 'y' "z" -- ^~` + "`…×"
	path := filepath.Join(t.TempDir(), "odd.1")
	page := manual(&cobra.Command{Use: "odd", Short: "odd signs", Long: odd + "\n'" + odd + "\n\n  " + odd}, "2001-09-09")
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mandoc", "-Tutf8", "-O", "width=200", path).Output()
	if err != nil || strings.Count(string(out), odd) != 3 {
		t.Errorf("%v: the page shows not three times %s:\n%s", err, odd, out)
	}
}

// TestExitCodes: README has the list of the manual.
func TestExitCodes(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := "| exit code | means |\n| --- | --- |\n"
	for _, c := range exitCodes {
		rows += "| " + c.name + " | " + strings.ReplaceAll(c.means, "--fail-above", "`--fail-above`") + " |\n"
	}
	if !strings.Contains(string(text), rows+"\n") {
		t.Errorf("README lacks the table\n%s", rows)
	}
}
