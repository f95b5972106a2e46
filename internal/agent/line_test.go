package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
)

// TestLine: a printed join line parses to the same value, and other texts are rejected.
func TestLine(t *testing.T) {
	token := "0123456789abcdef0123456789abcdef"
	for _, l := range []Line{
		{Addr: "192.0.2.1:7000", Token: token, CA: bytes.Repeat([]byte{7}, 32)},
		{Addr: "[2001:db8::1]:7000", Token: token},
		{Addr: "job-0.workers:7000", Token: token},
		{Addr: "h0:7000", Token: "GEZDGNBVGY3TQOJQGEZDGNBVGA"},
		{Addr: "h0:7000", Token: "AbCdEfGhIjKlMnOpQ+/tUv=="},
	} {
		got, err := ParseLine(" " + l.String() + "\n")
		check.That(t, err == nil && cmp.Equal(got, l), "%s is read as %+v, %v", l, got, err)
	}
	for text, want := range map[string]string{
		"":                             "not a join line",
		"http://h:1/#x":                "not a join line",
		"ipcbench://h:1/#short":        "fewer than 128 bits",
		"ipcbench://h:1/#" + token[1:]: "fewer than 128 bits",
		"ipcbench://h:1/#GEZDGNBVGY3TQOJQGEZDGNBVG":               "fewer than 128 bits",
		"ipcbench://h:1/#AbCdEfGhIjKlMnOpQ-_tU==":                 "fewer than 128 bits",
		"ipcbench://h:1/#" + strings.Repeat("a b", 20):            "letters, digits",
		"ipcbench://h/#" + token:                                  "must be HOST:PORT",
		"ipcbench://h:0/#" + token:                                "the port must be from 1",
		"ipcbench://:7000/#" + token:                              "must be HOST:PORT",
		"ipcbench://h:7000/#" + token + ".":                       "was it cut off?",
		"ipcbench://h:7000/#" + token + ".AAAA":                   "was it cut off?",
		"ipcbench://h:7000/#" + token + strings.Repeat("A", 2000): "the join line has 2",
	} {
		_, err := ParseLine(text)
		check.Fails(t, err, want, text)
		check.That(t, !strings.Contains(fmt.Sprint(err), token), "%v: shows the token", err)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("ipcbench://192.0.2.1:7000/#0123456789abcdef0123456789abcdef." + strings.Repeat("A", 43))
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseLine(text)
		if err != nil {
			return
		}
		again, err := ParseLine(l.String())
		check.That(t, err == nil && cmp.Equal(again, l), "%q is read as %+v, and that as %+v, %v", text, l, again, err)
	})
}
