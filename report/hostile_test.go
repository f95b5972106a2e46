package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"ipcbench/bench"
	"ipcbench/machine"
	"ipcbench/profile"
)

// hostile is a text that acts on a terminal, in a browser or in a CI log, if a
// writer lets it. "evil" finds it again.
const hostile = "evil\x1b]0;owned\x07\x1b[2J\x00\x7f\u0085\u009b31m\n::error::x\r\n# wicked\t\u2028- wicked" +
	"\u202e\u2066\u200b\u200d\ufeff\u2060\u00ad\u034f\u115f\u3164\ufe0f\U000e0041\xff\xc3(" +
	" https://evil.example/ www.evil.example a@evil.example @evil #1 $x$ $`x`$ ##[error]evil %%{init: {}}%%" +
	" |<script>alert(1)</script> `x` [evil](https://evil.example) ![x](y) **x** __x__ ~~x~~ <!-- x --> &lt;"

// starts are texts that act where a line or a cell begins.
var starts = []string{
	" ::warning::evil", "=cmd|'/c evil'!A1", "@evil", "1. wicked evil", "- wicked evil", "+ wicked evil", "# wicked evil", "    wicked evil",
}

// rich returns a small result in which every string that a result can hold has a
// value.
func rich() *bench.Result {
	r := plainResult()
	r.Plan.Interleaved = true
	for _, build := range []string{"base", "head"} {
		for i, transport := range []string{"inproc", "a"} {
			c := plainCell(transport, models["cnn"], 1, 1, float64(10+i))
			c.Build = build
			r.Cells = append(r.Cells, c)
		}
	}
	r.Partial = "interrupted"
	against := r.Environment
	r.Against = &against
	r.Skipped = []bench.Skipped{{Transport: "b", Variant: "b:x=1", Model: "cnn", Workers: 1, Clients: 1, Why: "too large"}}
	cpus, memory := 1.5, int64(1e9)
	r.Environment.Cgroup = &machine.Cgroup{Version: "v2", CPUs: &cpus, Memory: &memory}
	r.Floors = append(r.Floors, bench.Floor{Name: "copy", Variant: "64 KiB", Unit: "B/s", Help: "help", Model: "cnn", Transport: "a", Clients: 1, Blocks: [][]float64{{1e9}, {2e9}}})
	functions := []profile.Function{{Name: "a/b.c in d/e.f", Flat: 1e9, Cum: 2e9}}
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Settings = map[string]string{"elems": "on"}
		c.FileSystem, c.Stopped = "ext4", "time"
		for j := range c.Blocks {
			c.Blocks[j].Server.Counts = map[string]int64{"calls.Get": 4, "fallback.full": 1, "body.tensors": 8, "wire.sent": 9, "copied": 5}
		}
		last := c.Blocks[len(c.Blocks)-1]
		last.Profiled = true
		last.Timeline = &bench.Timeline{
			Processes: []string{"server"}, Rounds: []int{1}, RoundStart: []int64{0}, RoundEnd: []int64{9},
			Process: []int{0}, Lane: []int{0}, Client: []int{0}, Phase: []string{"train"}, Start: []int64{0}, End: []int64{9},
		}
		c.Blocks = append(c.Blocks, last)
		for _, kind := range []string{"cpu", "allocs"} {
			unit := map[string]string{"cpu": "s", "allocs": "B"}[kind]
			c.Profiles = append(c.Profiles, bench.Profile{
				Kind: kind, Files: []string{"x.pb.gz"}, First: len(c.Blocks) - 1, Blocks: 1, Rounds: 2,
				Summary: &profile.Summary{
					Meta: profile.Meta{Kind: kind, Transport: c.Variant, Model: c.Model.Name, Workers: 1, Clients: 1, Blocks: 1, Rounds: 2, Delivered: 1e9},
					Unit: unit, Total: 4e9, Transport: 3e9, Attributed: 2e9,
					Phases:    []profile.Split{{Name: "encode", Flat: 3e9, Cum: 3e9, Functions: functions}, {Name: "runtime", Rest: true, Flat: 1e9, Cum: 1e9, Functions: functions}},
					Functions: functions,
				},
			})
		}
	}
	return r
}

