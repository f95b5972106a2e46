package bench

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// oldFiles are results of schema 1 that were committed once: the first of each kind
// of difference between them, cut to a few cells and blocks.
func oldFiles(t testing.TB) map[string]string {
	t.Helper()
	paths, err := filepath.Glob("testdata/old/schema1-*.json.gz")
	if err != nil || len(paths) < 7 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		texts[path] = string(unzipped(t, path))
	}
	return texts
}

// unzipped returns what a file holds that gzip has compressed.
func unzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// block1 is what schema 1 had for each round, and what was called otherwise.
type block1 struct {
	Round        []int64            `json:"round_ns"`
	Unattributed []int64            `json:"unattributed_ns"`
	Train        []int64            `json:"train_ns"`
	RTT          []int64            `json:"rtt_ns"`
	Down         []int64            `json:"down_ns"`
	Up           []int64            `json:"up_ns"`
	Phases       map[string][]int64 `json:"phases_ns"`
	Workers      []Process          `json:"workers"`
	Cold         struct {
		Workers []json.RawMessage `json:"workers"`
	} `json:"cold"`
}

// TestUpgrade: a result of schema 1 gives the same rounds as before, and as sums what
// it held for each of them.
func TestUpgrade(t *testing.T) {
	seen := map[string]bool{}
	for path, source := range oldFiles(t) {
		var old struct {
			Plan struct {
				Protocol int   `json:"protocol"`
				WarmTime int64 `json:"warm_ns"`
				Samples  int   `json:"samples"`
			}
			Environment struct {
				SocketBuffer int64 `json:"wmem_max"`
			}
			Cells []struct {
				Blocks []block1
			}
		}
		if err := json.Unmarshal([]byte(source), &old); err != nil {
			t.Fatal(err)
		}
		r, err := ReadFile(path)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if r.Schema != Schema || len(r.Cells) != len(old.Cells) {
			t.Errorf("%s: schema %d, %d cells: want %d of schema %d", path, r.Schema, len(r.Cells), len(old.Cells), Schema)
		}
		if p := r.Plan; p.Protocol != old.Plan.Protocol || int64(p.WarmTime) != old.Plan.WarmTime || p.Samples != old.Plan.Samples || p.Samples == 0 ||
			r.Environment.SocketBuffer != old.Environment.SocketBuffer {
			t.Errorf("%s: %+v becomes %+v", path, old.Plan, p)
		}
		for i, c := range r.Cells {
			for k, b := range c.Blocks {
				was := old.Cells[i].Blocks[k]
				want := b
				want.Round, want.Train, want.RTT, want.Down, want.Up = was.Round, was.Train, was.RTT, was.Down, was.Up
				want.Processes, want.Unattributed, want.Phases = was.Workers, 0, map[string]int64{}
				for _, ns := range was.Unattributed {
					want.Unattributed += ns
				}
				for name, all := range was.Phases {
					seen[name] = true
					for _, ns := range all {
						want.Phases[name] += ns
					}
				}
				if diff := cmp.Diff(want, b); diff != "" {
					t.Errorf("%s: %s, block %d (-want +got):\n%s", path, c.ID(), k, diff)
				}
				if len(b.Cold.Processes) != len(was.Cold.Workers) {
					t.Errorf("%s: %s, block %d: usage of %d processes in the cold round, want %d", path, c.ID(), k, len(b.Cold.Processes), len(was.Cold.Workers))
				}
			}
		}
		if r.Upgraded == 0 {
			t.Errorf("%s: is not said to be of an older schema", path)
		}
		again, err := decode([]byte(text(t, r)))
		r.Upgraded = 0 // which it is no more
		if diff := cmp.Diff(r, again); err != nil || diff != "" {
			t.Errorf("%s: written and read: %v (-want +got):\n%s", path, err, diff)
		}
	}
	for _, name := range []string{"queue", "copy", "send", "train"} {
		if !seen[name] {
			t.Errorf("no old file has the phase %s: %v", name, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// TestUpgradeTraining: what a plan of schema 2 said of all trainings and workers, cells
// say of theirs; an older file has it in the same place.
func TestUpgradeTraining(t *testing.T) {
	r, err := ReadFile("testdata/old/schema2-train.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range r.Cells {
		got = append(got, c.ID())
	}
	want := []string{"inproc uniform:4KiB/2 workers=1 clients=1 train-ms=3", "pickle uniform:4KiB/2 workers=1 clients=1 train-ms=3 respawn=on"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	first := oldFiles(t)["testdata/old/schema1-first.json.gz"]
	if r, err = decode([]byte(strings.Replace(first, `"train_ms":0`, `"train_ms":7`, 1))); err != nil || r.Cells[0].TrainMS != 7 {
		t.Errorf("schema 1: %v, %+v", err, r)
	}
}

// TestBadOldFile: a result of schema 1 that is not what its builds wrote is refused in
// one line that names the field, whatever stands where another thing belongs.
func TestBadOldFile(t *testing.T) {
	good := oldFiles(t)["testdata/old/schema1-first.json.gz"]
	for _, tt := range []struct{ name, from, to, want string }{
		{"an entry less", `"unattributed_ns":[`, `"unattributed_ns":[1,`, "cells[0].blocks[0].unattributed_ns: 3 samples: want 2, one a round"},
		{"below zero", `"unattributed_ns":[`, `"unattributed_ns":[-`, "cells[0].blocks[0].unattributed_ns[0]: -"},
		{"already a sum", `"unattributed_ns":[`, `"unattributed_ns":5,"x":[`, "cells[0].blocks[0].unattributed_ns: holds a JSON number where []int64 belongs"},
		{"a sum without end", `"train":[`, `"train":[9223372036854775807,`, "cells[0].blocks[0].phases_ns.train: 3 samples"},
		{"a phase's duration", `"phases_ns":{`, `"phases_ns":{"copy":[9223372036854775807,9223372036854775807],`, "cells[0].blocks[0].phases_ns.copy[0]: 9223372036854775807: no duration of a run"},
		{"no phase", `"phases_ns":{`, `"phases_ns":{"trian":[1,2],`, "cells[0].blocks[0].phases_ns.trian: no such phase"},
		{"a block that is none", `"blocks":[{`, `"blocks":[7,{`, `cells[0].blocks[0]: "7": no JSON object`},
		{"blocks that are none", `"blocks":[{`, `"blocks":7,"x":[{`, "cells[0].blocks: holds a JSON number"},
		{"no block", `"blocks":[{`, `"blocks":[null,{`, `cells[0].blocks[0]: "null": no JSON object`},
		{"a cell that is none", `"cells":[{`, `"cells":[null,{`, `cells[0]: "null": no JSON object`},
		{"a plan that is none", `"plan":{`, `"plan":[],"x":{`, `plan: "[]": no JSON object`},
		{"a canary that is none", `"cells":[`, `"canary":{"same":3},"cells":[`, `canary.same: "3": no JSON object`},
		{"a canary's block", `"cells":[`, `"canary":{"same":{"blocks":[{"phases_ns":{"copy":[1]}}]}},"cells":[`, "canary.same.blocks[0].phases_ns.copy: 1 samples: want 0"},
		{"today's key", `"round_ns":[`, `"processes":[],"round_ns":[`, "processes: unknown in this schema, where it is called workers"},
		{"another case", `"phases_ns":{`, `"PHASES_NS":{`, "cells[0].blocks[0].PHASES_NS.collect: holds a JSON array"},
		{"unknown", `"round_ns":[`, `"laps":[],"round_ns":[`, `cells[0]: unknown field "laps"`},
		{"no reason", `"plan":{`, `"partial":7,"plan":{`, "partial: holds a JSON number where string belongs"},
		{"of its future", `"schema":1`, `"schema":2`, `unknown field "samples"`},
		{"before its time", `"schema":1`, `"schema":-1`, "schema: -1: no version of a result"},
	} {
		if !strings.Contains(good, tt.from) {
			t.Fatalf("%s: nothing to edit: %s", tt.name, tt.from)
		}
		_, err := decode([]byte(strings.Replace(good, tt.from, tt.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", tt.name, err, tt.want)
		}
	}
	if r, err := decode([]byte(oldResult)); err != nil || r.Canary.Slow.Blocks[0].Phases["train"] != 2 || r.Plan.Samples != 5 {
		t.Errorf("with a canary: %+v, %v", r, err)
	}
	r, err := decode([]byte(strings.Replace(good, `"plan":{`, `"partial":"worker 1 failed:\n\tout of memory\n","plan":{`, 1)))
	if err != nil || r.Partial != "worker 1 failed:; out of memory" {
		t.Errorf("several lines, as older builds wrote why a run ended: %v", err)
	}
}

// zipped returns the text as gzip has it.
func zippedText(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestGzip: what is compressed is known by what it holds, and written so by its
// name. What is damaged, or of no end, is refused in one line.
func TestGzip(t *testing.T) {
	dir := t.TempDir()
	want := tiny()
	named, plain := filepath.Join(dir, "r.json.gz"), filepath.Join(dir, "r.json")
	for _, path := range []string{named, plain} {
		if err := want.WriteFile(path); err != nil {
			t.Fatal(err)
		}
	}
	small, err := os.ReadFile(named)
	if err != nil {
		t.Fatal(err)
	}
	large, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(small, []byte(gzipMagic)) || bytes.HasPrefix(large, []byte(gzipMagic)) || len(small) > len(large)/2 {
		t.Errorf("%d bytes with the name, %d without", len(small), len(large))
	}
	misnamed := filepath.Join(dir, "zipped.json")
	if err := os.WriteFile(misnamed, small, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{named, plain, misnamed} {
		got, err := ReadFile(path)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", path, err, diff)
		}
	}
	flipped := bytes.Clone(small)
	flipped[len(flipped)-6] ^= 1 // of the checksum
	bomb := zippedText(t, `{"schema": 2, "command": [`+strings.Repeat(" ", maxFile)+"]}")
	if len(bomb) > 1<<20 {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for name, tt := range map[string]struct {
		text []byte
		want string
	}{
		"cut":            {small[:len(small)/2], "truncated: ends in the midst of what gzip has compressed"},
		"cut in its end": {small[:len(small)-3], "truncated: ends in the midst of"},
		"cut in the top": {small[:5], "truncated: ends in the midst of"},
		"magic alone":    {small[:2], "truncated: ends in the midst of"},
		"checksum":       {flipped, "damaged: gzip: invalid checksum"},
		"something else": {append(bytes.Clone(small), "more than a header has"...), "damaged: gzip: invalid header"},
		"no gzip":        {[]byte(gzipMagic + "hello, this is none"), "damaged: gzip: invalid header"},
		"bomb":           {bomb, "larger than 268435456 bytes: not a result of ipcbench"},
		"zipped twice":   {zippedText(t, string(small)), `begins with '\x1f'`},
		"not JSON":       {zippedText(t, "hello"), "begins with 'h'"},
		"empty":          {zippedText(t, ""), "empty file: not a result of ipcbench"},
		"truncated JSON": {zippedText(t, string(large[:len(large)/2])), "truncated: ends after"},
	} {
		path := filepath.Join(dir, "bad.json.gz")
		if err := os.WriteFile(path, tt.text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadFile(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want one line with %q", name, err, tt.want)
		}
	}
}
