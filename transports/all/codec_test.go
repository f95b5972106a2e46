package all_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ipcbench/codec"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

func TestMain(m *testing.M) {
	host().MaybeWorker()
	drivertest.Exit(m)
}

func host() trainer.Host {
	return trainer.Host{Transports: all.Transports(), Funcs: map[string]trainer.Func{
		"change": func([]byte) (trainer.Train, error) { return change, nil },
	}}
}

// odd has edge cases for codecs: every element size, empty tensors, tensors of one element
// or without dimensions, and one whose length varies.
func odd(t *testing.T) *tensor.Layout {
	t.Helper()
	return drivertest.Layout(t,
		tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{200, 31}},
		tensor.Spec{Name: "half", DType: tensor.BF16, Shape: []int{1025}},
		tensor.Spec{Name: "count", DType: tensor.I64, Shape: []int{300}},
		tensor.Spec{Name: "mask", DType: tensor.Bool, Shape: []int{77}},
		tensor.Spec{Name: "empty", DType: tensor.F32, Shape: []int{3, 0, 2}},
		tensor.Spec{Name: "scalar", DType: tensor.F64},
		tensor.Spec{Name: "one", DType: tensor.F16, Shape: []int{1}},
		tensor.Spec{Name: "byte", DType: tensor.U8, Shape: []int{1}},
		tensor.Spec{Name: "rows", DType: tensor.F32, Shape: []int{10, 7}, Var: true},
		tensor.Spec{Name: "still", DType: tensor.F32, Shape: []int{500}},
	)
}

// start writes the first model, including elements that arithmetic would change.
func start(p *tensor.Package) {
	tensor.Fill(p, 1)
	for i, bits := range []uint32{0x7fc00001, 0xffa12345, 0x80000000, 1, 0x807fffff, 0x7f800000} {
		binary.LittleEndian.PutUint32(p.View(0)[4*i:], bits) // NaNs with payloads, -0, denormals, Inf
	}
}

// mutate changes the bits of 2 % of the elements of every tensor except "still". A NaN may
// become a different NaN.
func mutate(p *tensor.Package, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range p.Len() {
		s, b := p.Layout().Spec(i), p.View(i)
		size := s.DType.Size()
		if s.Name == "still" {
			continue
		}
		for w := 0; w < len(b); w += size {
			switch {
			case r.IntN(50) > 0:
			case s.DType == tensor.Bool:
				b[w] ^= 1
			default:
				b[w+r.IntN(size)] ^= byte(1 + r.IntN(255))
			}
		}
	}
}

// change is the worker function. Its update is the model with 2 % of the elements changed,
// another number of rows in use, and a receipt of its own.
func change(j *trainer.Job) error {
	if want := fmt.Sprint("model ", j.Round); string(j.Model.Receipt) != want {
		return fmt.Errorf("the model's receipt is %q, want %q", j.Model.Receipt, want)
	}
	j.Update.CopyFrom(j.Model)
	mutate(j.Update, uint64(1000*j.Round+j.Client))
	j.Update.Receipt = fmt.Appendf(nil, "update %d %d", j.Round, j.Client)
	return setRows(j.Update, (j.Round/2+j.Client)%11)
}

// setRows sets the used rows of the tensor whose length varies to n, and fills new rows
// with 0.
func setRows(p *tensor.Package, n int) error {
	had := len(p.View(8))
	err := p.SetRows(8, n)
	if now := p.View(8); len(now) > had {
		clear(now[had:])
	}
	return err
}

// fold copies the bytes that an update has changed into the next model.
func fold(next, model, update *tensor.Package) {
	for i := range model.Len() {
		n, m, u := next.View(i), model.View(i), update.View(i)
		for k := range min(len(n), len(m), len(u)) {
			if u[k] != m[k] {
				n[k] = u[k]
			}
		}
	}
}

// A plan sets the number of clients in each round: one from round fewFrom to fewTo,
// otherwise most.
type plan struct{ lanes, most, rounds, fewFrom, fewTo int }

func (p plan) clients(round int) int {
	if round >= p.fewFrom && round < p.fewTo {
		return 1
	}
	return p.most
}

// run carries out a plan. It returns the hashes of all models and updates in order, and the
// server's counters.
func run(t *testing.T, l trainer.Launcher, v transports.Variant, down, up *tensor.Layout, p plan) (hashes []uint64, counts map[string]int64) {
	t.Helper()
	s := check.Value(trainer.Open(t.Context(), trainer.Config{
		Variant: v, Down: down, Up: up, Workers: p.lanes, Clients: p.most, Func: "change", Launcher: l, Samples: 10000,
	}))(t)
	defer func() {
		check.Must(t, check.Err(s.Close()))
		counts = s.Recorder().Counts()
	}()
	next := check.Value(s.Reserve(0))(t)
	start(next)
	for n := range p.rounds {
		next.Receipt = fmt.Appendf(nil, "model %d", n)
		model := check.Value(s.Publish(t.Context(), n, next))(t)
		next = check.Value(s.Reserve(n))(t)
		next.CopyFrom(model)
		err := s.Round(t.Context(), trainer.Round{Number: n, Clients: trainer.Roster(p.clients(n)), Each: func(u trainer.Update) error {
			defer u.Release()
			if want := fmt.Sprintf("update %d %d", n, u.Index); string(u.Package.Receipt) != want {
				return fmt.Errorf("the update's receipt is %q, want %q", u.Package.Receipt, want)
			}
			hashes = append(hashes, u.Package.Hash())
			fold(next, model, u.Package)
			return nil
		}})
		check.Must(t, err)
		check.Must(t, setRows(next, n/3%11))
		hashes = append(hashes, model.Hash())
	}
	return hashes, nil
}

