package legible

import "testing"

func TestLegible(t *testing.T) {
	for text, want := range map[string]string{
		"AMD™ 5.5 µs — \ufffd":   "AMD™ 5.5 µs — \ufffd",
		"\x1b]0;owned\x07":       `\x1b]0;owned\a`,
		"a\nb\x00\u009b":         `a\nb\x00\u009b`,
		"a\u202eb\u200b":         `a\u202eb\u200b`,
		"\ufe0f\u034f\U000e0001": `\ufe0f\u034f\U000e0001`,
		"a\xff":                  `a\xff`,
	} {
		if got := Text(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if err := Check(text); (err == nil) != (text == want) {
			t.Errorf("%q: %v", text, err)
		}
		if err := Check(want); err != nil {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202eb\xff\x1b")
	f.Fuzz(func(t *testing.T, text string) {
		once := Text(text)
		if err := Check(once); err != nil || Text(once) != once {
			t.Errorf("%q: %q: %v", text, once, err)
		}
	})
}
