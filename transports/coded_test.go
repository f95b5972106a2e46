package transports

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"ipcbench/codec"
	"ipcbench/internal/test/check"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/endpoint"
	"ipcbench/transports/inproc"
)

// A rig is a session with a codec in one process.
type rig struct {
	t      *testing.T
	rec    *phase.Recorder
	server *Server
	lanes  []*Worker
	round  int
}

func newRig(t *testing.T, tr driver.Transport, codec string, down, up *tensor.Layout, lanes int) *rig {
	t.Helper()
	v := check.Value(NewVariant(tr, driver.Settings{"codec": codec}))(t)
	r := &rig{t: t, rec: phase.NewRecorder(10)}
	e, o := endpoint.New(""), driver.Options{Down: down, Up: up, Lanes: lanes, Clients: lanes, Depth: 2, Rec: r.rec}
	r.server = check.Value(Listen(t.Context(), v, e, o))(t)
	for n := range lanes {
		w := check.Value(Dial(t.Context(), v, e, n, o))(t)
		r.lanes = append(r.lanes, w)
	}
	t.Cleanup(func() {
		for _, w := range r.lanes {
			check.Must(t, w.Close())
		}
		check.Must(t, r.server.Shutdown(context.Background()))
	})
	return r
}

// publish publishes the model that write makes from the previous one, and returns the model
// that clients train on.
func (r *rig) publish(write func(p *tensor.Package)) *tensor.Package {
	r.t.Helper()
	p := check.Value(r.server.Reserve(0))(r.t)
	if r.round > 0 {
		p.CopyFrom(r.server.published)
	}
	write(p)
	r.round++
	p = check.Value(r.server.Publish(r.t.Context(), 0, p))(r.t)
	return p
}

// job carries out a job on a lane and passes the update to see.
func (r *rig) job(lane int, train func(model, update *tensor.Package), see func(update *tensor.Package)) error {
	ctx, w := r.t.Context(), r.lanes[lane]
	if err := r.server.Dispatch(ctx, lane, driver.Job{Round: r.round - 1, Client: lane}); err != nil {
		return err
	}
	_, model, err := w.Receive(ctx)
	if err != nil {
		return err
	}
	update, err := w.Reserve()
	if err != nil {
		return err
	}
	train(model, update)
	if err := w.Submit(ctx, update); err != nil {
		return err
	}
	if update, err = r.server.Collect(ctx, lane); err == nil {
		see(update)
		update.Release()
	}
	return err
}

// sees returns a driver that calls f with each model as it is sent.
func sees(f func(sent *tensor.Package)) driver.Transport {
	return hooked{Transport: inproc.New(), after: func(act string, _ int, p *tensor.Package, _ *driver.Delivered) {
		if act == "publish" {
			f(p)
		}
	}}
}

func ignored(*tensor.Package) {}

func copied(model, update *tensor.Package) { update.CopyFrom(model) }

// floats returns a layout of float tensors, and an integer tensor that lossy codecs leave
// unchanged.
func floats(t testing.TB) *tensor.Layout {
	t.Helper()
	return layoutOf(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{40, 50}}, tensor.Spec{Name: "h", DType: tensor.BF16, Shape: []int{301}},
		tensor.Spec{Name: "n", DType: tensor.I64, Shape: []int{100}}, tensor.Spec{Name: "e", DType: tensor.F32, Shape: []int{0}})
}

func layoutOf(t testing.TB, specs ...tensor.Spec) *tensor.Layout {
	t.Helper()
	return check.Value(tensor.NewLayout(specs))(t)
}

// nudge changes the first byte of about 5 % of the elements of p, at random.
func nudge(p *tensor.Package, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range p.Len() {
		b, size := p.View(i), p.Layout().Spec(i).DType.Size()
		for w := 0; w < len(b); w += size {
			if r.IntN(20) == 0 {
				b[w] ^= byte(1 + r.IntN(255))
			}
		}
	}
}

