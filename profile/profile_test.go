package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	pprof "github.com/google/pprof/profile"

	"ipcbench/phase"
	"ipcbench/profile/capture"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// a stack is one sample: functions from the innermost to the outermost.
type stack struct {
	value  int64
	labels map[string]string
	frames string
}

// made returns a profile of the stacks.
func made(types []string, stacks ...stack) *pprof.Profile {
	p := &pprof.Profile{PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7}
	for _, t := range types {
		unit := "nanoseconds"
		if strings.HasSuffix(t, "space") {
			unit = "bytes"
		}
		p.SampleType = append(p.SampleType, &pprof.ValueType{Type: t, Unit: unit})
	}
	m := &pprof.Mapping{ID: 1, Start: 0x1000, Limit: 0x100000, File: "/bin/ipcbench", HasFunctions: true}
	p.Mapping = []*pprof.Mapping{m}
	locations := map[string]*pprof.Location{}
	for _, s := range stacks {
		sample := &pprof.Sample{Label: map[string][]string{}}
		for range types {
			sample.Value = append(sample.Value, s.value)
		}
		for k, v := range s.labels {
			sample.Label[k] = []string{v}
		}
		for name := range strings.SplitSeq(s.frames, " < ") {
			l := locations[name]
			if l == nil {
				f := &pprof.Function{ID: uint64(len(p.Function) + 1), Name: name, SystemName: name}
				l = &pprof.Location{ID: f.ID, Mapping: m, Address: 0x1000 + f.ID*16, Line: []pprof.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, l)
				locations[name] = l
			}
			sample.Location = append(sample.Location, l)
		}
		p.Sample = append(p.Sample, sample)
	}
	return p
}

func encoded(t testing.TB, p *pprof.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	check(t, p.Write(&b))
	return b.Bytes()
}

func label(p string) map[string]string { return map[string]string{phase.LabelPhase: p} }

const (
	grpcReader = "internal/poll.(*FD).Read < google.golang.org/grpc/internal/transport.(*http2Client).reader"
	pickleRead = "runtime.memmove < encoding/gob.decUint8Slice < encoding/gob.(*Decoder).Decode < ipcbench/transports/pickle.(*worker).Receive < ipcbench/trainer.(*process).run"
)

