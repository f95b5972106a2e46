package table

import (
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// TestTunnels: cells that differ only in the setting tls are compared, by the ratio of
// their rounds.
func TestTunnels(t *testing.T) {
	names := func(r *result.Result) (all []string) {
		for _, t := range tunnelsOf(metrics.New(r)) {
			name := ""
			for _, p := range t {
				name += p.Cell.TLS() + " "
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
		"other build":   {func(c []result.Cell) { c[3].Program = "head" }, []string{"off on ", "mutual "}},
		"other clients": {func(c []result.Cell) { c[3].Clients = 2 }, []string{"off on ", "mutual "}},
		"no rounds":     {func(c []result.Cell) { c[1].Blocks = nil }, []string{"on mutual "}},
		"no TLS":        {func(c []result.Cell) { c[2].Blocks, c[3].Blocks = nil, nil }, nil},
	} {
		r := benchtest.Encrypted(map[string]float64{"http": 1.8})
		tt.edit(r.Cells)
		check.Equal(t, names(r), tt.want, name)
	}
	tunnel := tunnelsOf(metrics.New(benchtest.Encrypted(map[string]float64{"http": 1.8})))[0]
	i := tunnel.most().Ratio("round") // the bounds are the sixth of 36 ratios from either end
	check.That(t, check.Nearly(i.Center, 1.8, 1e-3) && check.Nearly(i.Low, 1.8*0.99/1.01, 1e-3) && check.Nearly(i.High, 1.8*1.01/0.99, 1e-3) && i.Sure(), "round: %+v", i)
	check.That(t, check.Nearly(tunnel[1].Ratio("wire_bytes").Center, 1.001, 1e-6) && !tunnel[0].Ratio("round").Known(), "wire: %+v", tunnel)
}

// TestHandshake: handshakes have a column, and are part of the cold round, which takes
// three warm ones here. With fresh workers they are not part of it, because rounds begin
// before them.
func TestHandshake(t *testing.T) {
	for _, respawn := range []bool{false, true} {
		r := benchtest.Encrypted(map[string]float64{"http": 1.8})
		for i := range r.Cells {
			r.Cells[i].Respawn = respawn
		}
		for _, p := range tunnelsOf(metrics.New(r))[0] {
			shake := map[string]float64{"on": 2e-3, "mutual": 2.5e-3}[p.Cell.TLS()]
			cold := map[string]float64{"off": 3 * 0.150, "on": 3 * 0.270, "mutual": 3 * 0.270}[p.Cell.TLS()]
			if !respawn {
				cold += shake
			}
			check.That(t, check.Nearly(p.Cell.Of("cold_round").Center, cold, 1e-6), "%s: cold round %v, want %v", p.Cell.TLS(), p.Cell.Of("cold_round"), cold)
			got := p.Cell.Of("handshake")
			check.That(t, got.Known() == (shake > 0) && (shake == 0 || check.Nearly(got.Center, shake, 1e-6)), "%s: handshakes take %v, want %v", p.Cell.TLS(), got, shake)
		}
	}
}