// TestForged: an invalid package is an error that names the tensor, or both versions. Its
// lane fails and the others continue. O16: "base missing" is one case.
func TestForged(t *testing.T) {
	l := floats(t)
	forged := func(f func(h *header)) func(*tensor.Package) {
		return func(p *tensor.Package) {
			h := header{tensors: make([]packed, l.Len())}
			rest := check.Value(h.read(p.Receipt, "sparse", l))(t)
			f(&h)
			p.Receipt = append(h.append(nil, "sparse", l), rest...)
		}
	}
	for name, c := range map[string]struct {
		meddle func(p *tensor.Package)
		want   string // in both directions
		up     string // appended to want in this direction
		down   string
	}{
		"base":          {meddle: forged(func(h *header) { h.base = 7 }), want: "its base is model version 7, but the lane holds version ", up: "1", down: "0"},
		"version":       {meddle: forged(func(h *header) { h.version = 0 }), want: "the model version must be ", up: "1, not 0", down: "above 0, which the lane holds, not 0"},
		"no base":       {meddle: forged(func(h *header) { h.base = -1 }), want: `"w" is coded, but there is no base`},
		"mode":          {meddle: forged(func(h *header) { h.tensors[0].mode = codec.Plain }), want: `"w": `},
		"another mode":  {meddle: forged(func(h *header) { h.tensors[2].mode = 9 }), want: `tensor "n": unknown mode [9]`},
		"length":        {meddle: forged(func(h *header) { h.tensors[1].bytes = 600 }), want: `tensor "h": its unpacked length must be 602, not 600`},
		"fewer bytes":   {meddle: func(p *tensor.Package) { check.Must(t, p.SetRows(2, len(p.View(2))-1)) }, want: `"n": sparse: `},
		"more bytes":    {meddle: func(p *tensor.Package) { check.Must(t, p.SetRows(1, 602)) }, want: `"h": `},
		"a large index": {meddle: func(p *tensor.Package) { p.View(0)[3] ^= 0xff }, want: `"w": sparse: index 0 of `},
		"no header":     {meddle: func(p *tensor.Package) { p.Receipt = []byte("mine") }, want: `the receipt must begin with "ipcd", not "mine"`},
		"magic":         {meddle: func(p *tensor.Package) { p.Receipt = append([]byte("I"), p.Receipt[1:]...) }, want: `begin with "ipcd", not "Ipcd"`},
		"format":        {meddle: func(p *tensor.Package) { p.Receipt = append([]byte("ipcd\x09"), p.Receipt[5:]...) }, want: "the header's format must be [1], not [9]"},
		"codec": {meddle: func(p *tensor.Package) {
			p.Receipt = bytes.Replace(bytes.Clone(p.Receipt), []byte("sparse"), []byte("gzipxx"), 1)
		}, want: `packed with codec "gzipxx", but the session's is "sparse"`},
	} {
		for _, up := range []bool{true, false} {
			armed := false
			way := "receive"
			if up {
				way = "collect"
			}
			m := hooked{Transport: inproc.New(), after: func(act string, lane int, p *tensor.Package, d *driver.Delivered) {
				if act == way && armed && lane == 0 {
					c.meddle(p)
					*d = driver.Delivered{Handle: driver.All(p)}
				}
			}}
			want := "inproc: lane 0: " + way + ": round 1, client 0: unpack: "
			r := newRig(t, m, "sparse", l, l, 2)
			good := func(lane int) error {
				return r.job(lane, func(model, update *tensor.Package) { update.CopyFrom(model); nudge(update, 5) }, ignored)
			}
			r.publish(func(p *tensor.Package) { tensor.Fill(p, 1) })
			check.Must(t, good(0))
			check.Must(t, good(1))
			r.publish(func(p *tensor.Package) { nudge(p, 2) })
			armed = true
			rest := c.up
			if !up {
				rest = c.down
			}
			if err := good(0); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), c.want+rest) {
				t.Errorf("%s: got error %v, want %s%s", name, err, c.want, rest)
			}
			if name == "a large index" && !up {
				c.meddle(r.server.coded.delta.Package) // changed back, because all lanes share this memory
			}
			var again error
			if up {
				again = r.server.Dispatch(t.Context(), 0, driver.Job{})
			} else {
				_, _, again = r.lanes[0].Receive(t.Context())
			}
			check.That(t, again != nil, "%s: the lane is not dead", name)
			check.Must(t, good(1))
		}
	}
}

