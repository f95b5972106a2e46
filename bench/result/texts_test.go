package result

import (
	"ipcbench/internal/test/check"
	"strings"
	"testing"
)

// TestTexts: no text of a result, whatever its place, may hold what a terminal, a
// page or a log would obey; and what the machine or the command line says so is
// escaped before anything is measured.
func TestTexts(t *testing.T) {
	for name, bad := range map[string]string{
		"escape": "\x1b]0;owned\x07", "new line": "a\n::error::owned", "nul": "a\x00", "c1": "a\u009b2J",
		"bidi": "a\u202eb", "zero width": "a\u200bb", "not UTF-8": "a\xff", "too long": strings.Repeat("x", maxText+1),
	} {
		for _, tt := range []struct {
			field string
			set   func(r *Result)
		}{
			{"environment.cpu", func(r *Result) { r.Environment.CPU = bad }},
			{"environment.kernel", func(r *Result) { r.Environment.Kernel = bad }},
			{"plan.mode", func(r *Result) { r.Plan.Mode = bad }},
			{"partial", func(r *Result) { r.Partial = bad }},
			{"command[1]", func(r *Result) { r.Command[1] = bad }},
			{"floors[0].help", func(r *Result) { r.Floors[0].Help = bad }},
			{"floors[0].condition", func(r *Result) { r.Floors[0].Condition = bad }},
			{"floors[0].variant", func(r *Result) { r.Floors[0].Variant = bad }},
			{"cells[0].stopped", func(r *Result) { r.Cells[0].Stopped = bad }},
			{"cells[0].settings.elems", func(r *Result) { r.Cells[0].Settings["elems"] = bad }},
			{"cells[0].settings", func(r *Result) { r.Cells[0].Settings[bad] = "off" }},
			{"cells[0].file_system", func(r *Result) { r.Cells[0].FileSystem = bad }},
		} {
			r := tiny()
			tt.set(r)
			if err := r.Validate(); err == nil || !strings.HasPrefix(err.Error(), tt.field+": ") || strings.ContainsAny(err.Error(), "\x1b\x07\n\x00\u202e") {
				t.Errorf("%s in %s: got %v, want a refusal by the field", name, tt.field, err)
			}
		}
		r := tiny()
		r.Environment.CPU, r.Command[1], r.Plan.Mode = bad, bad, bad
		MakePrintable(r)
		check.OK(t, r.Validate(), name, "made printable")
	}
	got, want := Printable("AMD\x00 \u202ebad™\xff"), `AMD\x00 \u202ebad™\xff`
	check.That(t, got == want, "got %q, want %q", got, want)
}
