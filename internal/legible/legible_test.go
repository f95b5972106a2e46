package legible

import (
	"testing"

	"ipcbench/internal/test/check"
)

func TestLegible(t *testing.T) {
	for text, want := range map[string]string{
		"AMD™ 5.5 µs — \ufffd":   "AMD™ 5.5 µs — \ufffd",
		"\x1b]0;owned\x07":       `\x1b]0;owned\a`,
		"a\nb\x00\u009b":         `a\nb\x00\u009b`,
		"a\u202eb\u200b":         `a\u202eb\u200b`,
		"\ufe0f\u034f\U000e0001": `\ufe0f\u034f\U000e0001`,
		"a\xff":                  `a\xff`,
	} {
		got := Text(text)
		check.That(t, got == want, "%q: got %q, want %q", text, got, want)
		err := Check(text)
		check.That(t, (err == nil) == (text == want), "%q: %v", text, err)
		err = Check(want)
		check.That(t, err == nil, "%q: %v", want, err)
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202eb\xff\x1b")
	f.Fuzz(func(t *testing.T, text string) {
		once := Text(text)
		err := Check(once)
		check.That(t, err == nil && Text(once) == once, "%q: %q: %v", text, once, err)
	})
}