// TestNoModel: a job without a model is an error on a lane that holds none.
func TestNoModel(t *testing.T) {
	l := floats(t)
	r := newCodedWorker(mustParse(t, "sparse"), driver.Options{Down: l, Up: l})
	_, err := r.receive(nil, phase.ID{})
	check.That(t, err == errModelMissing, "got error %v, want %v", err, errModelMissing)
}

func mustParse(t *testing.T, text string) *codec.Pipeline {
	t.Helper()
	return check.Value(codec.Parse(text))(t)
}

// lossy lists codecs that lose information.
var lossy = []string{"bf16", "bf16+sparse", "int8", "topk=2%", "topk=1%+gaps+zstd", "kc=8", "stc=5%", "skc"}

// TestSameForAll: O14, "lossy flag correct"; O16, "base missing → full tensor": whatever
// rounds a lane has missed, it trains on S(n) = Unpack(Pack(S(n-1), M(n))), bit for bit.
// Publish returns the same. O15, "label equals reality": a tensor labelled lossless equals
// the published one, bit for bit.
func TestSameForAll(t *testing.T) {
	l := floats(t)
	for _, name := range append([]string{"sparse", "zstd"}, lossy...) {
		t.Run(name, func(t *testing.T) {
			const lanes = 3
			p, random := mustParse(t, name), rand.New(rand.NewPCG(3, 4))
			coder, want, written := p.NewCoder(), tensor.Alloc(l), tensor.Alloc(l)
			labelled, lost := 0, false
			m := sees(func(sent *tensor.Package) {
				for i, c := range sent.Coding {
					labelled++
					same := bytes.Equal(sent.Plain.View(i), written.View(i))
					check.That(t, !c.Lossless || same, "tensor %s is labelled lossless, and is not", c.Spec.Name)
					lost = lost || !same
					check.That(t, p.Lossy() || c.Lossless, "tensor %s of a lossless codec is labelled lossy", c.Spec.Name)
				}
			})
			r := newRig(t, m, name, l, l, lanes)
			for round := range 12 {
				model := r.publish(func(p *tensor.Package) {
					if round == 0 {
						tensor.Fill(p, 1)
					}
					nudge(p, uint64(round))
					written.CopyFrom(p)
				})
				for i := range l.Len() {
					var base []byte
					if p.Base() && round > 0 {
						base = want.View(i)
					}
					packed := make([]byte, l.Bytes(i))
					mode, n, err := coder.Pack(packed, base, written.View(i), l.Spec(i))
					check.Must(t, err)
					check.Must(t, coder.Unpack(mode, want.View(i), base, packed[:n], l.Spec(i)))
				}
				check.Need(t, model.Hash() == want.Hash(), "round %d: Publish returns another model than S(n)", round)
				for lane := range lanes {
					if random.IntN(2) == 0 {
						continue
					}
					check.Must(t, r.job(lane, func(got, update *tensor.Package) {
						check.That(t, got.Hash() == want.Hash(), "round %d: lane %d trains another model than S(n)", round, lane)
						copied(got, update)
					}, ignored))
				}
			}
			if labelled < 12*l.Len() || lost != p.Lossy() {
				t.Errorf("%d labels, and bits were lost: %v; want at least %d, and %v", labelled, lost, 12*l.Len(), p.Lossy())
			}
		})
	}
}