// TestPhases: a library's goroutine has a rule, whatever label it has inherited;
// then a label counts; then the innermost function that has a rule; and what has
// none stays without.
func TestPhases(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stack stack
		want  string
	}{
		{"label", stack{1, label("decode"), pickleRead}, "decode"},
		{"library goroutine", stack{1, nil, grpcReader}, "read"},
		{"inherited label", stack{1, label("submit"), grpcReader}, "read"},
		{"no label, inner rule", stack{1, nil, pickleRead}, "decode"},
		{"no label, call", stack{1, nil, "runtime.mallocgc < ipcbench/transports/shm.(*worker).Receive < ipcbench/trainer.(*process).run"}, "receive"},
		{"reserve of a worker", stack{1, nil, "ipcbench/transports/shm.(*worker).Reserve"}, "lend"},
		{"reserve of a server", stack{1, nil, "ipcbench/transports/shm.(*server).Reserve"}, "reserve"},
		{"training", stack{1, nil, "ipcbench/bench.burn < ipcbench/bench.stockConfig.train < ipcbench/bench.stock.func1 < ipcbench/trainer.(*process).run"}, "train"},
		{"training with nested values", stack{1, nil, "ipcbench/bench.burn < ipcbench/bench.stockConfig.train < ipcbench/bench.nested.func1 < ipcbench/trainer.(*process).run"}, "train"},
		{"unknown transport code", stack{1, nil, "ipcbench/transports/batched.(*server).admit < ipcbench/transports/batched.(*server).other"}, ""},
		{"control socket", stack{1, nil, "encoding/json.Unmarshal < ipcbench/trainer.(*control).receive < ipcbench/trainer.(*Session).listen"}, ""},
		{"garbage collection", stack{1, nil, "runtime.scanobject < runtime.gcDrain < runtime.gcBgMarkWorker"}, ""},
	} {
		p := made([]string{"samples", "cpu"}, tt.stack)
		if got := phaseOf(p.Sample[0]); got != tt.want {
			t.Errorf("%s: got phase %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestFunctions: what works for others has their name.
func TestFunctions(t *testing.T) {
	for _, tt := range []struct{ frames, want string }{
		{"runtime.memmove < main.copy < main.main", "runtime.memmove in main.copy"},
		{"internal/runtime/syscall/linux.Syscall6 < syscall.RawSyscall6 < syscall.read < syscall.Read < internal/poll.(*FD).Read < net.(*conn).Read < main.get", "syscall.Read in main.get"},
		{"main.train < main.main", "main.train"},
		{"runtime.asyncPreempt < main.train < main.main", "main.train"},
		{"runtime.futex < runtime.mcall", "runtime.futex"},
	} {
		p := made([]string{"samples", "cpu"}, stack{1, nil, tt.frames})
		if got := functionsOf(p.Sample[0]); got[0] != tt.want {
			t.Errorf("%s: got %q, want %q", tt.frames, got[0], tt.want)
		}
	}
}

func meta(kind string) Meta {
	return Meta{Kind: kind, Transport: "pickle", Model: "cnn", Workers: 1, Clients: 2, Blocks: 2, Rounds: 10, Delivered: 2e9}
}

// merged is a CPU profile of a server and a worker in two blocks.
func merged(t testing.TB) *Profile {
	t.Helper()
	types := []string{"samples", "cpu"}
	server := capture.Piece{Kind: capture.CPU, Data: encoded(t, made(types,
		stack{3e9, label("collect"), "syscall.read < ipcbench/transports/pickle.(*server).Collect"},
		stack{5e9, map[string]string{phase.LabelWindow: phase.OutsideRound}, "ipcbench/tensor.(*Package).Hash"},
		stack{1e9, nil, "runtime.gcDrain < runtime.gcBgMarkWorker"}))}
	worker := capture.Piece{Kind: capture.CPU, Data: encoded(t, made(types,
		stack{6e9, label("decode"), pickleRead},
		stack{2e9, nil, "ipcbench/transports/pickle.(*worker).odd < ipcbench/trainer.(*process).run"}))}
	trace := capture.Piece{Kind: capture.Trace, Data: []byte("go 1.26 trace")}
	p, err := Merge(meta(capture.CPU), []Part{
		{phase.ServerProcess, []capture.Piece{server, trace}}, {"worker-0", []capture.Piece{worker}},
		{phase.ServerProcess, []capture.Piece{server}}, {"worker-0", []capture.Piece{worker, worker}},
	})
	check(t, err)
	return p
}

// TestMerge: samples of all processes and blocks are there, with the labels of
// their process, and what lies between rounds is not.
func TestMerge(t *testing.T) {
	sum := Summarize(merged(t), 5)
	if sum.Total != 32e9 || sum.Unit != "s" {
		t.Errorf("total %d %s, want 32e9 s", sum.Total, sum.Unit)
	}
	if sum.Transport != 30e9 || sum.Attributed != 24e9 || sum.Memmove != 18e9 {
		t.Errorf("transport %d, attributed %d, memmove %d", sum.Transport, sum.Attributed, sum.Memmove)
	}
	type row struct {
		name              string
		rest              bool
		flat, cum, server int64
	}
	var got []row
	for _, s := range sum.Phases {
		got = append(got, row{s.Name, s.Rest, s.Flat, s.Cum, s.Server})
	}
	want := []row{
		{"decode", false, 18e9, 18e9, 0}, {"collect", false, 6e9, 6e9, 6e9}, {"harness", true, 6e9, 6e9, 0},
		{"garbage collection", true, 2e9, 2e9, 2e9}, {"receive", false, 0, 18e9, 0},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if f := sum.Phases[0].Functions; len(f) != 5 || f[0] != (Function{"runtime.memmove in encoding/gob.decUint8Slice", 18e9, 18e9}) {
		t.Errorf("functions of decode: %v", f)
	}
	if per, ok := sum.PerGB(sum.Total); per != 16 || !ok {
		t.Errorf("%v s/GB, want 16", per)
	}
}

// TestDeltas: what the runtime counts from the start of the process is the
// difference between two marks; what is in use is the last block's, averaged.
func TestDeltas(t *testing.T) {
	types := []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}
	early := encoded(t, made(types, stack{100, nil, pickleRead}, stack{7, nil, grpcReader}))
	late := encoded(t, made(types, stack{350, nil, pickleRead}, stack{7, nil, grpcReader}))
	allocs, err := Merge(meta(capture.Allocs), []Part{{phase.ServerProcess, []capture.Piece{{Kind: capture.Allocs, Data: late, Before: early}}}})
	check(t, err)
	if sum := Summarize(allocs, 0); sum.Total != 250 || sum.Unit != "B" || len(sum.Phases) == 0 || sum.Phases[0].Name != "decode" {
		t.Errorf("allocs: %+v", sum)
	}
	heap, err := Merge(meta(capture.Heap), []Part{
		{phase.ServerProcess, []capture.Piece{{Kind: capture.Heap, Data: early}, {Kind: capture.Heap, Data: late}}},
		{phase.ServerProcess, []capture.Piece{{Kind: capture.Heap, Data: late}}},
	})
	check(t, err)
	if sum := Summarize(heap, 0); sum.Total < 355 || sum.Total > 358 { // pprof rounds what it scales
		t.Errorf("heap: %d in use, want 357", sum.Total)
	}
}

func TestMergeErrors(t *testing.T) {
	piece := func(data string) []Part {
		return []Part{{"worker-1", []capture.Piece{{Kind: capture.CPU, Data: []byte(data)}}}}
	}
	for name, tt := range map[string]struct {
		parts []Part
		want  string
	}{
		"none":    {nil, "no process has taken one"},
		"rubbish": {piece("rubbish"), "profile: cpu of worker-1: "},
		"half":    {piece(string(encoded(t, made([]string{"samples", "cpu"}, stack{1, nil, "f"}))[:60])), "profile: cpu of worker-1: "},
	} {
		if _, err := Merge(meta(capture.CPU), tt.parts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
}

// TestRoundTrip: what Write writes, ReadFile reads, and so does go tool pprof.
func TestRoundTrip(t *testing.T) {
	p := merged(t)
	path := filepath.Join(t.TempDir(), "x.cpu.pb.gz")
	f, err := os.Create(path)
	check(t, err)
	check(t, p.Write(f))
	check(t, f.Close())
	back, err := ReadFile(path)
	check(t, err)
	if back.Meta != p.Meta {
		t.Errorf("got %+v, want %+v", back.Meta, p.Meta)
	}
	if got, want := Summarize(back, 0).Total, Summarize(p, 0).Total; got != want {
		t.Errorf("total %d, want %d", got, want)
	}
	cmd := exec.Command("go", "tool", "pprof", "-top", "-tagfocus=phase=decode", path)
	cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "runtime.memmove") || strings.Contains(string(out), "syscall.read") {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
}

// TestReadErrors: each file that is none of ours is refused for what it is.
func TestReadErrors(t *testing.T) {
	var whole bytes.Buffer
	check(t, merged(t).Write(&whole))
	foreign := made([]string{"samples", "cpu"}, stack{1, nil, "main.main"})
	unlike := merged(t)
	unlike.SampleType[1].Type = "wall"
	var other bytes.Buffer
	check(t, unlike.Profile.Write(&other))
	spoilt := merged(t)
	spoilt.Comments = []string{commentPrefix + "{"}
	for name, tt := range map[string]struct{ data, want string }{
		"empty":         {"", "empty file: not a profile of ipcbench"},
		"text":          {"hello, world\n", "not a profile: "},
		"JSON":          {`{"schema": 1}`, "not a profile: "},
		"truncated":     {whole.String()[:whole.Len()/2], "truncated: ends after"},
		"cut header":    {whole.String()[:5], "not a profile: "},
		"foreign":       {string(encoded(t, foreign)), "not one of ipcbench"},
		"no such value": {other.String(), `holds no value "cpu"`},
		"control codes": {string(encoded(t, made([]string{"samples", "cpu"}, stack{1, nil, "main.\x1b[2J"}))), "holds what cannot be printed"},
		"a label of control codes": {string(encoded(t, made([]string{"samples", "cpu"},
			stack{1, map[string]string{phase.LabelProcess: phase.ServerProcess, "x": "\u202e"}, "main.main"}))), "holds what cannot be printed"},
		// 130 kB of a .gz file would take tens of GB.
		"millions of empty samples": {zipped(t, strings.Repeat("\x12\x00", mostFields+1)), "more than 4194304 entries"},
		"millions of empty labels":  {zipped(t, "\x12\x80\x80\x80\x08"+strings.Repeat("\x1a\x00", 1<<23)), "more than 4194304 entries"},
		"bad comment":               {string(encoded(t, spoilt.Profile)), "comment"},
	} {
		path := filepath.Join(t.TempDir(), "f")
		check(t, os.WriteFile(path, []byte(tt.data), 0o600))
		if _, err := ReadFile(path); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%s: got error %v, want %q", name, err, tt.want)
		}
	}
	if _, err := ReadFile(filepath.Join(t.TempDir(), "missing")); !os.IsNotExist(err) {
		t.Errorf("missing: got error %v", err)
	}
}

func zipped(t *testing.T, data string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, data)
	check(t, errors.Join(err, z.Close()))
	return b.String()
}

// TestReadBenchmark: a profile that go test has written is read without knowing
// what was delivered.
func TestReadBenchmark(t *testing.T) {
	p, err := read(bytes.NewReader(encoded(t, made([]string{"samples", "cpu"},
		stack{4, map[string]string{phase.LabelProcess: phase.ServerProcess, phase.LabelPhase: "fold"}, "ipcbench/tensor.(*Average).Fold"},
		stack{1, nil, grpcReader}))))
	check(t, err)
	sum := Summarize(p, 1)
	if _, known := sum.PerGB(1); known || sum.Total != 5 || len(sum.Phases) != 2 || sum.Phases[1].Name != "read" {
		t.Errorf("got %+v", sum)
	}
}

func TestCompare(t *testing.T) {
	a, b := merged(t), merged(t)
	b.Delivered *= 2
	d, err := Compare(a, b)
	check(t, err)
	if d.Total != (Change{"", 16, 8}) || d.Phases[0] != (Change{"decode", 9, 4.5}) || d.Functions[0] != (Change{"runtime.memmove in encoding/gob.decUint8Slice", 9, 4.5}) {
		t.Errorf("got %+v", d)
	}
	b.Kind = capture.Allocs
	if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), "kind cpu cannot be compared with one of kind allocs") {
		t.Errorf("got error %v", err)
	}
	b.Kind, b.Delivered = a.Kind, 0
	if _, err := Compare(a, b); err == nil || !strings.Contains(err.Error(), "not known what was delivered") {
		t.Errorf("got error %v", err)
	}
}

// TestFlame: the page holds the stacks, with process and phase at their roots,
// and refers to nothing outside of it.
func TestFlame(t *testing.T) {
	var b bytes.Buffer
	check(t, WriteFlame(&b, merged(t)))
	page := b.String()
	for _, want := range []string{"<html", "<h1>cpu of pickle cnn workers=1 clients=2</h1>", "encoding/gob.(*Decoder).Decode", "worker-0", "decode", "</html>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, outside := range []string{`src="`, `<link`, `@import`, `url(http`} {
		if i := strings.Index(page, outside); i >= 0 {
			t.Errorf("the page refers to another: %s", page[i:min(len(page), i+80)])
		}
	}
}

// TestServe: the interface answers on the loopback interface and to names of it,
// and ends with its context.
func TestServe(t *testing.T) {
	p := merged(t)
	for addr, want := range map[string]string{
		"nonsense": "want HOST:PORT", "0.0.0.0:0": "loopback interface alone", ":0": "loopback interface alone", "example.org:80": "loopback interface alone",
	} {
		if err := Serve(t.Context(), addr, p, func(string) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", addr, err, want)
		}
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	if err := Serve(t.Context(), taken.Addr().String(), p, func(string) {}); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("port in use: got error %v", err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	urls := make(chan string, 1)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, "127.0.0.1:0", p, func(url string) { urls <- url }) }()
	select {
	case url := <-urls:
		for host, want := range map[string]int{"": 200, "localhost:1": 200, "evil.example:80": 403} {
			if got, err := status(ctx, url, host); err != nil || got != want {
				t.Errorf("host %q: got %d, %v, want %d", host, got, err, want)
			}
		}
	case err := <-ended:
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// status returns the answer to a request that names host.
func status(ctx context.Context, url, host string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	r.Host = host
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

func FuzzRead(f *testing.F) {
	var whole bytes.Buffer
	check(f, merged(f).Write(&whole))
	f.Add(whole.Bytes())
	f.Add(encoded(f, made([]string{"samples", "cpu"}, stack{4, map[string]string{phase.LabelProcess: phase.ServerProcess}, grpcReader})))
	f.Add([]byte("rubbish"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := read(bytes.NewReader(data))
		if err != nil {
			return
		}
		Summarize(p, 3)
		_, _ = Compare(p, p)
	})
}

// TestRulesNameCode: the functions of ours that the rules name exist.
func TestRulesNameCode(t *testing.T) {
	method := regexp.MustCompile(`^ipcbench/(.*)\.\(\*(\w+)\)\.(\w*)$`)
	for _, name := range slices.Concat(betweenRounds, transportCode, notTransport) {
		m := method.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		files, err := filepath.Glob(filepath.Join("..", m[1], "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, path := range files {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "*"+m[2]+") "+m[3])
		}
		if !found {
			t.Errorf("no function %s", name)
		}
	}
}
