package cli

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ipcbench/codec"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
	"ipcbench/transports/all"
)

var _ = flag.Bool("update", false, "rewrite docs/reference/flags.md") // doctest.Golden reads it

// TestHelp: the help of each command and topic has 80 columns, an example and a limited
// number of lines. Each flag of run is in its help or in one topic. docs/reference/flags.md
// lists all flags.
func TestHelp(t *testing.T) {
	print := func(most int, args ...string) string {
		var out bytes.Buffer
		code := newApp(&out, io.Discard, all.Transports()).main(args)
		check.That(t, code == 0 && strings.Count(out.String(), "\n") <= most, "%v: code %d, and more than %d lines:\n%s", args, code, most, &out)
		for line := range strings.Lines(out.String()) {
			check.That(t, utf8.RuneCountInString(line) <= 81, "%v has a line of more than 80 columns: %s", args, line)
		}
		return out.String()
	}
	everyCommand(func(c *cobra.Command) {
		most := map[bool]int{true: 90, false: 50}[c.Name() == "run"]
		if path := strings.Fields(c.CommandPath())[1:]; c.Runnable() && !c.Hidden {
			check.That(t, strings.Contains(print(most, append(path, "--help")...), "  ipcbench "), "%s --help has no example", c.CommandPath())
		}
	})
	short, every, topic := print(90, "run", "--help"), print(200, "run", "--help=all"), map[string]string{}
	for _, name := range topics {
		print(60, "help", name)
		for flag := range strings.FieldsSeq(strings.Join(flagLine.FindAllString(readText("help/"+name+".txt"), -1), " ")) {
			check.That(t, topic[flag] == "" || flag == "FLAGS", "--%s is in two topics", flag)
			topic[flag] = name
		}
	}
	for _, stage := range codec.Names()[1:] {
		check.That(t, strings.Contains(readText("help/codecs.txt"), "\n    "+stage+" "), "help codecs does not explain %s", stage)
	}
	page := "# Flags of ipcbench run\n\nThis page is generated from the program. `ipcbench help TOPIC` prints a topic.\n\n| flag | | topic |\n| --- | --- | --- |\n"
	newApp(io.Discard, io.Discard, all.Transports()).runCommand().Flags().VisitAll(func(f *pflag.Flag) {
		in := topic[f.Name]
		check.That(t, in != "" || strings.Contains(short, " --"+f.Name+" "), "--%s is in no topic", f.Name)
		check.That(t, strings.Contains(every, " --"+f.Name+" "), "run --help=all lacks --%s", f.Name)
		of, usage := pflag.UnquoteUsage(f)
		if d := strings.Trim(f.DefValue, "[]"); d != "" && d != "false" && d != "0" && d != "0s" && !strings.Contains(usage, "default") {
			usage += " (default " + d + ")"
		}
		page += fmt.Sprintf("| `--%s` | %s | [%s](../../cli/help/%[3]s.txt) |\n", strings.TrimSpace(f.Name+" "+of), strings.ReplaceAll(usage, "|", "\\|"), cmp.Or(in, "run"))
	})
	doctest.Golden(t, "../../docs/reference/flags.md", page)
}

var frameworkTable = regexp.MustCompile(`(?s)(\n\| framework [^\n]*\n\| --- [^\n]*\n).*?\n\n`)

// TestFrameworks: README's table of frameworks has the rows of ipcbench list peers, in order.
func TestFrameworks(t *testing.T) {
	var want strings.Builder
	for _, row := range frameworks() {
		want.WriteString(strings.ReplaceAll("| "+strings.Join(row, " | ")+" |\n", "|  |", "| |"))
	}
	readme := string(check.Value(os.ReadFile("../README.md"))(t))
	check.Need(t, frameworkTable.MatchString(readme), "README.md has no place for the table")
	doctest.Golden(t, "../../README.md", frameworkTable.ReplaceAllString(readme, "${1}"+strings.ReplaceAll(want.String(), "$", "$$")+"\n"))
}
