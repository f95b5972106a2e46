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
		check.Equal(t, Text(text), want)
		check.Equal(t, Check(text) == nil, text == want, want)
		check.OK(t, Check(want), want)
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