var plans = []plan{
	{lanes: 1, most: 1, rounds: 6},
	{lanes: 1, most: 4, rounds: 6},
	{lanes: 2, most: 4, rounds: 6},
	{lanes: 2, most: 2, rounds: 9, fewFrom: 3, fewTo: 5}, // the second lane misses two rounds
}

// TestCodecs: O14, "each pipeline selectable by name"; O16, "round n≥1 sends base+delta,
// receiver result equals full model", "unchanged tensors cost ~0 bytes" and "base missing →
// full tensor"; O17, "bytes/round with and without deltas".
//
// With a lossless codec, every transport delivers the same models and updates, bit for bit,
// as without a codec. With a lossy codec, all transports deliver the same ones. A lane that
// has missed rounds gets one full version.
func TestCodecs(t *testing.T) {
	layout, h := odd(t), host()
	for i, p := range plans {
		if testing.Short() && i < 2 {
			continue
		}
		want := map[string][]uint64{} // by codec; lossless codecs share the hashes of none
		for _, tr := range h.Transports {
			for _, name := range []string{"none", "sparse", "gaps", "xor+shuffle+zstd", "zstd", "bf16+sparse", "topk=1%+gaps"} {
				v := check.Value(transports.NewVariant(tr, driver.Settings{"codec": name}))(t)
				same := name
				if !v.Codec().Lossy() {
					same = "none"
				}
				l := trainer.NewGoroutines(h)
				if i == 2 && name == "sparse" && tr.Traits(v.Settings).Reach > driver.Process {
					l = trainer.NewProcesses()
				}
				t.Run(fmt.Sprintf("%s/lanes=%d,clients=%d,%s", v, p.lanes, p.most, l.Name()), func(t *testing.T) {
					got, counts := run(t, l, v, layout, layout, p)
					if want[same] == nil {
						want[same] = got
					}
					check.That(t, slices.Equal(got, want[same]), "models and updates have hashes %x, want %x", got, want[same])
					counted(t, v, p, counts, layout)
				})
			}
		}
	}
}

// TestEqualLayouts: with every codec that has a base, and every transport, the update's
// layout may be a separate copy of the model's.
func TestEqualLayouts(t *testing.T) {
	model, update, h := odd(t), odd(t), host()
	codecs := []string{"bf16+sparse", "bf16+xor+shuffle+zstd", "topk=10%+bf16+gaps+zstd", "int8", "none"}
	for _, name := range codec.Names() {
		name = strings.NewReplacer("=P", "=10%", "=N", "=16").Replace(name)
		if p, err := codec.Parse(name); err != nil {
			t.Error(err)
		} else if p.Base() {
			codecs = append(codecs, name)
		}
	}
	p := plan{lanes: 2, most: 3, rounds: 2}
	for _, name := range codecs {
		for _, tr := range h.Transports {
			v := check.Value(transports.NewVariant(tr, driver.Settings{"codec": name}))(t)
			t.Run(v.String(), func(t *testing.T) {
				l := trainer.NewGoroutines(h)
				want, _ := run(t, l, v, model, model, p)
				got, _ := run(t, l, v, model, update, p)
				check.That(t, slices.Equal(got, want), "with two layouts, models and updates have hashes %x, want %x", got, want)
			})
		}
	}
}

// counted checks the codec counters of a session that ran plan p.
func counted(t *testing.T, v transports.Variant, p plan, c map[string]int64, l *tensor.Layout) {
	t.Helper()
	jobs, shown := int64(0), int64(0) // all jobs, and the jobs that came with a model
	for n := range p.rounds {
		jobs += int64(p.clients(n))
		shown += int64(min(p.lanes, p.clients(n)))
	}
	full := map[string]int64{}
	switch {
	case v.Codec() == nil:
		jobs, shown = 0, 0
	case v.Codec().Base():
		full["first"] = int64(p.lanes)
		if p.fewTo > 0 {
			full["missed"] = 1
		}
	}
	for name, want := range map[string]int64{
		phase.CodecFull + "first": full["first"], phase.CodecFull + "missed": full["missed"],
		phase.CodecSame: jobs - shown,
	} {
		check.Equal(t, c[name], want, name)
	}
	down, wire := c[phase.CodecDownPayload], c[phase.CodecDownWire]
	if most := (shown - full["first"] - full["missed"]) * int64(l.Payload()); down > most || down < most-most/20 || jobs > 0 && wire == 0 {
		t.Errorf("%d bytes of models went as %d, want some %d", down, wire, most)
	}
	if v.Codec().Base() {
		ratio := float64(wire) / float64(down)
		check.That(t, math.Abs(ratio) <= 0.25, "models went as %.1f %% of their bytes, want less than 25 %%", 100*ratio)
		check.That(t, c[phase.CodecUnchanged] != 0, "no tensor was unchanged, and one always is")
	}
}
