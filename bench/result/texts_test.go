package result

import (
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

// TestTexts: text that a terminal, a page or a log would interpret is escaped before anything is measured.
// TestEveryField rejects it in files.
func TestTexts(t *testing.T) {
	for _, bad := range []string{"\x1b]0;owned\x07", "a\n::error::owned", "a\x00", "a\u009b2J", "a\u202eb", "a\u200bb", "a\xff", strings.Repeat("x", maxText+1)} {
		r := tiny()
		r.Environment.CPU, r.Command[1], r.Plan.Mode = bad, bad, bad
		check.That(t, r.Validate() != nil, "%.20q is in a result", bad)
		MakePrintable(r)
		check.OK(t, r.Validate(), "made printable")
	}
	check.Equal(t, Printable("AMD\x00 \u202ebad™\xff"), `AMD\x00 \u202ebad™\xff`)
}
