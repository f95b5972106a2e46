package profile

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"ipcbench/bench/result"
	"ipcbench/internal/profile/capture"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
)

// a stack is one sample: functions from the innermost to the outermost.
type stack struct {
	value  int64
	labels map[string]string
	frames string
}

func profileOf(types []string, stacks ...stack) *pprof.Profile {
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

// sampled returns a CPU profile.
func sampled(stacks ...stack) *pprof.Profile { return profileOf([]string{"samples", "cpu"}, stacks...) }

func encoded(t testing.TB, p *pprof.Profile) []byte {
	t.Helper()
	var b bytes.Buffer
	check.Must(t, p.Write(&b))
	return b.Bytes()
}

func label(p string) map[string]string { return map[string]string{phase.LabelPhase: p} }

const (
	grpcReader = "internal/poll.(*FD).Read < google.golang.org/grpc/internal/transport.(*http2Client).reader"
	pickleRead = "runtime.memmove < encoding/gob.decUint8Slice < encoding/gob.(*Decoder).Decode < ipcbench/transports/pickle.(*worker).Receive < ipcbench/trainer.(*process).run"
)

// TestPhases: a goroutine of a library gets its phase by a rule, even if it has inherited a
// label. Otherwise the label counts, then the call. All other samples have no phase.
func TestPhases(t *testing.T) {
	for _, tt := range []struct {
		name  string
		stack stack
		want  string
	}{
		{"label", stack{1, label("decode"), pickleRead}, "decode"},
		{"library goroutine", stack{1, nil, grpcReader}, "read"},
		{"inherited label", stack{1, label("submit"), grpcReader}, "read"},
		{"no label, call", stack{1, nil, pickleRead}, "receive"},
		{"reserve of a worker", stack{1, nil, "ipcbench/transports/shm.(*worker).Reserve"}, "reserve-update"},
		{"reserve of a server", stack{1, nil, "ipcbench/transports/shm.(*server).Reserve"}, "reserve"},
		{"unknown transport code", stack{1, nil, "ipcbench/transports/batched.(*server).admit < ipcbench/transports/batched.(*server).other"}, ""},
		{"control socket", stack{1, nil, "encoding/json.Unmarshal < ipcbench/trainer.(*control).receive < ipcbench/trainer.(*Session).listen"}, ""},
		{"garbage collection", stack{1, nil, "runtime.scanobject < runtime.gcDrain < runtime.gcBgMarkWorker"}, ""},
	} {
		p := sampled(tt.stack)
		check.Equal(t, phaseOf(p.Sample[0]), tt.want, tt.name, "got phase")
	}
}

// TestFunctions: functions that work for others are listed with their caller's name.
func TestFunctions(t *testing.T) {
	for _, tt := range []struct{ frames, want string }{
		{"runtime.memmove < main.copy < main.main", "runtime.memmove in main.copy"},
		{"internal/runtime/syscall/linux.Syscall6 < syscall.RawSyscall6 < syscall.read < syscall.Read < internal/poll.(*FD).Read < net.(*conn).Read < main.get", "syscall.Read in main.get"},
		{"main.train < main.main", "main.train"},
		{"runtime.asyncPreempt < main.train < main.main", "main.train"},
		{"runtime.futex < runtime.mcall", "runtime.futex"},
	} {
		p := sampled(stack{1, nil, tt.frames})
		check.Equal(t, functionsOf(stackOf(p.Sample[0]))[0], tt.want, tt.frames)
	}
}

func meta(kind string) Meta {
	return Meta{Kind: kind, Transport: "pickle", Model: "cnn", Workers: 1, Clients: 2, Labels: map[string]string{"link": "1Gbit"}, Blocks: 2, Rounds: 10, Delivered: 2e9}
}

// merged returns a CPU profile of a server and a worker in two blocks.
func merged(t testing.TB) *Profile {
	t.Helper()
	server := phase.Piece{Kind: capture.CPU, Data: encoded(t, sampled(
		stack{3e9, label("collect"), "syscall.read < ipcbench/transports/pickle.(*server).Collect"},
		stack{5e9, map[string]string{phase.LabelWindow: phase.OutsideRound}, "ipcbench/tensor.(*Package).Hash"},
		stack{1e9, nil, "runtime.gcDrain < runtime.gcBgMarkWorker"}))}
	worker := phase.Piece{Kind: capture.CPU, Data: encoded(t, sampled(
		stack{6e9, label("decode"), pickleRead},
		stack{2e9, nil, "ipcbench/transports/pickle.(*worker).odd < ipcbench/trainer.(*process).run"}))}
	trace := phase.Piece{Kind: capture.Trace, Data: []byte("go 1.26 trace")}
	return check.Value(Merge(meta(capture.CPU), []Part{
		{phase.ServerProcess, []phase.Piece{server, trace}}, {"worker-0", []phase.Piece{worker}},
		{phase.ServerProcess, []phase.Piece{server}}, {"worker-0", []phase.Piece{worker, worker}},
	}))(t)
}

// TestMerge: samples of all processes and blocks are merged with the labels of their
// process. Samples between rounds are dropped.
func TestMerge(t *testing.T) {
	sum := Summarize(merged(t), 5)
	check.That(t, sum.Total == 32e9 && sum.Unit == "s", "total %d %s, want 32e9 s", sum.Total, sum.Unit)
	check.That(t, sum.Transport == 30e9 && sum.Attributed == 24e9 && sum.Memmove == 18e9,
		"transport %d, attributed %d, memmove %d", sum.Transport, sum.Attributed, sum.Memmove)
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
	check.Equal(t, got, want)
	if f := sum.Phases[0].Functions; len(f) != 5 || f[0] != (result.Function{Name: "runtime.memmove in encoding/gob.decUint8Slice", Flat: 18e9, Cum: 18e9}) {
		t.Errorf("functions of decode: %v", f)
	}
}

// TestDeltas: for counts from the start of the process, the profile is the difference of
// two marks. For memory in use, it is the average of each block's last profile.
func TestDeltas(t *testing.T) {
	types := []string{"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"}
	early := encoded(t, profileOf(types, stack{100, nil, pickleRead}, stack{7, nil, grpcReader}))
	late := encoded(t, profileOf(types, stack{350, nil, pickleRead}, stack{7, nil, grpcReader}))
	piece := phase.Piece{Kind: capture.Allocs, Data: late, Before: early}
	allocs := check.Value(Merge(meta(capture.Allocs), []Part{{phase.ServerProcess, []phase.Piece{piece}}}))(t)
	sum := Summarize(allocs, 1)
	check.That(t, sum.Total == 250 && sum.Unit == "B" && len(sum.Phases) != 0 && sum.Phases[0].Name == "receive", "allocs: %+v", sum)
	heap := check.Value(Merge(meta(capture.Heap), []Part{
		{phase.ServerProcess, []phase.Piece{{Kind: capture.Heap, Data: early}, {Kind: capture.Heap, Data: late}}},
		{phase.ServerProcess, []phase.Piece{{Kind: capture.Heap, Data: late}}},
	}))(t)
	if sum := Summarize(heap, 1); sum.Total < 355 || sum.Total > 358 { // pprof rounds the values that it scales
		t.Errorf("heap: %d in use, want 357", sum.Total)
	}
}

func TestMergeErrors(t *testing.T) {
	piece := func(data string) []Part {
		return []Part{{"worker-1", []phase.Piece{{Kind: capture.CPU, Data: []byte(data)}}}}
	}
	for name, tt := range map[string]struct {
		parts []Part
		want  string
	}{
		"none":    {nil, "no process has taken this kind of profile"},
		"rubbish": {piece("rubbish"), "profile: cpu of worker-1: "},
		"other":   {piece(string(encoded(t, profileOf([]string{"samples", "wall"}, stack{1, nil, "f"})))), `profile: cpu: has no value "cpu"`},
		"half":    {piece(string(encoded(t, sampled(stack{1, nil, "f"}))[:60])), "profile: cpu of worker-1: "},
	} {
		_, err := Merge(meta(capture.CPU), tt.parts)
		check.Fails(t, err, tt.want, name)
	}
}

// TestWrite: pprof can read the output of Write, with the description and all labels.
func TestWrite(t *testing.T) {
	p := merged(t)
	var b bytes.Buffer
	check.Must(t, p.Write(&b))
	back := check.Value(pprof.Parse(&b))(t)
	check.Must(t, back.CheckValid())
	comment := `ipcbench {"kind":"cpu","transport":"pickle","model":"cnn","workers":1,"clients":2,"labels":{"link":"1Gbit"},"blocks":2,"rounds":10,"delivered_bytes":2000000000}`
	check.That(t, slices.Equal(back.Comments, []string{comment}) && back.DefaultSampleType == "cpu",
		"comments %q, by default %q", back.Comments, back.DefaultSampleType)
	type labels struct{ transport, model, process, phase string }
	got := map[labels]int64{}
	for _, s := range back.Sample {
		first := func(key string) string { return strings.Join(s.Label[key], ",") }
		check.That(t, first("link") == "1Gbit" && first("workers") == "1" && first("clients") == "2",
			"a sample has the labels %v", s.Label)
		got[labels{first(phase.LabelTransport), first(phase.LabelModel), first(phase.LabelProcess), first(phase.LabelPhase)}] += s.Value[1]
	}
	want := map[labels]int64{
		{"pickle", "cnn", phase.ServerProcess, "collect"}: 6e9, {"pickle", "cnn", phase.ServerProcess, ""}: 2e9,
		{"pickle", "cnn", "worker-0", "decode"}: 18e9, {"pickle", "cnn", "worker-0", ""}: 6e9,
	}
	check.Equal(t, got, want)
}

// TestRulesNameCode: the functions of ipcbench that the rules name exist.
func TestRulesNameCode(t *testing.T) {
	method := regexp.MustCompile(`^ipcbench/(.*)\.\(\*(\w+)\)\.(\w*)$`)
	for _, name := range slices.Concat(betweenRounds, transportCode) {
		m := method.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		files := check.Value(filepath.Glob(filepath.Join("..", "..", m[1], "*.go")))(t)
		found := false
		for _, path := range files {
			text := check.Value(os.ReadFile(path))(t)
			found = found || strings.Contains(string(text), "*"+m[2]+") "+m[3])
		}
		check.That(t, found, "no function %s", name)
	}
}
