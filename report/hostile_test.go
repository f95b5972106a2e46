package report

import (
	"bytes"
	gocmp "cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/doctor"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc"
	"ipcbench/report/doc/doctest"
)

// rich returns a small result in which every string field has a value.
func rich() *result.Result {
	r := benchtest.Result()
	for _, build := range []string{"base", "head"} {
		for i, transport := range []string{"inproc", "a"} {
			c := cnn(transport, float64(10+i))
			c.Program = build
			r.Cells = append(r.Cells, c)
		}
	}
	r.Partial = "interrupted"
	against := r.Environment
	layout := []result.Layout{{File: "ipcbench-1", SHA256: strings.Repeat("5e", 32)}}
	r.Plan.Baseline = result.Base
	r.Programs = []result.Program{
		{Name: result.Base, Layouts: layout, Environment: &against}, {Name: result.Head, Command: "x", Layouts: slices.Clone(layout), Software: map[string]string{"python": "3.11.2"}},
	}
	r.Doctor = []doctor.Check{{Name: "memory", Status: doctor.Fail, What: "1 B", Why: "It matters.", Fix: "buy some"}}
	r.Environment.Listen = "off loopback"
	r.Skipped = []result.Skipped{{Transport: "b", Variant: "b:x=1", Model: "cnn", Workers: 1, Clients: 1, Why: "too large"}}
	cpus, memory := 1.5, int64(1e9)
	r.Environment.Cgroup = &machine.Cgroup{Version: "v2", CPUs: &cpus, Memory: &memory}
	r.Floors = append(r.Floors, result.Floor{Name: "copy", Condition: "64 KiB", Unit: "B/s", Help: "help", Model: "cnn", Variant: "a", Clients: 1, Blocks: [][]float64{{1e9}, {2e9}}})
	r.Hosts = []result.Host{{Name: "server", Environment: r.Environment, Server: true}, {Name: "h1", Environment: r.Environment, SameMachine: "server"}, {Name: "h2", Environment: against}}
	r.Hosts[2].Environment.Governor = "powersave"
	r.Floors = append(r.Floors, result.Floor{Name: "tls-stream", Unit: "B/s", Host: "h1", Bytes: 1e6, Blocks: [][]float64{{1e9}, {2e9}}})
	for i := range r.Cells {
		c := &r.Cells[i]
		c.Settings, c.FileSystem, c.Stopped, c.Software = map[string]string{"elems": "on", "tls": "on"}, "ext4", "time", map[string]string{"python": "3.11.2"}
		if c.Transport == "a" {
			c.Launcher, c.Workers = "agents", 2
			c.Hosts, c.Place = "h1:1,h2:1", "spread"
			for j := range c.Blocks {
				b := &c.Blocks[j]
				b.Processes = append(b.Processes, b.Processes[0])
				b.Processes[0].Host, b.Processes[1].Host = "h1", "h2"
			}
		}
		for j := range c.Blocks {
			c.Blocks[j].TLS = &result.TLS{Handshakes: 1, Time: benchtest.MS, Cipher: "TLS_AES_128_GCM_SHA256"}
			c.Blocks[j].Server.Counts = map[string]int64{"calls.Get": 4, "fallback.full": 1, "body.tensors": 8, "wire.sent": 9, "copied": 5}
		}
		last := c.Blocks[len(c.Blocks)-1]
		last.Profiled = true
		last.Timeline = &result.Timeline{
			Processes: []string{"server"}, Rounds: []int{1}, RoundStart: []int64{0}, RoundEnd: []int64{9},
			Process: []int{0}, Lane: []int{0}, Client: []int{0}, Phase: []string{"train"}, Start: []int64{0}, End: []int64{9},
		}
		c.Blocks = append(c.Blocks, last)
		c.Profiles = profiledResult().Cells[2].Profiles
		for k := range c.Profiles {
			c.Profiles[k].First, c.Profiles[k].Blocks, c.Profiles[k].Rounds = len(c.Blocks)-1, 1, 2
		}
	}
	return r
}

// texts calls f with the path of every string in v, including keys of maps, and a function
// that edits the string. All elements of a slice have the same path, and are edited
// together.
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

// outputs writes r in every format of this package, except HTML, whose half megabyte of
// scripts would be searched a thousand times. TestHostilePage tests pages.
func outputs(t *testing.T, r *result.Result) map[string]string {
	t.Helper()
	all := map[string]string{}
	take := func(name string, write func(b *bytes.Buffer) error) {
		var b bytes.Buffer
		if write(&b) == nil {
			all[name] = b.String()
		}
	}
	for _, f := range Formats() {
		o := Options{Text: doc.TextOptions{Width: 80, Unicode: true}}
		if f.Name == "text" { // Markdown always has all views
			o.Views = []string{"all"}
		}
		name := map[string]string{"result": "json result", "perfetto": "json perfetto"}[f.Name]
		if f.Name != "html" {
			take(gocmp.Or(name, f.Name), func(b *bytes.Buffer) error { return f.Write(b, r, o) })
		}
	}
	base, head := rich(), *r
	base.Plan.Baseline, head.Plan.Baseline = "", ""
	for name, files := range map[string][2]*result.Result{"builds": {r, nil}, "to": {base, &head}} {
		c, err := Compare(files[0], files[1], CompareOptions{Separate: true})
		if err != nil {
			continue // the edit has changed a build's name
		}
		g, err := c.Gate(0.05)
		c.Decision = g
		for _, form := range []string{"text", "md", "csv", "json"} {
			take(form+" comparison of "+name, func(b *bytes.Buffer) error {
				return WriteComparison(b, form, c, ComparisonOptions{Details: true, Text: doc.TextOptions{Unicode: true}})
			})
		}
		all["text gate of "+name] = fmt.Sprint(err)
		if err == nil {
			all["text gate of "+name] = strings.Join(g.Reasons, "\n")
		}
	}
	return all
}

// TestHostileTexts: hostile text in any string of a result has no effect in any format.
func TestHostileTexts(t *testing.T) {
	var ways []string
	texts(reflect.ValueOf(rich()), "", func(way string, _ func(func(string) string)) {
		if !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	})
	check.Need(t, len(ways) >= 50, "found only %d strings: %v", len(ways), ways)
	// try edits the strings with some paths, and checks the output of all writers.
	try := func(edit func(string) string, some ...string) (shown bool) {
		r := rich()
		texts(reflect.ValueOf(r), "", func(way string, set func(func(string) string)) {
			if slices.Contains(some, way) {
				set(edit)
			}
		})
		for name, out := range outputs(t, r) {
			if strings.Contains(out, "evil") {
				shown = true
				check.Equal(t, doctest.Acts(name, out), "", name, some, edit(""))
			}
		}
		return shown
	}
	behind := func(s string) string { return s + doctest.Hostile }
	if testing.Short() { // all strings at once
		check.That(t, try(behind, ways...), "none was shown")
		return
	}
	shown := 0
	for _, way := range ways {
		alone := try(func(string) string { return doctest.Hostile }, way)
		if try(behind, way) || alone {
			shown++
		}
	}
	for _, s := range doctest.Starts {
		for some := range slices.Chunk(ways, 1+len(ways)/12) { // paths edited together
			try(func(string) string { return s }, some...)
		}
	}
	check.That(t, shown >= 25, "of %d strings only %d were shown", len(ways), shown)
}
