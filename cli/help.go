package cli

import (
	"cmp"
	"embed"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// texts has the help of commands and topics, help/NAME.txt, and the questions of projects,
// questions/PROJECT.yaml. In the latter, each question begins with ---, a comment NAME:
// QUESTION, and then has the settings of its cells.
//
//go:embed help questions
var texts embed.FS

// readText returns one of texts, which must exist. Tests read all of them.
func readText(path string) string {
	text, _ := texts.ReadFile(path)
	return string(text)
}

// topics are the subjects of ipcbench help TOPIC.
var topics = []string{"models", "pages", "time", "workers", "codecs", "network", "hosts", "python", "builds", "profile", "files"}

// flagLine is a line of a help text that is replaced with the usage of the named flags.
var flagLine = regexp.MustCompile(`(?m)^FLAGS (.*)\n`)

// explain sets the help of a command or topic from its text, whose first line is its entry
// in lists. The text may name flags of the command or of run, which has all others. A
// command whose text names flags shows only these, except after --help=all.
func explain(cmd, run *cobra.Command) {
	text := readText("help/" + cmd.Name() + ".txt")
	cmd.Short, _, _ = strings.Cut(text, "\n")
	cmd.Long = flagLine.ReplaceAllStringFunc(text, func(line string) string {
		named := pflag.NewFlagSet("", pflag.ContinueOnError)
		named.SortFlags = false
		for _, name := range strings.Fields(line)[1:] {
			named.AddFlag(cmp.Or(cmd.Flags().Lookup(name), run.Flags().Lookup(name)))
		}
		return named.FlagUsagesWrapped(80)
	})
	if cmd.Runnable() && cmd.Long != text {
		cmd.SetUsageTemplate("Usage:\n  {{.UseLine}}\n")
	}
}

var anyFlag = regexp.MustCompile(`--([a-z-]+)`)

// topicOf returns the hint that names the topic of the first flag in text, or nothing.
func topicOf(text string) string {
	if m := anyFlag.FindStringSubmatch(text); m != nil {
		for _, topic := range topics {
			if regexp.MustCompile("(?m)^FLAGS.* " + m[1] + "( |$)").MatchString(readText("help/" + topic + ".txt")) {
				return "see ipcbench help " + topic
			}
		}
	}
	return ""
}
