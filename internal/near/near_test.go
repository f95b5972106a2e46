package near

import (
	"testing"

	"ipcbench/internal/test/check"
)

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"cnn", "cnn", 0}, {"flaw", "lawn", 2},
	}
	for _, test := range tests {
		got := distance(test.a, test.b)
		check.That(t, got == test.want, "distance of %q and %q is %d, want %d", test.a, test.b, got, test.want)
	}
}

func TestName(t *testing.T) {
	names := []string{"transport", "thorough", "time"}
	for text, want := range map[string]string{"tranport": "transport", "Through": "thorough", "tme": "time", "model": "", "": "", "time": "time"} {
		got := Name(text, names)
		check.That(t, got == want, "%q is nearest to %q, want %q", text, got, want)
	}
}
