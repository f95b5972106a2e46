package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"ipcbench/internal/test/check"
	"ipcbench/transports/all"
)

// TestHelp: every command's help fits a terminal of 80 columns, begins with what
// the command does, and shows it by an example.
func TestHelp(t *testing.T) {
	root := newApp(io.Discard, io.Discard, all.Transports()).rootCommand()
	var try func(c *cobra.Command)
	try = func(c *cobra.Command) {
		var out bytes.Buffer
		c.SetOut(&out)
		check.Must(t, c.Help())
		for line := range strings.Lines(out.String()) {
			n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			check.That(t, n <= 80, "%s --help has a line of %d columns: %s", c.CommandPath(), n, line)
		}
		check.That(t, c.Long == "" || strings.Contains(c.Long, "\n  "+root.Name()+" "), "%s --help has no example", c.CommandPath())
		for _, sub := range c.Commands() {
			try(sub)
		}
	}
	try(root)
}
