package result

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"ipcbench/internal/legible"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/mutate"
	"ipcbench/phase/usage"
)

// everyField makes comparisons include unexported fields, such as in rates.
var everyField = gocmp.Exporter(func(reflect.Type) bool { return true })

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
	for range 2 { // the second write replaces the first
		check.Must(t, want.WriteFile(path))
	}
	got := check.Value(ReadFile(path))(t)
	check.Same(t, gocmp.Diff(want, got, everyField), "written and read")
	s := text(t, want)
	check.That(t, strings.Contains(s, "\n\t\t\t\t\t\"round_ns\": [500,600],\n"), "samples do not stand in one line:\n%s", s)
	entries, _ := os.ReadDir(dir)
	check.That(t, len(entries) == 1, "got %d files, want one", len(entries))
}

// TestReplaceFile: a failed write leaves the old file and nothing else. Files left by a killed process do not get in
// the way, whatever their process ids.
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
	for _, name := range []string{path + ".tmp1", path + ".tmp" + strconv.Itoa(os.Getpid())} {
		check.Must(t, os.WriteFile(name, nil, 0o600))
	}
	for range 50 {
		check.Must(t, ReplaceFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "new"); return err }))
	}
	entries, _ := os.ReadDir(dir)
	check.That(t, len(entries) == 3, "got %d files, want the two that were left and one", len(entries))
	check.OK(t, ReplaceFile("/dev/null", func(w io.Writer) error { _, err := io.WriteString(w, "x"); return err }))
	info, err := os.Stat("/dev/null")
	check.That(t, err == nil && !info.Mode().IsRegular(), "/dev/null was replaced")
}

