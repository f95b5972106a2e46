package transports

import (
	"fmt"
	"slices"

	"ipcbench/codec"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
)

// With a codec, drivers get packed packages instead of the users': each tensor becomes a
// byte tensor of variable length, with room for the plain tensor's bytes, and a header
// precedes the receipt. Server and Worker own the users' packages, on the heap. Drivers
// own the packed ones and know nothing of codecs.
//
// Each worker keeps the model that its lane trains and patches it in place. If the user
// publishes model M(n), lanes train S(n): M(n) packed and unpacked, with S(n-1) as the
// base if the codec uses one. All lanes train the same S(n), even after missing
// versions. A lossless codec makes S(n) equal to M(n).

// codecSetting is the name of the setting that [CodecSetting] returns.
const codecSetting = "codec"

// CodecSetting returns the setting codec, which every transport has.
func CodecSetting() driver.Setting {
	return driver.Setting{
		Name: codecSetting, Default: "none", Kind: driver.Text, Values: codec.Names(),
		Help: "compress models and updates; join stages with +",
		Canonical: func(text string) (string, error) {
			p, err := codec.Parse(text)
			return p.String(), err
		},
	}
}

// Codec returns the variant's codec, or nil if it has none.
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

// driverOptions returns the options for the driver of v in a session with options o: with
// a codec, packed layouts and depth 1.
func (v Variant) driverOptions(o driver.Options) driver.Options {
	o.Settings = v.Settings
	if v.Codec() == nil {
		return o
	}
	down, up := o.Down, o.Up
	o.Down = packedLayout(down)
	if o.Up = o.Down; up != down { // equal layouts stay equal
		o.Up = packedLayout(up)
	}
	o.Depth = 1 // updates are unpacked on arrival and kept in the server's own memory
	return o
}

// packedLayout returns the layout of packed packages of layout l.
func packedLayout(l *tensor.Layout) *tensor.Layout {
	specs := l.Specs()
	for i, s := range specs {
		specs[i] = tensor.Spec{Name: s.Name, DType: tensor.U8, Shape: []int{l.Bytes(i)}, Var: true}
	}
	packed, err := tensor.NewLayout(specs)
	if err != nil {
		panic(err) // impossible: it is not larger than l
	}
	return packed
}

// heap returns the heap memory, in bytes, that a codec needs at both ends of a session.
func heap(p *codec.Pipeline, o driver.Options) int64 {
	if p == nil {
		return 0
	}
	down, up, lanes := int64(o.Down.Size()), int64(o.Up.Size()), int64(o.Lanes)
	own := 2*down + lanes*(int64(o.Depth)*up+down+up)
	// The server has a coder for models and one per lane for updates; each worker has both.
	packDown, unpackDown := scratch(p, o.Down)
	packUp, unpackUp := scratch(p, o.Up)
	if p.Base() && o.Up != o.Down { // updates are packed without a base
		packUp, unpackUp = 0, 0
	}
	own += packDown + lanes*(unpackUp+unpackDown+packUp)
	if p.Lossy() {
		own += unpackDown
	}
	return own
}

// scratch returns the memory, in bytes, of a coder that packs packages of layout l, and of
// one that unpacks them.
func scratch(p *codec.Pipeline, l *tensor.Layout) (pack, unpack int64) {
	for _, s := range l.Specs() {
		packing, unpacking := p.Memory(s)
		pack, unpack = max(pack, packing), max(unpack, unpacking)
	}
	return pack, unpack
}