// TestUpdates: an update arrives as Unpack(Pack(update)), with the model as base if the
// layouts are equal. If they differ, a codec that needs a base sends the update plain, and
// counts that.
func TestUpdates(t *testing.T) {
	down := floats(t)
	for _, up := range []*tensor.Layout{down, layoutOf(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{400}}, tensor.Spec{Name: "r", DType: tensor.F32, Shape: []int{9, 3}, Var: true})} {
		for _, name := range append([]string{"sparse", "zstd"}, lossy...) {
			p := mustParse(t, name)
			coder, want := p.NewCoder(), tensor.Alloc(up)
			r := newRig(t, inproc.New(), name, down, up, 1)
			for round := range 3 {
				r.publish(func(p *tensor.Package) { tensor.Fill(p, uint64(round)) })
				before := r.rec.Counts()[phase.CodecPlain]
				check.Must(t, r.job(0, func(model, update *tensor.Package) {
					if up == down {
						copied(model, update)
					} else {
						tensor.Fill(update, uint64(round))
						check.Must(t, update.SetRows(1, 2+round))
					}
					nudge(update, uint64(round))
					want.CopyFrom(update)
					for i := range up.Len() {
						s, base := up.Spec(i), []byte(nil)
						if p.Base() && up == down {
							base = model.View(i)
						} else if s.Var {
							s.Shape = []int{update.Rows(i), 3}
						}
						packed := make([]byte, len(update.View(i)))
						mode, n, err := coder.Pack(packed, base, update.View(i), s)
						check.Must(t, err)
						check.Must(t, coder.Unpack(mode, want.View(i), base, packed[:n], s))
					}
				}, func(update *tensor.Package) {
					check.That(t, update.Hash() == want.Hash(), "%s, round %d: the update is not what was packed", name, round)
				}))
				if plain := r.rec.Counts()[phase.CodecPlain] - before; p.Base() && up != down && plain < int64(up.Len()) {
					t.Errorf("%s: %d tensors went plain, want all %d of the update at least", name, plain, up.Len())
				}
			}
		}
	}
}

