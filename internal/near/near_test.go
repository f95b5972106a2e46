package near

import (
	"strings"
	"testing"

	"ipcbench/internal/test/check"
)

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"cnn", "cnn", 0}, {"flaw", "lawn", 2}, {"gtp2", "gpt2", 1}, {"ab", "ba", 1}, {"abcd", "badc", 2},
	} {
		check.Equal(t, distance(test.a, test.b), test.want, test.a, test.b)
	}
}

func TestNames(t *testing.T) {
	names := []string{"transport", "thorough", "time", "grpc-tensor", "grpc-batch"}
	for text, want := range map[string]string{
		"tranport": "transport", "Through": "thorough", "tme": "time", "model": "", "": "", "time": "time", "grpc": "grpc-tensor grpc-batch", "BATCH": "grpc-batch",
	} {
		check.Equal(t, strings.Join(Names(text, names), " "), want, "of", text)
	}
	check.Fails(t, Unknown("flag", "grpc", names), `unknown flag "grpc": did you mean grpc-tensor or grpc-batch?`)
	check.Fails(t, Unknown("flag", "x", names), `unknown flag "x": must be one of transport, thorough, time, `)
	check.Equal(t, Meant("--", "tme", names), "did you mean --time?")
}