// A coded packs and unpacks packages of one layout and reuses its memory. Only one
// goroutine may use it at a time.
type coded struct {
	coder  *codec.Coder
	name   string
	layout *tensor.Layout // of the users' packages
	specs  []tensor.Spec  // the layout's; dimension 0 of a tensor of variable length is set to its rows in use
	loses  []bool         // by tensor: the codec may lose part of its values
	steps  []string       // the codec's stages
	header header         // of the last package packed or unpacked
	bytes  []byte         // the last header packed, and its receipt
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

// packCounts counts a packed package: bytes unpacked and packed, tensors sent plain, and
// tensors unchanged from the base.
type packCounts struct{ payload, wire, plain, unchanged int }

// counts returns the counts of p, the last package, whose header has this many bytes.
func (c *coded) counts(p *tensor.Package, header int) (t packCounts) {
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

// pack packs cur, a package of this model version, into dst, with receipt. base, if not
// nil, is the model of version from, which the receiver has. dst.Receipt is valid until
// the next pack.
func (c *coded) pack(dst, base, cur *tensor.Package, receipt []byte, version, from int64) (packCounts, error) {
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
			return packCounts{}, err
		}
		t.mode = mode
	}
	c.bytes = c.header.append(c.bytes[:0], c.name, c.layout)
	header := len(c.bytes)
	c.bytes = append(c.bytes, receipt...)
	dst.Receipt = c.bytes
	return c.counts(dst, header), nil
}

// unpack checks src, a packed package from the other end, and unpacks it into dst, with
// its receipt. Its model version must be want or, if want is -1, later than held. base,
// which may be dst, is the model of version held. After an error, dst may be changed.
func (c *coded) unpack(dst, base, src *tensor.Package, want, held int64) (packCounts, error) {
	receipt, err := c.header.read(src.Receipt, c.name, c.layout)
	h := &c.header
	switch {
	case err != nil:
		return packCounts{}, fmt.Errorf("unpack: %w", err)
	case want >= 0 && h.version != want:
		return packCounts{}, fmt.Errorf("unpack: the model version must be %d, not %d", want, h.version)
	case want < 0 && h.version <= held:
		return packCounts{}, fmt.Errorf("unpack: the model version must be above %d, which the lane holds, not %d", held, h.version)
	case h.base >= 0 && base == nil:
		return packCounts{}, fmt.Errorf("unpack: its base is model version %d, but the lane holds no model", h.base)
	case h.base >= 0 && h.base != held:
		return packCounts{}, fmt.Errorf("unpack: its base is model version %d, but the lane holds version %d", h.base, held)
	case h.base < 0:
		base = nil
	}
	for i, t := range h.tensors {
		from := c.base(i, base, t.rows)
		if c.specs[i].Var {
			if err := dst.SetRows(i, t.rows); err != nil {
				return packCounts{}, fmt.Errorf("unpack: %w", err)
			}
		}
		if err := c.coder.Unpack(t.mode, dst.View(i), from, src.View(i), c.spec(i, t.rows)); err != nil {
			return packCounts{}, fmt.Errorf("unpack: %w", err)
		}
	}
	dst.Receipt = append(dst.Receipt[:0], receipt...)
	return c.counts(src, len(src.Receipt)-len(receipt)), nil
}

// applyLoss overwrites cur, which was packed last, into src, with the values that its
// receivers will unpack.
func (c *coded) applyLoss(cur, base, src *tensor.Package) error {
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

// spec returns the spec of tensor i with this many rows in use. It is valid until the next
// call.
func (c *coded) spec(i, rows int) tensor.Spec {
	if s := c.specs[i]; s.Var {
		s.Shape[0] = rows
	}
	return c.specs[i]
}

// base returns the bytes of tensor i in base, or nil without a base or if it has another
// number of rows there.
func (c *coded) base(i int, base *tensor.Package, rows int) []byte {
	if base == nil || c.specs[i].Var && base.Rows(i) != rows {
		return nil
	}
	return base.View(i)
}

// label sets p.Coding for p, which was packed last, for drivers whose protocol describes
// encodings. settled means that the values contained the codec's losses before packing,
// so not even a plain tensor is exactly the user's.
func (c *coded) label(p *tensor.Package, settled bool) {
	if p.Coding == nil {
		p.Coding = make([]tensor.Coding, 0, len(c.specs)) // not nil, because nil means plain
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