// texts calls f with a setter for every string in v, also the keys of maps, and
// the way to it. All elements of a slice have one way, and are set together.
func texts(v reflect.Value, way string, f func(way string, set func(func(string) string))) {
	switch v.Kind() {
	case reflect.String:
		f(way, func(edit func(string) string) { v.SetString(edit(v.String())) })
	case reflect.Pointer:
		if !v.IsNil() {
			texts(v.Elem(), way, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				texts(v.Field(i), way+"."+v.Type().Field(i).Name, f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			texts(v.Index(i), way+"[]", f)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		f(way+"{key}", func(edit func(string) string) {
			renamed := reflect.MakeMap(v.Type())
			for k, x := range v.Seq2() {
				renamed.SetMapIndex(reflect.ValueOf(edit(k.String())).Convert(v.Type().Key()), x)
			}
			v.Set(renamed)
		})
		if v.Type().Elem().Kind() == reflect.String {
			f(way+"{}", func(edit func(string) string) {
				for k, x := range v.Seq2() {
					v.SetMapIndex(k, reflect.ValueOf(edit(x.String())).Convert(v.Type().Elem()))
				}
			})
		}
	}
}

// outputs writes r in every way that this package knows.
func outputs(t *testing.T, r *bench.Result) map[string]string {
	t.Helper()
	all := map[string]string{}
	var b bytes.Buffer
	take := func(name string, err error) {
		if err == nil {
			all[name] = b.String()
		}
		b.Reset()
	}
	for _, f := range Formats() {
		take(f.Name, f.Write(&b, r))
	}
	v := newView(r)
	for _, name := range []string{"change", "crossover"} { // the documents hold the others
		view, err := viewNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		take("md view "+name, view.make(v).write(&b, true))
	}
	take("json timeline", WriteTimeline(&b, r.Cells...))
	s := r.Cells[0].Profiles[0].Summary
	for _, form := range []string{"text", "md"} {
		take(form+" profile", WriteProfile(&b, form == "md", s))
		take(form+" difference", WriteDifference(&b, form == "md", &profile.Difference{
			A: s.Meta, B: s.Meta, Unit: s.Unit, Total: profile.Change{A: 1, B: 2},
			Phases: []profile.Change{{Name: s.Phases[0].Name, A: 1, B: 2}}, Functions: []profile.Change{{Name: s.Functions[0].Name, A: 1, B: 2}},
		}, 9))
	}
	head := rich()
	for name, files := range map[string][2]*bench.Result{"builds": {r, nil}, "to": {head, r}} {
		for i := range files {
			if files[i] != nil && name == "to" {
				plan := *files[i]
				plan.Plan.Interleaved = false
				files[i] = &plan
			}
		}
		c, err := Compare(files[0], files[1], CompareOptions{Separate: true})
		if err != nil {
			continue // of a build that is called otherwise
		}
		for _, form := range ComparisonFormats() {
			take(form+" comparison of "+name, c.Write(&b, form))
		}
		_, reasons, err := c.Gate(0.05)
		all["text gate of "+name] = strings.Join(append(reasons, fmt.Sprint(err)), "\n")
	}
	return all
}

var (
	benchLine   = regexp.MustCompile(`^(Unit |Benchmark|# |[a-z][a-z-]*: |\n)`)
	badMarkdown = regexp.MustCompile("(?i)<script|://|www\\.|@|[^\\\\]`|\\$|(^|[^\\\\])[|]evil|[^\\\\]\\]\\(|\\*\\*x\\*\\*|__x__|~~x~~|<!--")
	badStart    = regexp.MustCompile(`(?m)^(?:[>-] )?(?:# |\d+\. |    )wicked|^[>-] [-+] wicked|^[+] wicked`)
	fences      = regexp.MustCompile("(?s)```mermaid\n.*?\n```\n")
)

// acts returns what a text does, in that it is written in a format, that texts of
// a result must not do, or nothing.
func acts(name, out string) string {
	if !utf8.ValidString(out) {
		return "is not UTF-8"
	}
	for i, r := range out {
		if r == '\n' || r == '\t' && strings.HasPrefix(name, "json") {
			continue
		}
		if !unicode.IsPrint(r) || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			return fmt.Sprintf("holds %U: %q", r, out[max(0, i-40):min(len(out), i+20)])
		}
	}
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") {
			return fmt.Sprintf("commands: %q", line)
		}
	}
	switch kind, _, _ := strings.Cut(name, " "); kind {
	case "md":
		words := fences.ReplaceAllString(out, "")
		for _, bad := range []*regexp.Regexp{badMarkdown, badStart} {
			if at := bad.FindStringIndex(words); at != nil {
				return fmt.Sprintf("has markup: %q", words[max(0, at[0]-40):min(len(words), at[1]+40)])
			}
		}
		for _, fence := range fences.FindAllString(out, -1) {
			if strings.Contains(fence, "%%{") || strings.Count(fence, "```") != 2 || strings.Count(fence, "\n") != 7 {
				return fmt.Sprintf("has a chart of other lines: %q", fence)
			}
		}
	case "json":
		if !json.Valid([]byte(out)) {
			return "is no JSON"
		}
	case "csv":
		rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
		if err != nil {
			return err.Error()
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.IndexAny(cell, "=+-@") == 0 && strings.Contains(cell, "evil") {
					return fmt.Sprintf("has the formula %q", cell)
				}
			}
		}
	case "benchfmt":
		for line := range strings.Lines(out) {
			if !benchLine.MatchString(line) {
				return fmt.Sprintf("has the line %q", line)
			}
		}
	}
	return ""
}