// TestSteadyCoding: once a session with a codec has its buffers, neither end allocates
// memory that grows with the model.
func TestSteadyCoding(t *testing.T) {
	l := layoutOf(t, tensor.Spec{Name: "w", DType: tensor.F32, Shape: []int{1 << 18}}, tensor.Spec{Name: "b", DType: tensor.BF16, Shape: []int{1 << 17}})
	for _, name := range append([]string{"sparse", "gaps+zstd", "xor+shuffle+zstd"}, lossy...) {
		r := newRig(t, inproc.New(), name, l, l, 1)
		round := func() {
			r.publish(func(p *tensor.Package) { p.View(0)[17]++; p.View(1)[18]++ })
			check.Must(t, r.job(0, func(model, update *tensor.Package) { copied(model, update); update.View(0)[100]++ }, ignored))
		}
		for range 3 {
			round()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 5 {
			round()
		}
		runtime.ReadMemStats(&after)
		if n := (after.TotalAlloc - before.TotalAlloc) / 5; n > uint64(l.Bytes(1)) { // less than any tensor; zstd makes some of its tables again
			t.Errorf("%s: a round allocates %d bytes, with a model of %d", name, n, l.Payload())
		}
	}
}

// TestCodecMemory: Footprint matches the memory of a session with a codec, including
// updates that its user holds.
func TestCodecMemory(t *testing.T) {
	l := layoutOf(t, tensor.Spec{Name: "a", DType: tensor.F32, Shape: []int{1 << 18}}, tensor.Spec{Name: "b", DType: tensor.F32, Shape: []int{1 << 18}})
	up := layoutOf(t, tensor.Spec{Name: "c", DType: tensor.F32, Shape: []int{1 << 17}})
	for _, name := range []string{"sparse", "zstd", "xor+shuffle+zstd", "bf16+sparse", "topk=20%", "stc=20%", "kc=16"} {
		heap := func() int64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		v := check.Value(NewVariant(inproc.New(), driver.Settings{"codec": name}))(t)
		o := driver.Options{Down: l, Up: up, Lanes: 2, Clients: 2, Depth: 2}
		before := heap() // inproc's own memory is not on the heap
		r := newRig(t, v.Subject.(driver.Transport), name, l, up, 2)
		for range 2 {
			r.publish(func(p *tensor.Package) { nudge(p, 1) })
			for lane := range 2 {
				check.Must(t, r.job(lane, func(_, update *tensor.Package) { tensor.Fill(update, 1) }, ignored))
			}
		}
		got, said := heap()-before, v.Footprint(o)-v.Subject.Footprint(v.driverOptions(o))
		t.Logf("%s: %d bytes on the heap, and Footprint says %d", name, got, said)
		check.That(t, got <= said*11/10 && got >= said*3/4, "%s: %d bytes on the heap, and Footprint says %d", name, got, said)
		runtime.KeepAlive(r)
	}
}

// TestNothingWithout: without a codec, a session has no packages of its own, no header and
// no label.
func TestNothingWithout(t *testing.T) {
	l := floats(t)
	m := sees(func(p *tensor.Package) {
		if p.Coding != nil || p.Plain != nil || p.Layout() != l || string(p.Receipt) != "receipt" {
			t.Errorf("what travels is %v, %v, %v with receipt %q", p.Coding, p.Plain, p.Layout().Specs(), p.Receipt)
		}
	})
	r := newRig(t, m, "none", l, l, 1)
	model := r.publish(func(p *tensor.Package) { p.Receipt = append(p.Receipt, "receipt"...) })
	check.Must(t, r.job(0, func(m, u *tensor.Package) {
		check.That(t, &m.View(0)[0] == &model.View(0)[0], "the worker's model is not the server's memory")
		copied(m, u)
	}, ignored))
	check.That(t, r.server.coded == nil && r.lanes[0].coded == nil, "something is kept for a codec")
	for name, n := range r.rec.Counts() {
		check.That(t, !strings.HasPrefix(name, "codec"), "%s = %d is counted", name, n)
	}
}

// TestCounted: O17: the bytes counted for a codec are those that the driver carries: encoded
// tensors and the header before the receipt, in both directions. Packing and unpacking are
// recorded as phases of the job that they belong to.
func TestCounted(t *testing.T) {
	l := floats(t)
	carried := map[string]int64{}
	r := newRig(t, hooked{Transport: inproc.New(), after: func(act string, _ int, p *tensor.Package, _ *driver.Delivered) {
		carried[act] += int64(p.Payload() + len(p.Receipt))
	}}, "sparse", l, l, 1)
	r.rec.From(0)
	r.publish(func(p *tensor.Package) { tensor.Fill(p, 1) })
	check.Must(t, r.job(0, copied, ignored))
	samples, _ := r.rec.Drain()
	got := map[string]int{}
	for _, s := range samples {
		if s.Phase == phase.Compress || s.Phase == phase.Expand {
			got[fmt.Sprintf("%v round=%d client=%d lane=%d", s.Phase, s.Round, s.Client, s.Lane)]++
		}
	}
	want := map[string]int{"compress round=-1 client=-1 lane=-1": 1, "compress round=0 client=0 lane=0": 1, "expand round=0 client=0 lane=0": 2}
	check.That(t, fmt.Sprint(got) == fmt.Sprint(want), "got spans %v, want %v", got, want)

	r.publish(func(p *tensor.Package) { nudge(p, 1) })
	check.Must(t, r.job(0, copied, ignored))
	counts := r.rec.Counts()
	check.Equal(t, counts[phase.CodecDownWire]+counts[phase.CodecFullBytes], carried["receive"], "bytes of models")
	check.Equal(t, counts[phase.CodecUpWire], carried["collect"], "bytes of updates")
}
