// Package mutate has one table of bad values, for tests of everything that reads messages of
// other processes.
package mutate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"ipcbench/internal/test/check"
)

// texts are texts, quoted, that a terminal, a page or a log would interpret.
var texts = []string{
	`"\u001b]0;owned\u0007"`, `"a\n::error::owned"`, `"a\u0000"`, `"a\u009b2J"`, `"a\u202eb"`, `"a\u200bb"`, "\"a\xff\"",
}

// JSON calls refused with each mutation of a JSON object: a value is of another kind, a
// hostile text or beyond the limits of numbers, or a key stands twice or beside an unknown one. place
// is the path of what is wrong, such as cells[0].model. Mutations that match allowed, a regular
// expression for "PLACE VALUE" such as "depth -1", are left out.
func JSON(t check.TB, valid []byte, allowed string, refused func(place string, text []byte)) {
	t.Helper()
	var tree any
	from := json.NewDecoder(bytes.NewReader(valid))
	from.UseNumber()
	check.Must(t, from.Decode(&tree))
	skip := regexp.MustCompile(allowed)
	var visit func(place string, v any, set func(any))
	visit = func(place string, v any, set func(any)) {
		put := func(place, value string) {
			set("@")
			text := check.Value(json.Marshal(tree))(t)
			if set(v); !skip.MatchString(place + " " + value) {
				refused(place, []byte(strings.Replace(string(text), `"@"`, value, 1)))
			}
		}
		var bad []string
		switch v := v.(type) {
		case string:
			bad = append([]string{"7", `"` + strings.Repeat("x", 64<<10+1) + `"`}, texts...)
		case json.Number:
			bad = []string{`"x"`, "NaN", "1e999", "-1", "9000000000000000000"}
		case bool:
			bad = []string{`"x"`}
		case []any:
			bad = []string{`"x"`, "{}"}
			for i, inner := range v {
				visit(fmt.Sprintf("%s[%d]", place, i), inner, func(x any) { v[i] = x })
			}
		case map[string]any:
			bad = []string{`"x"`, "[]"}
			whole := check.Value(json.Marshal(v))(t)
			put(place, string(whole[:len(whole)-1])+`,"\u001b[2J":1}`)
			for key, inner := range v {
				in := strings.TrimPrefix(place+"."+key, ".")
				visit(in, inner, func(x any) { v[key] = x })
				put(in, fmt.Sprintf("%s,%q:null}", whole[:len(whole)-1], key))
			}
		}
		for _, value := range bad {
			put(place, value)
		}
	}
	visit("", tree, func(v any) { tree = v })
}
