package result

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/legible"
	"ipcbench/internal/test/check"
	"ipcbench/phase/usage"
)

// everyField has retired keys compared, too, whose structs are embedded.
var everyField = cmp.Exporter(func(reflect.Type) bool { return true })

// tiny returns a result with one cell of two rounds by one client.
func tiny() *Result {
	pss := int64(5 << 20)
	process := Process{
		Usage:  usage.Usage{User: 1e6, Queue: &usage.Queue{Wait: 10}},
		Memory: usage.Memory{Peak: 8 << 20, PSS: &pss},
		Counts: map[string]int64{"wire.sent": 100},
	}
	return &Result{
		Schema: Schema, Command: []string{"ipcbench", "run"}, Started: time.Unix(1, 0).UTC(), Elapsed: time.Second,
		Plan:   Plan{Mode: "quick", Verify: "sample", Blocks: 1, Samples: 1},
		Floors: []Floor{{Name: "copy", Unit: "B/s", Blocks: [][]float64{{3.5e9, 3.25e9}}}},
		Cells: []Cell{{
			Transport: "pickle", Variant: "pickle", Settings: map[string]string{"elems": "off"},
			Model: Model{Name: "cnn", Tensors: 10, Bytes: 248024}, Workers: 1, PerProcess: 1, Clients: 1, Depth: 2, Stopped: "time",
			Blocks: []Block{{
				TLS:   &TLS{Handshakes: 2, Time: 900, Cipher: "TLS_AES_128_GCM_SHA256"},
				Round: []int64{500, 600}, Unattributed: 1, Train: []int64{100, 110}, RTT: []int64{400, 410},
				Down: []int64{200, 210}, Up: []int64{190, 180}, Phases: map[string]int64{"train": 210},
				Server: process, Processes: []Process{process}, Proof: Proof{Rounds: 1, Updates: 1, Hashed: 3},
			}},
		}},
	}
}

func text(t testing.TB, r *Result) string {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, r.Write(&b))
	return b.String()
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	want := tiny()
	for range 2 { // the second time replaces the first
		check.Must(t, want.WriteFile(path))
	}
	got, err := ReadFile(path)
	check.Must(t, err)
	check.Same(t, cmp.Diff(want, got, everyField), "written and read")
	s := text(t, want)
	check.That(t, strings.Contains(s, "\n\t\t\t\t\t\"round_ns\": [500,600],\n"), "samples do not stand in one line:\n%s", s)
	entries, _ := os.ReadDir(dir)
	check.That(t, len(entries) == 1, "got %d files, want one", len(entries))
}

// TestComparedClocks: a file of a build that compared the clocks of hosts is read as if
// this build had written it, and nothing of the comparison is written again.
func TestComparedClocks(t *testing.T) {
	r := tiny()
	r.Hosts = []Host{{Name: "server", Server: true}, {Name: "h2"}}
	b := &r.Cells[0].Blocks[0]
	b.Processes[0].Host, b.Phases["wait"], b.Phases["receive"] = "h2", 5, 6
	b.Timeline = &Timeline{Processes: []string{"server", "process-0"}, Process: []int{1, 0}, Lane: []int{0, 1}, Client: []int{0, 2}, Phase: []string{"train", "fold"}, Start: []int64{1, 3}, End: []int64{2, 4}}
	for _, same := range []bool{true, false} {
		old := strings.NewReplacer(
			`"stopped": "time"`, `"discarded": [{"at_ns":1,"why":"a step"}], "stopped": "time"`,
			`"train_ns"`, fmt.Sprintf(`"clocks": [{"host":"h2","offset_ns":5,"width_ns":1,"drift_ppm":1.5,"same":%v}], "train_ns"`, same)).Replace(text(t, r))
		got, err := decodeAll([]byte(old))
		check.Must(t, err)
		want := tiny()
		want.Hosts, want.Cells[0].Blocks[0] = r.Hosts, *b
		if w := &want.Cells[0].Blocks[0]; !same {
			w.Down, w.Up, w.Unattributed, w.Phases = nil, nil, 0, map[string]int64{"train": 210}
			w.Processes = slices.Clone(w.Processes)
			w.Processes[0].OtherClock = true
			w.Timeline = &Timeline{Processes: []string{"server"}, Process: []int{0}, Lane: []int{1}, Client: []int{2}, Phase: []string{"fold"}, Start: []int64{3}, End: []int64{4}}
		}
		check.Same(t, cmp.Diff(text(t, want), text(t, got)), "same", same)
	}
}

