package transports

import (
	"fmt"
	"slices"

	"ipcbench/codec"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// With a codec, what travels is another package than what users see: each tensor
// becomes one of bytes, whose length varies, in the memory that it would take plain,
// and a header goes before the receipt. Server and Worker own what users see, on the
// heap, and drivers own what travels. They know nothing of codecs.
//
// The model that a lane trains is kept by its worker and patched in place. It is
// S(n), what unpacking makes of the packed model M(n), from S(n-1) if the codec goes
// from a base; whatever a lane has missed, it trains the same S(n) as the others. A
// lossless codec makes no difference between S and M.

// codecSetting is the name of the one that [CodecSetting] describes.
const codecSetting = "codec"

// CodecSetting is a setting of every transport.
func CodecSetting() driver.Setting {
	return driver.Setting{
		Name: codecSetting, Default: "none", Kind: driver.Text, Values: codec.Names(),
		Help: "make models and updates smaller on their way; stages are joined with +",
		Canonical: func(text string) (string, error) {
			p, err := codec.Parse(text)
			return p.String(), err
		},
	}
}

// Codec returns the codec of the variant, nil if it has none.
func (v Variant) Codec() *codec.Pipeline {
	text, ok := v.Settings[codecSetting]
	if !ok {
		return nil
	}
	p, err := codec.Parse(text)
	if err != nil {
		panic("transports: " + err.Error()) // NewVariant checked it
	}
	return p
}

// travelling returns the options with which the transport of v is used where users
// ask for o.
func (v Variant) travelling(o driver.Options) driver.Options {
	o.Settings = v.Settings
	if v.Codec() == nil {
		return o
	}
	down, up := o.Down, o.Up
	o.Down = packedLayout(down)
	if o.Up = o.Down; up != down { // layouts that are the same stay so
		o.Up = packedLayout(up)
	}
	o.Depth = 1 // updates are unpacked as they come, and wait for their users elsewhere
	return o
}

// packedLayout returns what packages of l travel as.
func packedLayout(l *tensor.Layout) *tensor.Layout {
	specs := l.Specs()
	for i, s := range specs {
		specs[i] = tensor.Spec{Name: s.Name, DType: tensor.U8, Shape: []int{l.Bytes(i)}, Var: true}
	}
	packed, err := tensor.NewLayout(specs)
	if err != nil {
		panic(err) // it is not larger than l
	}
	return packed
}

// heap returns the bytes that both ends of a session keep because of a codec.
func heap(p *codec.Pipeline, o driver.Options) int64 {
	if p == nil {
		return 0
	}
	down, up, lanes := int64(o.Down.Size()), int64(o.Up.Size()), int64(o.Lanes)
	own := 2*down + lanes*(int64(o.Depth)*up+down+up)
	// A coder for the models and one a lane for updates; and at each worker, one for each.
	packDown, unpackDown := scratch(p, o.Down)
	packUp, unpackUp := scratch(p, o.Up)
	if p.Base() && o.Up != o.Down { // they go plain
		packUp, unpackUp = 0, 0
	}
	own += packDown + lanes*(unpackUp+unpackDown+packUp)
	if p.Lossy() {
		own += unpackDown
	}
	return own
}

// scratch returns what a coder keeps that packs packages of l, and one that unpacks
// them.
func scratch(p *codec.Pipeline, l *tensor.Layout) (pack, unpack int64) {
	for _, s := range l.Specs() {
		packing, unpacking := p.Memory(s)
		pack, unpack = max(pack, packing), max(unpack, unpacking)
	}
	return pack, unpack
}

// A coded packs and unpacks packages of one layout. It keeps its memory. One
// goroutine at a time uses it.
type coded struct {
	coder  *codec.Coder
	name   string
	layout *tensor.Layout // of what users see
	specs  []tensor.Spec  // of it; dimension 0 of those whose length varies is what is in use
	loses  []bool         // whether what arrives of a tensor may differ from what was sent
	steps  []string       // of the codec
	header header         // of the last package
	bytes  []byte         // a header and a receipt
}

func newCoded(p *codec.Pipeline, l *tensor.Layout) *coded {
	c := &coded{
		coder: p.NewCoder(), name: p.String(), steps: p.Steps(),
		layout: l, specs: l.Specs(), loses: make([]bool, l.Len()), header: header{tensors: make([]packed, l.Len())},
	}
	for i, s := range c.specs {
		c.specs[i].Shape = slices.Clone(s.Shape)
		c.loses[i] = p.Lossy() && p.Takes(s) == nil
	}
	return c
}

// tally says what a packed package amounts to.
type tally struct{ payload, wire, plain, unchanged int }

// tally returns that of the last package, which is p.
func (c *coded) tally(p *tensor.Package, header int) (t tally) {
	t.wire = p.Payload() + header
	for _, of := range c.header.tensors {
		t.payload += of.bytes
		switch of.mode {
		case codec.Plain:
			t.plain++
		case codec.Unchanged:
			t.unchanged++
		}
	}
	return t
}

// pack writes cur, which is of this version of the model, to dst, with receipt. Base,
// unless it is nil, is the model of version from, which the receiver has.
func (c *coded) pack(dst, base, cur *tensor.Package, receipt []byte, version, from int64) (tally, error) {
	if base == nil {
		from = -1
	}
	c.header.version, c.header.base = version, from
	dst.ResetRows()
	for i := range c.specs {
		t, s := &c.header.tensors[i], c.spec(i, cur.Rows(i))
		t.bytes, t.rows = len(cur.View(i)), cur.Rows(i)
		mode, n, err := c.coder.Pack(dst.View(i), c.base(i, base, t.rows), cur.View(i), s)
		if err == nil {
			err = dst.SetRows(i, n)
		}
		if err != nil {
			return tally{}, err
		}
		t.mode = mode
	}
	c.bytes = c.header.append(c.bytes[:0], c.name, c.layout)
	header := len(c.bytes)
	c.bytes = append(c.bytes, receipt...)
	dst.Receipt = c.bytes
	return c.tally(dst, header), nil
}

// unpack checks src, which comes from the other end, and writes what it holds to dst,
// with its receipt. It has to be version want of the model, or any later than held if
// want is -1. Base, which may be dst, is the model of version held.
func (c *coded) unpack(dst, base, src *tensor.Package, want, held int64) (tally, error) {
	receipt, err := c.header.read(src.Receipt, c.name, c.layout)
	h := &c.header
	switch {
	case err != nil:
		return tally{}, fmt.Errorf("unpack: %w", err)
	case want >= 0 && h.version != want:
		return tally{}, fmt.Errorf("unpack: version %d of the model, want version %d", h.version, want)
	case want < 0 && h.version <= held:
		return tally{}, fmt.Errorf("unpack: version %d of the model, and the lane holds version %d", h.version, held)
	case h.base >= 0 && base == nil:
		return tally{}, fmt.Errorf("unpack: it goes from version %d of the model, and there is no base", h.base)
	case h.base >= 0 && h.base != held:
		return tally{}, fmt.Errorf("unpack: it goes from version %d of the model, and the lane holds version %d", h.base, held)
	case h.base < 0:
		base = nil
	}
	for i, t := range h.tensors {
		from := c.base(i, base, t.rows)
		if c.specs[i].Var {
			if err := dst.SetRows(i, t.rows); err != nil {
				return tally{}, fmt.Errorf("unpack: %w", err)
			}
		}
		if err := c.coder.Unpack(t.mode, dst.View(i), from, src.View(i), c.spec(i, t.rows)); err != nil {
			return tally{}, fmt.Errorf("unpack: %w", err)
		}
	}
	dst.Receipt = append(dst.Receipt[:0], receipt...)
	return c.tally(src, len(src.Receipt)-len(receipt)), nil
}

// settle makes cur, which was packed to src last, what its receivers will have.
func (c *coded) settle(cur, base, src *tensor.Package) error {
	for i, t := range c.header.tensors {
		if t.mode != codec.Coded {
			continue
		}
		if err := c.coder.Unpack(t.mode, cur.View(i), c.base(i, base, t.rows), src.View(i), c.spec(i, t.rows)); err != nil {
			return err
		}
	}
	return nil
}

// spec returns that of tensor i with so many rows in use.
func (c *coded) spec(i, rows int) tensor.Spec {
	if s := c.specs[i]; s.Var {
		s.Shape[0] = rows
	}
	return c.specs[i]
}

// base returns the bytes from which tensor i goes if it has so many rows, nil if
// there are none.
func (c *coded) base(i int, base *tensor.Package, rows int) []byte {
	if base == nil || c.specs[i].Var && base.Rows(i) != rows {
		return nil
	}
	return base.View(i)
}

// label says on p, which was packed last, what each tensor is, for drivers whose
// protocol has a place for that. Settled: it was made of what receivers have.
func (c *coded) label(p *tensor.Package, settled bool) {
	if p.Coding == nil {
		p.Coding = make([]tensor.Coding, 0, len(c.specs)) // not nil, even without tensors
	}
	p.Coding = p.Coding[:0]
	for i, t := range c.header.tensors {
		coding := tensor.Coding{Spec: c.layout.Spec(i), Lossless: !c.loses[i] || t.mode != codec.Coded && !settled, Base: -1}
		if t.mode != codec.Plain {
			coding.Steps, coding.Base = c.steps, c.header.base
		}
		p.Coding = append(p.Coding, coding)
	}
}
