package doc

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

func TestVisible(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"grpc-batch:reports=3 ±5 % µs — ×", "grpc-batch:reports=3 ±5 % µs — ×"},
		{"a\nb\tc\x1b\x00\x7f", `a\nb\tc\x1b\x00\x7f`},
		{"\u009b\u202e\u200b\ufeff\u00a0\u3164\U000e0041", `\u009b\u202e\u200b\ufeff\u00a0\u3164\U000e0041`},
		{"\xff\xc3(", `\xff\xc3(`},
		{"::error::x a::b ::c [::1]", `\::error::x a::b \::c [::1]`},
		{"##[error]###[x]", `#\#[error]##\#[x]`},
		{"日本語 é e\u0301", "日本語 é e\u0301"},
	} {
		check.Equal(t, Visible(test.text), test.want)
		check.Equal(t, Visible(test.want), test.want, "twice")
	}
}

// TestEscapedJSON: escaped JSON decodes to the original values.
func TestEscapedJSON(t *testing.T) {
	want := map[string]string{"a": doctest.Hostile, "b": "µs", "##[x]": "\U0001f600\U000e0041"}
	var b bytes.Buffer
	check.Must(t, WriteJSON(&b, want, "\t"))
	check.Equal(t, doctest.Acts("json", b.String()), "")
	var got map[string]string
	check.Must(t, json.Unmarshal(b.Bytes(), &got))
	want["a"] = strings.NewReplacer("\xff\xc3", "\ufffd\ufffd").Replace(doctest.Hostile) // JSON cannot have invalid UTF-8
	check.Equal(t, got, want)
	check.That(t, strings.Contains(b.String(), "µs"), "what shows was escaped too: %s", b.String())
}
