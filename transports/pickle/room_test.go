package pickle

import (
	"math"
	"math/rand/v2"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/phase"
	"ipcbench/tensor"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
	"ipcbench/transports/internal/gobs"
)

// tally counts the bytes written to it.
type tally int

func (n *tally) Write(b []byte) (int, error) {
	*n += tally(len(b))
	return len(b), nil
}

// TestFileSize: no file is larger than fileSize predicts, whatever numbers it holds.
func TestFileSize(t *testing.T) {
	skip.Long(t)
	random := rand.New(rand.NewPCG(1, 2))
	fills := map[string]func() byte{
		"zeros": func() byte { return 0 }, "ones": func() byte { return 0xff }, "alternating": func() byte { return 0xaa },
		"random": func() byte { return byte(random.Uint32()) },
	}
	for _, d := range tensor.DTypes() {
		for name, fill := range fills {
			for _, elems := range []bool{false, true} {
				l := drivertest.Vectors(t, d, 0, 1, 300_000)
				p := tensor.Alloc(l)
				p.Receipt = make([]byte, 4096)
				for i := range p.Len() {
					for b := range p.View(i) {
						p.View(i)[b] = fill()
					}
				}
				var written tally
				check.Must(t, gobs.NewEncoder(&written, nil, elems).Encode(phase.OfRound(0), gobs.Header{Receipt: p.Receipt}, p))
				if most := fileSize(l, elems); float64(written) > most {
					t.Errorf("%s %s, elems %v: %d bytes, want %.0f at most", d, name, elems, written, most)
				}
			}
		}
	}
}

// TestRoom: room is the peak of two models and one update per lane, and does not overflow.
func TestRoom(t *testing.T) {
	const slack = 1 << 20
	small, large := drivertest.Vectors(t, tensor.U8, 1), drivertest.Vectors(t, tensor.U8, 1<<30)
	huge := drivertest.Vectors(t, tensor.U8, 1<<61)
	for _, c := range []struct {
		name     string
		down, up *tensor.Layout
		lanes    int
		elems    string
		want     float64
	}{
		{"large model", large, small, 3, "off", 2 << 30},
		{"large update", small, large, 3, "off", 3 << 30},
		{"both", large, large, 3, "off", 5 << 30},
		{"elems", large, large, 3, "on", 10 << 30},
		{"overflow", huge, huge, 8, "on", 20 * math.Exp2(61)},
	} {
		o := driver.Options{Down: c.down, Up: c.up, Lanes: c.lanes, Settings: driver.Settings{"elems": c.elems}}
		if got := room(o); got < c.want || got > c.want*1.001+slack {
			t.Errorf("%s: room for %.0f bytes, want %.0f and a little", c.name, got, c.want)
		}
	}
}

// TestNamed: a worker writes only to files directly in a session's directory.
func TestNamed(t *testing.T) {
	for path, ok := range map[string]bool{
		"ipcbench-0123456789abcdef/client-0": true, "ipcbench-0123456789abcdef/x/client-0": false, "ipcbench-0123456789abcdef/": false,
		"ipcbench-0123456789abcdef": false, "ipcbench-x/client-0": false, "/ipcbench-0123456789abcdef/client-0": false,
		"client-0": false, "../thesis": false, "": false, "ipcbench-0123456789abcdef/../thesis": false,
	} {
		err := named(path)
		check.That(t, (err == nil) == ok, "%q: got error %v", path, err)
	}
}
