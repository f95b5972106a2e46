package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/internal/test/check"
	"ipcbench/tensor/models"
	"ipcbench/transports/all"
)

func everyCommand(f func(*cobra.Command)) {
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		f(c)
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newApp(io.Discard, io.Discard, all.Transports()).rootCommand())
}

// TestHarmfulInFiles: a file of settings cannot name a program to run or a file to write. A
// new flag that accepts text must be classified here.
func TestHarmfulInFiles(t *testing.T) {
	harms := map[string]bool{
		"against": true, "layouts": true, "out": true, "html": true, "peer": true, "language": true, "train": true, "profile": true,

		"transport": false, "model": false, "up": false, "workers": false, "clients": false, "link": false, "listen": false, "view": false, "format": false,
		"verify": false, "change": false, "values": false, "scenario": false, "questions": false, "codec": false, "require-lossless": false, "baseline": false,
		"pages": false, "tls-ca": false, "tls-cert": false, "tls-key": false, "tls-names": false,
	}
	var checked int
	everyCommand(func(c *cobra.Command) {
		if c.Flags().Lookup("config") == nil {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !inFiles(f) || !strings.HasPrefix(f.Value.Type(), "string") {
				return
			}
			checked++
			if does, ok := harms[f.Name]; !ok {
				t.Errorf("%s --%s: does it name a program to run, or a file to write? Say so here, and in harmful if it does", c.CommandPath(), f.Name)
			} else if does != (harmful[f.Name] != "") {
				t.Errorf("%s --%s: can do harm: %v, and harmful has it: %v", c.CommandPath(), f.Name, does, !does)
			}
		})
	})
	check.That(t, checked >= len(harms), "only %d flags were looked at", checked)
}

// TestSettingsExample: the file of settings in ipcbench help files is valid.
func TestSettingsExample(t *testing.T) {
	var file string
	for _, line := range regexp.MustCompile(`(?m)^    [a-z]+: .*`).FindAllString(readText("help/files.txt"), -1) {
		file += line[4:] + "\n"
	}
	path := filepath.Join(t.TempDir(), "settings.yaml")
	check.Must(t, os.WriteFile(path, []byte(file), 0o644))
	var out, stderr bytes.Buffer
	code := newApp(&out, &stderr, all.Transports()).main([]string{"run", "--config", path, "--dry-run"})
	check.Need(t, code == 0, "exit code %d: %s", code, stderr.String())
	n := strings.Count(out.String(), "# file\n")
	check.That(t, n == 4, "%d settings come from the file, want 4:\n%s", n, out.String())
}

// TestQuestions: the cells of every question can be built, those of a project alone are at most 12 unless it is the sweep
// over sizes, and its claims are about its cells.
func TestQuestions(t *testing.T) {
	a := newApp(io.Discard, io.Discard, all.Transports())
	variants, first := map[string][]string{}, map[string]int{}
	for _, q := range questions() {
		var none cellFlags
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		none.add(fs)
		f, err := q.asks(fs)
		check.Must(t, err)
		cells, err := a.matrix(f, map[string]*models.Model{})
		check.That(t, err == nil && q.Text != "", "%s: %q, %v", q.Name, q.Text, err)
		project, _, _ := strings.Cut(q.Name, "/")
		if !q.more {
			first[project] += len(cells)
		}
		for _, c := range cells {
			variants[project] = append(variants[project], c.Variant.String())
		}
	}
	for _, q := range questions() {
		project, _, _ := strings.Cut(q.Name, "/")
		check.That(t, first[project] <= 12 || project == "sizes", "%s has %d cells", project, first[project])
		for _, word := range strings.Fields(strings.Join(q.Claims, " ")) {
			name, is := strings.CutPrefix(word, "transport=")
			check.That(t, !is || slices.Contains(variants[project], name), "%s: no cell has %s, but %q", q.Name, word, variants[project])
		}
	}
}

// FuzzConfig: a file of settings is accepted or rejected, and the printed form of an
// accepted one reads back as the same settings.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "# nothing\n", "~", "model: cnn\ntransport: [http, 'shm-slab:wait=spin']\n", "out: \"#: {a,\"\nprecision: 5%\nseed: 18446744073709551615\n",
		"model: &a [cnn]\nup: *a\n", "a: 1\na: 2\n", "model: cnn\n---\nmodel: cnn\n", "transport: [['http']]", "out: !!binary aGk=", "{model: [a, ~, \"\"]}",
		"model: |\n  x\n", "quick: yes\n", "? [a]\n: b\n", "<<: {model: cnn}\n", "out: ''\nview: []\n", strings.Repeat("[", 200), "\ufeffmodel: cnn", "time: 0x1p3s",
		"out: \"true\"\ncanary: 20%\nformat: null", "view: ['a,b', '\"', 'a\"b', '- x', '?', '[', '%', '@', '`']",
	} {
		f.Add([]byte(text))
	}
	apply := func(text []byte) (string, error) {
		cmd := newApp(io.Discard, io.Discard, nil).runCommand()
		s := &settings{flags: cmd.Flags(), origins: map[string]string{}}
		entries, err := parseConfig("f", text)
		if err != nil {
			return "", err
		}
		for _, e := range entries {
			if f := s.flags.Lookup(e.key); f != nil && inFiles(f) {
				if err := e.set(s.flags, f); err != nil {
					return "", err
				}
			}
		}
		var out strings.Builder
		err = s.write(&out)
		return out.String(), err
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := apply(text)
		if err != nil {
			check.That(t, !strings.Contains(strings.TrimSuffix(err.Error(), "\n"), "\n"), "an error of several lines: %v", err)
			return
		}
		second, err := apply([]byte(first))
		check.That(t, err == nil && second == first, "%v: printed\n%s\nand read back as\n%s", err, first, second)
	})
}