// TestBadFile: a result that was cut, edited by hand or made by another version is rejected with a short error that
// names the place.
func TestBadFile(t *testing.T) {
	good := text(t, tiny())
	replace := func(old, new string) string {
		check.Need(t, strings.Contains(good, old), "nothing to edit: %s", old)
		return strings.Replace(good, old, new, 1)
	}
	sum := strings.Repeat("5e", 32)
	programs := func(entries string) string {
		return replace(`"elapsed_ns"`, `"programs": [`+entries+`], "elapsed_ns"`)
	}
	tests := []struct {
		name, text, want string
	}{
		{"empty", " \n", "empty file: not an ipcbench result"},
		{"not a result", `{"a": 1}`, "schema: missing: not an ipcbench result"},
		{"an older schema", replace(`"schema": 5`, `"schema": 4, "more": [1]`), "schema: version 4: this ipcbench reads only version 5: measure again"},
		{"a newer schema", replace(`"schema": 5`, `"schema": 6, "more": [1]`), "schema: version 6: this ipcbench reads only version 5: measure again"},
		{"not JSON", "hello", "begins with 'h' instead of {: not an ipcbench result"},
		{"a bomb of spaces", strings.Repeat(" ", 1<<20), "begins with white space only"},
		{"a list", "[1]", "begins with '[' instead of {"},
		{"truncated", good[:strings.Index(good, "[500,")+5], "truncated: ends after 1"},
		{"truncated where", good[:strings.Index(good, "[500,")+5], "within cells[0].blocks[0].round_ns"},
		{"a text for a time", replace("500,600", `500,"600"`), "cells[0].blocks[0].round_ns[1]: must be int64, not JSON string"},
		{"unknown field", replace(`"up_ns"`, `"pu_ns"`), `cells[0].blocks[0]: unknown field "pu_ns"`},
		{"twice", good + good, "not JSON at byte"},
		{"no cells", `{"schema": 5, "plan": {"blocks": 1, "span_room": 1}}`, "cells: must not be empty"},
		{"no blocks planned", `{"schema": 5, "plan": {"blocks": 0}}`, "plan.blocks: 0: must be from 1 to 10000"},
		{"no samples", replace("[500,600]", "[]"), "cells[0].blocks[0].round_ns: no samples"},
		{"no floor samples", replace("[3500000000,3250000000]", "[]"), "floors[0].blocks[0]: no samples"},
		{"floor below zero", replace("3250000000", "-1"), "floors[0].blocks[0][1]: -1: must be a positive number"},
		{"floor's unit", replace("B/s", "GB/s"), `floors[0].unit: "GB/s": must be s or B/s`},
		{"a sample less", replace("[100,110]", "[100]"), "cells[0].blocks[0].train_ns: 1 samples: must be 2 for 2 rounds of 1 clients"},
		{"no time at all", replace("[500,600]", "[500,0]"), "cells[0].blocks[0].round_ns[1]: 0: must be from 1 to 2592000000000000"},
		{"no cipher", replace("TLS_AES_128_GCM_SHA256", ""), "cells[0].blocks[0].tls.cipher: empty"},
		{"a place to listen", replace(`"arch": ""`, `"arch": "", "listen": "0.0.0.0"`), `environment.listen: "0.0.0.0": must be off loopback or off loopback, insecure`},
		{"values", replace(`"model": "cnn"`, `"values": "file", "model": "cnn"`), `cells[0].values: "file": must be uniform or normal`},
		{"scenario", replace(`"model": "cnn"`, `"scenario": "fedavg", "model": "cnn"`), `cells[0].scenario: "fedavg": must be sync`},
		{"density", replace(`"model": "cnn"`, `"coding": {"density_down": 1.1}, "model": "cnn"`), `cells[0].coding.density_down: 1.1: must be from 0 to 1`},
		{"phase", replace(`"train":`, `"trian": `), "cells[0].blocks[0].phases_ns.trian: no such phase"},
		{"clients", replace(`"clients": 1`, `"clients": 0`), "cells[0].clients: 0: must be from 1 to 100000"},
		{"update without a name", replace("248024", `248024, "up_tensors": 6`), "cells[0].up: missing, although the update has 6 tensors and 0 bytes"},
		{"unknown program", replace(`"model": "cnn"`, `"program": "other", "model": "cnn"`), `cells[0].program: "other": must be the name of one of 0 programs`},
		{"a peer's command", replace(`"model": "cnn"`, `"peer": "x", "model": "cnn"`), `cells[0]: unknown field "peer"`},
		{"layout", replace(`"index":`, `"layout": 1, "index":`), "cells[0].blocks[0].layout: 1: must be less than 1, the number of layouts of its program"},
		{"program without a name", programs(`{"name": ""}`), "programs[0].name: empty"},
		{"program twice", programs(`{"name": "a"}, {"name": "a"}`), "programs[1]: the same as programs[0]: a"},
		{"layout without a name", programs(`{"name": "a", "layouts": [{"file": "", "sha256": "` + sum + `"}]}`), "programs[0].layouts[0].file: empty"},
		{"layout's digest", programs(`{"name": "a", "layouts": [{"file": "a", "sha256": "` + sum[1:] + `"}]}`), "programs[0].layouts[0].sha256: "},
		{"layout twice", programs(`{"name": "a", "layouts": [{"file": "a", "sha256": "` + sum + `"}, {"file": "b", "sha256": "` + sum + `"}]}`), "programs[0].layouts[1]: the same as layouts[0]: "},
		{"counter's size", replace(`"wire.sent":100`, `"wire.sent": 9000000000000000000`), "cells[0].blocks[0].server.counts.wire.sent: 9000000000000000000: must be from -1125899906842624 to 1125899906842624"},
		{"a field twice", replace(`"elapsed_ns"`, `"schema": 5, "elapsed_ns"`), "schema: duplicate key"},
		{"a field twice, spelt otherwise", replace(`"elapsed_ns"`, `"\u0073chema": 1, "elapsed_ns"`), "schema: duplicate key"},
		{"in capitals", replace(`"elapsed_ns"`, `"SCHEMA": 1, "elapsed_ns"`), `unknown field "SCHEMA"`},
		{"deep", `{"schema": 5, "plan": ` + strings.Repeat("[", 1_000_000), "plan: must be result.Plan, not JSON array"},
		{"deeper", strings.Repeat("[", 1_000_000), "begins with '['"},
		{"deep and closed", `{"schema": 5, "plan": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", "plan: must be result.Plan, not JSON array"},
		{"version zero", replace(`"schema": 5`, `"schema": 0`), "schema: missing"},
		{"long", replace(`"run"`, `"`+strings.Repeat("x", maxText+1)+`"`), "command[1]: 65537 bytes long: must be at most 65536"},
		{"a host twice", replace(`"elapsed_ns"`, `"hosts": [{"name": "a"}, {"name": "a"}], "elapsed_ns"`), "hosts[1]: the same as hosts[0]: a"},
		{"a host without a name", replace(`"elapsed_ns"`, `"hosts": [{"name": ""}], "elapsed_ns"`), "hosts[0].name: empty"},
		{"no name", replace(`"transport": "pickle"`, `"transport": ""`), "cells[0].transport: empty"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.json")
			check.Must(t, os.WriteFile(path, []byte(tt.text), 0o600))
			_, err := ReadFile(path)
			oneLine(t, err, path+": ")
			check.Fails(t, err, tt.want)
			check.That(t, len(err.Error()) <= 500, "%d bytes of error", len(err.Error()))
		})
	}
	_, err := ReadFile(filepath.Join(t.TempDir(), "none.json"))
	check.That(t, os.IsNotExist(err), "got %v of a file that is not there", err)
}

// oneLine checks that an error is one line of printable text that begins with place.
func oneLine(t testing.TB, err error, place string) {
	t.Helper()
	check.Need(t, err != nil, "no error, want one of %s", place)
	said := err.Error()
	check.That(t, strings.HasPrefix(said, place) && !strings.Contains(said, "\n") && legible.Check(said) == nil,
		"got %q, want one line that begins with %q", said, place)
}

// full returns a result that also has the optional fields.
func full() *Result {
	r := tiny()
	c := &r.Cells[0]
	c.Model.Up, c.Model.UpTensors, c.Model.UpBytes, c.Setup = "lora", 6, 5, Setup{Values: "normal", Scenario: "sync", TrainMS: 1, Nested: true}
	c.Coding = &Coding{DensityDown: 0.5, ErrorUp: &CodingError{Max: new(1.0), RMS: new(1.0)}, Bound: 1, Plain: []string{"a"}}
	c.Program, c.FileSystem, c.Software = "base", "tmpfs", map[string]string{"python": "3"}
	c.Blocks[0].Timeline = &Timeline{
		Processes: []string{"server"}, Process: []int{0}, Lane: []int{1}, Client: []int{2}, Phase: []string{"fold"}, Start: []int64{3}, End: []int64{4},
	}
	r.Partial, r.Canary, r.Hosts = "early", &Canary{Slowdown: 1, Same: *c, Slow: *c}, []Host{{Name: "server", Server: true}, {Name: "h2"}}
	r.Programs = []Program{
		{Name: "base", Layouts: []Layout{{"a", strings.Repeat("5e", 32)}}, Environment: &machine.Environment{}}, {Name: "p", Command: "x", Software: map[string]string{"python": "3"}},
	}
	r.Skipped = []Skipped{{Transport: "a", Variant: "a", Model: "m", Workers: 1, Clients: 1, PerProcess: 1, Depth: 1, Why: "x"}, {Floor: "copy", Why: "y"}}
	return r
}

// anyNumber matches numbers in fields that may hold any number.
const anyNumber = `(seed|\.counts\..*|timeline\.(client|lane|start_ns)\[.*|coding\.error_up\..*) (-1|9\d+)$`

// TestEveryField: a field is rejected by name if it has the wrong kind, is beyond its limits, or holds text that a
// terminal, a page or a log would interpret. A duplicate key and a hostile key are rejected too.
func TestEveryField(t *testing.T) {
	check.Must(t, full().Validate())
	const schema = `{"schema":5,` // which comes first in the file, then the other keys in alphabetical order
	valid := regexp.MustCompile(`"schema": \d+,`).ReplaceAllString(text(t, full()), "")
	mutate.JSON(t, []byte(valid), anyNumber, func(place string, text []byte) {
		oneLine(t, check.Err(decodeAll(append([]byte(schema), text[1:]...))), place)
	})
}

// TestEndless: a file that is too large or endless is rejected before it is read.
func TestEndless(t *testing.T) {
	sparse := filepath.Join(t.TempDir(), "sparse.json")
	check.Must(t, os.WriteFile(sparse, []byte("{"), 0o600))
	check.Must(t, os.Truncate(sparse, maxFile+1))
	before := heap()
	for path, want := range map[string]string{
		sparse:      "larger than 1073741824 bytes: not an ipcbench result",
		"/dev/zero": `begins with '\x00'`,
	} {
		check.Fails(t, check.Err(ReadFile(path)), want, path)
	}
	n := heap() - before
	check.That(t, n <= 1<<20, "%d bytes were allocated", n)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

func TestSameCellTwice(t *testing.T) {
	r := tiny()
	r.Cells = append(r.Cells, r.Cells[0])
	check.Fails(t, r.Validate(), "cells[1]: the same as cells[0]: pickle cnn workers=1 clients=1")
	r.Programs = []Program{{Name: "base"}, {Name: "head"}}
	r.Cells[0].Program, r.Cells[1].Program = "base", "head"
	check.OK(t, r.Validate(), "of two builds")
}

func decodeAll(text []byte) (*Result, error) { return decode(bytes.NewReader(text)) }

// FuzzDecode: no input makes the decoder panic, and a result that it accepts is unchanged after writing and reading.
func FuzzDecode(f *testing.F) {
	check.Must(f, check.Err(decodeAll([]byte(smallest))))
	f.Add([]byte(text(f, tiny())))
	f.Add([]byte(smallest))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeAll(data)
		if err != nil {
			oneLine(t, err, "")
			return
		}
		again, err := decodeAll([]byte(text(t, r)))
		check.Must(t, err, "what was accepted once is refused")
		check.Same(t, gocmp.Diff(text(t, r), text(t, again)))
	})
}

// smallest is a result with a cell and a canary, as short as possible for the fuzzer.
const smallest = `{"schema":5,"plan":{"blocks":1,"span_room":1},"cells":[` + smallestCell + `],"canary":{"slowdown":1,"same":` + smallestCell + `,"slow":` + smallestCell + `}}`

const smallestCell = `{"transport":"t","variant":"t","model":"m","workers":1,"lanes_per_process":1,"clients":1,"depth":1,"blocks":[{"round_ns":[5,6],"train_ns":[1,1],` +
	`"rtt_ns":[2,2],"down_ns":[1,1],"up_ns":[1,1],"phases_ns":{"train":2},"processes":[{}]}]}`

// FuzzFile: no file, compressed or not, makes the reader panic.
func FuzzFile(f *testing.F) {
	small := zippedText(f, smallest)
	f.Add(small)
	f.Add(small[:len(small)/2])
	f.Add(append(zippedText(f, `{"schema": 5,`), zippedText(f, `"plan": {"blocks": 1, "span_room": 1}, "partial": "early"}`)...))
	f.Add([]byte(gzipMagic))
	f.Add([]byte(smallest))
	path := filepath.Join(f.TempDir(), "r.json")
	f.Fuzz(func(t *testing.T, data []byte) {
		check.Must(t, os.WriteFile(path, data, 0o600))
		if r, err := ReadFile(path); err == nil {
			check.Must(t, r.Validate())
		} else {
			oneLine(t, err, path)
		}
	})
}