// TestHostileTexts: whatever stands in any string of a result, no writer lets it
// act.
func TestHostileTexts(t *testing.T) {
	var ways []string
	texts(reflect.ValueOf(rich()), "", func(way string, _ func(func(string) string)) {
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	})
	if len(ways) < 50 {
		t.Fatalf("found only %d strings: %v", len(ways), ways)
	}
	// try sets the strings that are wanted, and looks at what all writers make of them.
	try := func(want func(way string) bool, edit func(string) string) (shown bool) {
		r := rich()
		texts(reflect.ValueOf(r), "", func(way string, set func(func(string) string)) {
			if want(way) {
				set(edit)
			}
		})
		for name, out := range outputs(t, r) {
			if !strings.Contains(out, "evil") {
				continue
			}
			shown = true
			if why := acts(name, out); why != "" {
				for _, way := range slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return !want(way) }) {
					t.Errorf("%s = %q: %s %s", way, edit(""), name, why)
				}
			}
		}
		return shown
	}
	shown := map[string]bool{}
	for _, way := range ways {
		for n := range 2 { // alone, and behind what was there
			edit := func(s string) string { return strings.Repeat(s, n) + hostile }
			if try(func(at string) bool { return at == way }, edit) {
				shown[way] = true
			}
		}
	}
	const groups = 12 // of strings that are set together
	for _, s := range starts {
		for g := range groups {
			try(func(way string) bool { return slices.Index(ways, way)%groups == g }, func(string) string { return s })
		}
	}
	t.Logf("%d of %d are shown", len(shown), len(ways))
	if len(shown) < 25 {
		t.Errorf("of %d strings only %d were shown: %v", len(ways), len(shown), shown)
	}
}

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
		if got := visible(test.text); got != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
		if got := visible(visible(test.text)); got != visible(test.text) {
			t.Errorf("%q: twice is %s", test.text, got)
		}
	}
}

// TestEscapedJSON: JSON stays what it was.
func TestEscapedJSON(t *testing.T) {
	want := map[string]string{"a": hostile, "b": "µs", "##[x]": "\U0001f600\U000e0041"}
	var b bytes.Buffer
	if err := writeJSON(&b, want, "\t"); err != nil {
		t.Fatal(err)
	}
	if why := acts("json", b.String()); why != "" {
		t.Errorf("%s", why)
	}
	var got map[string]string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want["a"] = strings.NewReplacer("\xff\xc3", "\ufffd\ufffd").Replace(hostile) // JSON has no other bytes
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(b.String(), "µs") {
		t.Errorf("what shows was escaped too: %s", b.String())
	}
}
