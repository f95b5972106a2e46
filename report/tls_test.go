package report

import (
	"fmt"
	"strings"
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
				name += p.cell.TLS() + " "
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
	i := tunnel.most().ratio("round") // the bounds are the sixth of 36 ratios from either end
	check.That(t, nearly(i.Center, 1.8, 1e-3) && nearly(i.Low, 1.8*0.99/1.01, 1e-3) && nearly(i.High, 1.8*1.01/0.99, 1e-3) && i.Sure(), "round: %+v", i)
	check.That(t, nearly(tunnel[1].ratio("wire_bytes").Center, 1.001, 1e-6) && !tunnel[0].ratio("round").Known(), "wire: %+v", tunnel)
}

// TestHandshake: handshakes have a column, and are part of the cold round, which takes
// three warm ones here. With fresh workers they are not part of it, because rounds begin
// before them.
func TestHandshake(t *testing.T) {
	for _, respawn := range []bool{false, true} {
		r := everyCell(benchtest.Encrypted(map[string]float64{"http": 1.8}), func(c *result.Cell) { c.Respawn = respawn })
		for _, p := range tunnelsOf(metrics.New(r))[0] {
			shake := map[string]float64{"on": 2e-3, "mutual": 2.5e-3}[p.cell.TLS()]
			cold := map[string]float64{"off": 3 * 0.150, "on": 3 * 0.270, "mutual": 3 * 0.270}[p.cell.TLS()]
			if !respawn {
				cold += shake
			}
			check.That(t, nearly(p.cell.Of("cold_round").Center, cold, 1e-6), "%s: cold round %v, want %v", p.cell.TLS(), p.cell.Of("cold_round"), cold)
			got := p.cell.Of("handshake")
			check.That(t, got.Known() == (shake > 0) && (shake == 0 || nearly(got.Center, shake, 1e-6)), "%s: handshakes take %v, want %v", p.cell.TLS(), got, shake)
		}
	}
}

var encrypted = map[string]float64{"grpc-stream": 1.4, "http": 1.8, "pickle": 1}

// TestTLSView: the view of TLS fits a terminal of 80 columns, and the other formats have
// the same numbers.
func TestTLSView(t *testing.T) {
	r := benchtest.Encrypted(encrypted)
	shows(t, r, "tls.text", [][]string{nil, {"tls"}}, map[string][]string{
		"csv": {"metrics http:network=tcp:tls=mutual handshake s 0.0025", "metrics http:network=tcp:tls=mutual cold_round s 0.8125", "tls on http round_ratio 1 1.8", "tls on http cpu_ratio 1 1.8",
			"tls on http more_bytes 1 0.000"},
		"json":     {`"against":"http:network=tcp"`, `"round_ratio":{`, `"ciphers":[`},
		"benchfmt": {"/transport=http:network=tcp:tls=mutual/", " 0.0025 handshake-sec"},
		"md":       {"With mutual TLS a round takes 40 % longer (95 % interval 37 to 43 %) over grpc-stream:network=tcp, takes 1.80 times as long", "| grpc-stream | mutual |"},
	})
}

// TestTLSSentences: the wording depends on whether enough blocks show a difference. If
// nothing was measured without TLS, a hint has the flags to add.
func TestTLSSentences(t *testing.T) {
	blocks := func(r *result.Result, variant string, n int) {
		everyCell(r, func(c *result.Cell) {
			if strings.HasSuffix(c.Variant, variant) {
				c.Blocks = c.Blocks[:n]
			}
		})
	}
	const hint = "To see what TLS costs, also measure without it: add --transport http:network=tcp:tls=off"
	for name, tt := range map[string]struct {
		times float64
		edit  func(r *result.Result)
		line  string // of the first screen and of the view
	}{
		"slower":     {1.8, func(*result.Result) {}, "With mutual TLS a round takes 1.80 times as long (95 % interval 1.76 to 1.84) over http:network=tcp."},
		"on alone":   {1.8, func(r *result.Result) { blocks(r, ":tls=mutual", 0) }, "With TLS a round takes 1.80 times as long (95 % interval 1.76 to 1.84) over http:network=tcp."},
		"the same":   {1, func(*result.Result) {}, "With mutual TLS a round is from 2.0 % shorter to 2.0 % longer (no difference shown) over http:network=tcp."},
		"one block":  {1.8, func(r *result.Result) { blocks(r, "", 1) }, "With mutual TLS a round takes 1.80 times as long (too few blocks: use --blocks 6) over http:network=tcp."},
		"two blocks": {1.8, func(r *result.Result) { blocks(r, "", 2) }, "With mutual TLS a round takes 1.80 times as long (67 % interval 1.78 to 1.82) (too few blocks: use --blocks 6) over http:network=tcp."},
		"no plain":   {1.8, func(r *result.Result) { blocks(r, "=tcp", 0) }, hint + "."},
		"off loopback": {1.8, func(r *result.Result) {
			blocks(r, "=tcp", 0)
			r.Environment.Listen = "off loopback"
		}, hint + " --listen 127.0.0.1."},
		"two models": {1.8, func(r *result.Result) {
			for _, c := range r.Cells {
				c.Model = benchtest.Models["cnn"]
				r.Cells = append(r.Cells, c)
			}
		}, "With mutual TLS a round takes 1.80 times as long (95 % interval 1.76 to 1.84) over http:network=tcp (histology, 66.6 MB in 20 tensors, 1 worker, 1 client)."},
		"over Unix sockets": {1.8, func(r *result.Result) {
			everyCell(r, unix)
		}, "With mutual TLS a round takes 1.80 times as long (95 % interval 1.76 to 1.84) over http."},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchtest.Encrypted(map[string]float64{"http": tt.times})
			tt.edit(r)
			wantLines(t, shown(t, r, "tls"), tt.line)
			wantLines(t, shown(t, r), tt.line)
		})
	}
	wantLines(t, shown(t, benchtest.Encrypted(nil), "tls"), "tls: this result has nothing to show.")
	many := map[string]float64{}
	for i := range 9 {
		many[fmt.Sprintf("http%d", i)] = 1.8
	}
	holds(t, shown(t, benchtest.Encrypted(many)), "6 more transports: --view tls")
	view := shown(t, benchtest.Encrypted(many), "tls")
	check.That(t, strings.Count(view, "times as long") == 9 && strings.Contains(view, " over http8:network=tcp."), "with many transports:\n%s", view)
}
