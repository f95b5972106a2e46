package doc

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"

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
		if got := Visible(test.text); got != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
		if got := Visible(Visible(test.text)); got != Visible(test.text) {
			t.Errorf("%q: twice is %s", test.text, got)
		}
	}
}

// TestEscapedJSON: JSON stays what it was.
func TestEscapedJSON(t *testing.T) {
	want := map[string]string{"a": doctest.Hostile, "b": "µs", "##[x]": "\U0001f600\U000e0041"}
	var b bytes.Buffer
	if err := WriteJSON(&b, want, "\t"); err != nil {
		t.Fatal(err)
	}
	if why := doctest.Acts("json", b.String()); why != "" {
		t.Errorf("%s", why)
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want["a"] = strings.NewReplacer("\xff\xc3", "\ufffd\ufffd").Replace(doctest.Hostile) // JSON has no other bytes
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(b.String(), "µs") {
		t.Errorf("what shows was escaped too: %s", b.String())
	}
}
