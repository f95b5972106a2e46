package analysis

import (
	"math"
	"slices"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
)

// TestTunnels: cells are compared that differ in the setting tls alone, and the ratio is
// that of their rounds.
func TestTunnels(t *testing.T) {
	names := func(r *result.Result) (all []string) {
		for _, t := range New(r).Tunnels() {
			name := ""
			for _, c := range t.Cells() {
				name += c.TLS() + " "
			}
			all = append(all, name)
		}
		return all
	}
	for name, tt := range map[string]struct {
		edit func(cells []result.Cell) // control, off, on, mutual
		want []string
	}{
		"all":           {func([]result.Cell) {}, []string{"off on mutual "}},
		"other network": {func(c []result.Cell) { c[1].Settings["network"], c[1].Variant = "unix", "http" }, []string{"on mutual "}},
		"other codec":   {func(c []result.Cell) { c[2].Settings["codec"] = "xor"; c[2].Variant += ":codec=xor" }, []string{"off mutual ", "on "}},
		"other link":    {func(c []result.Cell) { c[3].Link = link.Unshaped }, []string{"off on ", "mutual "}},
		"other build":   {func(c []result.Cell) { c[3].Build = "head" }, []string{"off on ", "mutual "}},
		"other clients": {func(c []result.Cell) { c[3].Clients = 2 }, []string{"off on ", "mutual "}},
		"no rounds":     {func(c []result.Cell) { c[1].Blocks = nil }, []string{"on mutual "}},
		"no TLS":        {func(c []result.Cell) { c[2].Blocks, c[3].Blocks = nil, nil }, nil},
	} {
		r := benchtest.Encrypted(map[string]float64{"http": 1.8})
		tt.edit(r.Cells)
		if got := names(r); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	tunnel := New(benchtest.Encrypted(map[string]float64{"http": 1.8})).Tunnels()[0]
	// The sixth of 36 ratios from either end.
	if i := tunnel.Ratio("round", tunnel.Most()); math.Abs(i.Center-1.8) > 1e-3 || math.Abs(i.Low-1.8*0.99/1.01) > 1e-3 || math.Abs(i.High-1.8*1.01/0.99) > 1e-3 || !i.Sure() {
		t.Errorf("round: %+v", i)
	}
	if i := tunnel.Ratio("wire_bytes", tunnel.On); math.Abs(i.Center-1.001) > 1e-6 {
		t.Errorf("wire: %+v", i)
	}
	if i := tunnel.Ratio("round", tunnel.Plain); i.Known() {
		t.Errorf("without TLS: %+v", i)
	}
}

// TestHandshake: handshakes are in a column of their own, and in the cold round (three
// warm ones here).
func TestHandshake(t *testing.T) {
	tunnel := New(benchtest.Encrypted(map[string]float64{"http": 1.8})).Tunnels()[0]
	if tunnel.Plain.Of("handshake").Known() {
		t.Error("a handshake without TLS")
	}
	fresh := benchtest.Encrypted(map[string]float64{"http": 1.8}) // whose rounds begin before their handshakes
	for i := range fresh.Cells {
		fresh.Cells[i].Respawn = true
	}
	if cold := New(fresh).Tunnels()[0].On.Of("cold_round"); math.Abs(cold.Center-3*0.270) > 1e-6 {
		t.Errorf("with fresh workers for every round, the cold round takes %v", cold.Center)
	}
	for c, want := range map[*Cell][2]float64{tunnel.Plain: {0, 3 * 0.150}, tunnel.On: {2e-3, 3*0.270 + 2e-3}, tunnel.Mutual: {2.5e-3, 3*0.270 + 2.5e-3}} {
		shake, cold := c.Of("handshake"), c.Of("cold_round")
		if math.Abs(cold.Center-want[1]) > 1e-6 || c != tunnel.Plain && math.Abs(shake.Center-want[0]) > 1e-6 {
			t.Errorf("%s: %v, cold round %v, want %v", c.TLS(), shake.Center, cold.Center, want)
		}
	}
}