// TestReplaceFile: what fails leaves the old file and nothing else.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	check.Must(t, os.WriteFile(path, []byte("old"), 0o600))
	err := ReplaceFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return io.ErrShortWrite
	})
	check.That(t, err != nil, "no error")
	data, _ := os.ReadFile(path)
	check.That(t, string(data) == "old", "got %q, want the old file", data)
	entries, _ := os.ReadDir(dir)
	check.That(t, len(entries) == 1, "got %d files, want one", len(entries))
	check.OK(t, ReplaceFile("/dev/null", func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }))
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode().IsRegular() {
		t.Fatal("/dev/null was replaced")
	}
}

// TestBadFile: a result that was cut, edited by hand or made by another version
// is refused by the name of the field.
func TestBadFile(t *testing.T) {
	good := text(t, tiny())
	replace := func(old, new string) string {
		check.Need(t, strings.Contains(good, old), "nothing to edit: %s", old)
		return strings.Replace(good, old, new, 1)
	}
	sum := strings.Repeat("5e", 32)
	layouts := func(base, head string) string {
		return replace(`"elapsed_ns"`, `"layouts": {"base": [`+base+`], "head": [`+head+`]}, "elapsed_ns"`)
	}
	tests := []struct {
		name, text, want string
	}{
		{"empty", " \n", "empty file: not a result of ipcbench"},
		{"not a result", `{"a": 1}`, "schema: missing: not a result of ipcbench"},
		{"an older schema", replace(`"schema": 4`, `"schema": 3, "more": [1]`), "schema: version 3: this ipcbench reads version 4 alone: measure again"},
		{"a newer schema", replace(`"schema": 4`, `"schema": 5, "more": [1]`), "schema: version 5: this ipcbench reads version 4 alone: measure again"},
		{"not JSON", "hello", "begins with 'h', where { belongs: not a result of ipcbench"},
		{"a bomb of spaces", strings.Repeat(" ", 1<<20), "begins with white space only"},
		{"a list", "[1]", "begins with '[', where { belongs"},
		{"truncated", good[:strings.Index(good, "[500,")+5], "truncated: ends after 1"},
		{"truncated where", good[:strings.Index(good, "[500,")+5], "within cells[0].blocks[0].round_ns"},
		{"NaN", replace("500,600", "500,NaN"), "cells[0].blocks[0].round_ns[1]: not JSON at byte 1"},
		{"NaN of a floor", replace("3250000000", "NaN"), "floors[0].blocks[0][1]: not JSON"},
		{"a float's overflow", replace("3250000000", "1e999"), "floors[0].blocks[0][1]: holds a JSON number 1e999 where float64 belongs"},
		{"a text for a time", replace("500,600", `500,"600"`), "cells[0].blocks[0].round_ns[1]: holds a JSON string where int64 belongs"},
		{"unknown field", replace(`"up_ns"`, `"pu_ns"`), `cells[0].blocks[0]: unknown field "pu_ns"`},
		{"twice", good + good, "not JSON at byte"},
		{"no cells", `{"schema": 4, "plan": {"blocks": 1, "span_room": 1}}`, "cells: none"},
		{"no blocks planned", `{"schema": 4, "plan": {"blocks": 0}}`, "plan.blocks: 0: not from 1 to 10000"},
		{"no samples", replace("[500,600]", "[]"), "cells[0].blocks[0].round_ns: no samples"},
		{"no floor samples", replace("[3500000000,3250000000]", "[]"), "floors[0].blocks[0]: no samples"},
		{"floor below zero", replace("3250000000", "-1"), "floors[0].blocks[0][1]: -1: must be a positive number"},
		{"floor's unit", replace("B/s", "GB/s"), `floors[0].unit: "GB/s": must be s or B/s`},
		{"a sample less", replace("[100,110]", "[100]"), "cells[0].blocks[0].train_ns: 1 samples: must be 2 for 2 rounds of 1 clients"},
		{"no time at all", replace("[500,600]", "[500,0]"), "cells[0].blocks[0].round_ns[1]: 0: not a duration"},
		{"time runs backwards", replace("[400,410]", "[400,-1]"), "cells[0].blocks[0].rtt_ns[1]: -1: not a duration of a run"},
		{"a hundred years", replace("[400,410]", "[400,3153600000000000000]"), "cells[0].blocks[0].rtt_ns[1]"},
		{"handshakes", replace(`"handshakes":2`, `"handshakes":-2`), "cells[0].blocks[0].tls.handshakes: -2: not a count of a run"},
		{"handshakes that take no time", replace(`"handshake_ns":900`, `"handshake_ns":-900`), "cells[0].blocks[0].tls.handshake_ns: -900: not a duration of a run"},
		{"handshakes that take years", replace(`"handshake_ns":900`, `"handshake_ns":3153600000000000000`), "cells[0].blocks[0].tls.handshake_ns: 3153600000000000000: not a duration"},
		{"no cipher", replace("TLS_AES_128_GCM_SHA256", ""), "cells[0].blocks[0].tls.cipher: empty"},
		{"a cipher to be obeyed", replace("TLS_AES_128_GCM_SHA256", `\u001b[2J`), `cells[0].blocks[0].tls.cipher: "\x1b[2J": holds what cannot be printed`},
		{"a place to listen", replace(`"arch": ""`, `"arch": "", "listen": "0.0.0.0"`), `environment.listen: "0.0.0.0": must be off loopback or off loopback, insecure`},
		{"phase", replace(`"train":`, `"trian": `), "cells[0].blocks[0].phases_ns.trian: no such phase"},
		{"phase of a year", replace(`"train":210`, `"train":3000000000000000000`), "cells[0].blocks[0].phases_ns.train: 3000000000000000000: not a duration of a run"},
		{"clients", replace(`"clients": 1`, `"clients": 0`), "cells[0].clients: 0: not from 1 to 100000"},
		{"size", replace("248024", "1152921504606846976"), "cells[0].model_bytes"},
		{"size of an update", replace("248024", `248024, "up": "lora", "up_bytes": 1152921504606846976`), "cells[0].up_bytes"},
		{"tensors of an update", replace("248024", `248024, "up": "lora", "up_tensors": -1`), "cells[0].up_tensors: -1"},
		{"name of an update", replace("248024", `248024, "up": "\u001b[2J"`), "cells[0].up"},
		{"update without a name", replace("248024", `248024, "up_tensors": 6`), "cells[0].up: none, of 6 tensors and 0 bytes"},
		{"build", replace(`"model": "cnn"`, `"build": "other", "model": "cnn"`), `cells[0].build: "other": must be base or head`},
		{"layout", replace(`"index":`, `"layout": 1, "index":`), "cells[0].blocks[0].layout: 1: its build has 1"},
		{"no layouts", layouts(``, ``), "layouts.base: none"},
		{"layouts of one build", layouts(`{"file": "a", "sha256": "`+sum+`"}`, ``), "layouts.head: none"},
		{"layout without a name", layouts(`{"file": "", "sha256": "`+sum+`"}`, ``), "layouts.base[0].file: empty"},
		{"layout's digest", layouts(`{"file": "a", "sha256": "`+sum[1:]+`"}`, ``), "layouts.base[0].sha256: "},
		{"layout twice", layouts(`{"file": "a", "sha256": "`+sum+`"}, {"file": "b", "sha256": "`+sum+`"}`, ``), "layouts.base[1]: the same as base[0]: "},
		{"counter", replace(`"wire.sent":100`, `"wire.sent": 9e18`), "cells[0].blocks[0].server.counts.wire.sent: holds a JSON number"},
		{"counter's size", replace(`"wire.sent":100`, `"wire.sent": 9000000000000000000`), "cells[0].blocks[0].server.counts.wire.sent: 9000000000000000000: not a count of a run"},
		{"name", replace(`"model": "cnn"`, `"model": "c\nn"`), "cells[0].model"},
		{"a field twice", replace(`"elapsed_ns"`, `"schema": 4, "elapsed_ns"`), "schema: stands twice"},
		{"a field twice, spelt otherwise", replace(`"elapsed_ns"`, `"\u0073chema": 1, "elapsed_ns"`), "schema: stands twice"},
		{"in capitals", replace(`"elapsed_ns"`, `"SCHEMA": 1, "elapsed_ns"`), `unknown field "SCHEMA"`},
		{"cells twice", replace(`"elapsed_ns"`, `"cells": [], "elapsed_ns"`), "cells: stands twice"},
		{"in a plan", replace(`"blocks": 1`, `"blocks": 1, "blocks": 2`), "plan.blocks: stands twice"},
		{"in a block", replace(`"up_ns"`, `"down_ns": [1,2], "up_ns"`), "cells[0].blocks[0].down_ns: stands twice"},
		{"a counter twice", replace(`"wire.sent":100`, `"wire.sent":100, "a": 1, "wire.sent": 1`), "cells[0].blocks[0].server.counts.wire.sent: stands twice"},
		{"deep", `{"schema": 4, "plan": ` + strings.Repeat("[", 1_000_000), "plan: holds a JSON array"},
		{"deeper", strings.Repeat("[", 1_000_000), "begins with '['"},
		{"deep and closed", `{"schema": 4, "plan": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "plan: holds a JSON array"},
		{"a key to be obeyed", replace(`"up_ns"`, `"\u001b[2J": 1, "\u001b[2J"`), `cells[0].blocks[0]: unknown field "\x1b[2J"`},
		{"no cells but one", `{"schema": 4, "cells": 5}`, "cells: holds a JSON number where []result.Cell belongs"},
		{"a cell that is none", replace(`"cells": [`, `"cells": [7, `), "cells[0]: holds a JSON number where result.Cell belongs"},
		{"version of a kind", replace(`"schema": 4`, `"schema": "2"`), "schema: holds a JSON string where int belongs"},
		{"version zero", replace(`"schema": 4`, `"schema": 0`), "schema: missing"},
		{"long", replace(`"run"`, `"`+strings.Repeat("x", maxText+1)+`"`), "command[1]: 65537 bytes long, and at most 65536"},
		{"a host twice", replace(`"elapsed_ns"`, `"hosts": [{"name": "a"}, {"name": "a"}], "elapsed_ns"`), "hosts[1]: the same as hosts[0]: a"},
		{"a host without a name", replace(`"elapsed_ns"`, `"hosts": [{"name": ""}], "elapsed_ns"`), "hosts[0].name: empty"},
		{"no name", replace(`"transport": "pickle"`, `"transport": ""`), "cells[0].transport: empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.json")
			check.Must(t, os.WriteFile(path, []byte(tt.text), 0o600))
			_, err := ReadFile(path)
			check.Need(t, err != nil, "no error")
			if !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
				t.Errorf("got %q, want one line with the file and %q", err, tt.want)
			}
		})
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none.json"))
	check.That(t, os.IsNotExist(err), "got %v of a file that is not there", err)
}

// TestEndless: what is too large for a result, or has no end, is refused before it
// is read.
func TestEndless(t *testing.T) {
	sparse := filepath.Join(t.TempDir(), "sparse.json")
	check.Must(t, os.WriteFile(sparse, []byte("{"), 0o600))
	check.Must(t, os.Truncate(sparse, maxFile+1))
	before := heap()
	for path, want := range map[string]string{
		sparse:      "larger than 1073741824 bytes: not a result of ipcbench",
		"/dev/zero": `begins with '\x00'`,
	} {
		_, err := ReadFile(path)
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%s: got %v, want %q", path, err, want)
	}
	n := heap() - before
	check.That(t, n <= 1<<20, "%d bytes were allocated", n)
}

// heap returns how much this process has allocated.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestSameCellTwice(t *testing.T) {
	r := tiny()
	r.Cells = append(r.Cells, r.Cells[0])
	err := r.Validate()
	check.That(t, err != nil && err.Error() == "cells[1]: the same as cells[0]: pickle cnn workers=1 clients=1", "got %v", err)
	r.Cells[0].Build, r.Cells[1].Build = "base", "head"
	check.OK(t, r.Validate(), "of two builds")
}

func decodeAll(text []byte) (*Result, error) { return decode(bytes.NewReader(text)) }

// FuzzDecode: no bytes make a reader panic, and what it accepts is written and
// read again unchanged.
func FuzzDecode(f *testing.F) {
	if _, err := decodeAll([]byte(smallest)); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(text(f, tiny())))
	f.Add([]byte(smallest))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeAll(data)
		if err != nil {
			check.Need(t, !strings.Contains(err.Error(), "\n") && legible.Check(err.Error()) == nil,
				"the error is no line of text: %q", err)
			return
		}
		again, err := decodeAll([]byte(text(t, r)))
		check.Must(t, err, "what was accepted once is refused")
		diff := cmp.Diff(text(t, r), text(t, again))
		check.That(t, diff == "", "(-first +second):\n%s", diff)
	})
}

// smallest is a result with a cell and a canary, as short as a fuzzer wants it.
const smallest = `{"schema":4,"plan":{"blocks":1,"span_room":1},"cells":[` + smallestCell + `],"canary":{"slowdown":1,"same":` + smallestCell + `,"slow":` + smallestCell + `}}`

const smallestCell = `{"transport":"t","variant":"t","model":"m","workers":1,"lanes_per_process":1,"clients":1,"depth":1,"blocks":[{"round_ns":[5,6],"train_ns":[1,1],` +
	`"rtt_ns":[2,2],"down_ns":[1,1],"up_ns":[1,1],"phases_ns":{"train":2},"processes":[{}]}]}`

// FuzzFile: no file makes a reader panic, be it compressed.
func FuzzFile(f *testing.F) {
	small := zippedText(f, smallest)
	f.Add(small)
	f.Add(small[:len(small)/2])
	f.Add(append(zippedText(f, `{"schema": 4,`), zippedText(f, `"plan": {"blocks": 1, "span_room": 1}, "partial": "early"}`)...))
	f.Add([]byte(gzipMagic))
	f.Add([]byte(smallest))
	path := filepath.Join(f.TempDir(), "r.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		check.Must(t, os.WriteFile(path, data, 0o600))
		r, err := ReadFile(path)
		if err == nil {
			check.Must(t, r.Validate())
		} else if strings.Contains(err.Error(), "\n") || legible.Check(err.Error()) != nil {
			t.Fatalf("the error is no line of text: %q", err)
		}
	})
}
