package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/test/check"
	"ipcbench/report/metrics"
)

// TestTunnels: cells are compared that differ in the setting tls alone, and the ratio is
// that of their rounds.
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
		"other build":   {func(c []result.Cell) { c[3].Build = "head" }, []string{"off on ", "mutual "}},
		"other clients": {func(c []result.Cell) { c[3].Clients = 2 }, []string{"off on ", "mutual "}},
		"no rounds":     {func(c []result.Cell) { c[1].Blocks = nil }, []string{"on mutual "}},
		"no TLS":        {func(c []result.Cell) { c[2].Blocks, c[3].Blocks = nil, nil }, nil},
	} {
		r := benchtest.Encrypted(map[string]float64{"http": 1.8})
		tt.edit(r.Cells)
		got := names(r)
		check.That(t, slices.Equal(got, tt.want), "%s: %q, want %q", name, got, tt.want)
	}
	tunnel := tunnelsOf(metrics.New(benchtest.Encrypted(map[string]float64{"http": 1.8})))[0]
	// The sixth of 36 ratios from either end.
	if i := tunnel.most().ratio("round"); math.Abs(i.Center-1.8) > 1e-3 || math.Abs(i.Low-1.8*0.99/1.01) > 1e-3 || math.Abs(i.High-1.8*1.01/0.99) > 1e-3 || !i.Sure() {
		t.Errorf("round: %+v", i)
	}
	if i := tunnel[1].ratio("wire_bytes"); math.Abs(i.Center-1.001) > 1e-6 {
		t.Errorf("wire: %+v", i)
	}
	if i := tunnel[0].ratio("round"); i.Known() {
		t.Errorf("without TLS: %+v", i)
	}
}

// TestHandshake: handshakes are in a column of their own, and in the cold round (three
// warm ones here).
func TestHandshake(t *testing.T) {
	tunnel := tunnelsOf(metrics.New(benchtest.Encrypted(map[string]float64{"http": 1.8})))[0]
	plain, on, mutual := tunnel[0].cell, tunnel[1].cell, tunnel[2].cell
	check.That(t, !plain.Of("handshake").Known(), "a handshake without TLS")
	fresh := benchtest.Encrypted(map[string]float64{"http": 1.8}) // whose rounds begin before their handshakes
	for i := range fresh.Cells {
		fresh.Cells[i].Respawn = true
	}
	if cold := tunnelsOf(metrics.New(fresh))[0][1].cell.Of("cold_round"); math.Abs(cold.Center-3*0.270) > 1e-6 {
		t.Errorf("with fresh workers for every round, the cold round takes %v", cold.Center)
	}
	for c, want := range map[*metrics.Cell][2]float64{plain: {0, 3 * 0.150}, on: {2e-3, 3*0.270 + 2e-3}, mutual: {2.5e-3, 3*0.270 + 2.5e-3}} {
		shake, cold := c.Of("handshake"), c.Of("cold_round")
		if math.Abs(cold.Center-want[1]) > 1e-6 || c != plain && math.Abs(shake.Center-want[0]) > 1e-6 {
			t.Errorf("%s: %v, cold round %v, want %v", c.TLS(), shake.Center, cold.Center, want)
		}
	}
}

var encrypted = map[string]float64{"grpc-stream": 1.4, "http": 1.8, "pickle": 1}

// TestTLSView: what a terminal of 80 columns shows of TLS, and the same for scripts and
// pull requests.
func TestTLSView(t *testing.T) {
	r := benchtest.Encrypted(encrypted)
	check.Must(t, r.Validate())
	shows(t, r, "tls.text", [][]string{nil, {"tls"}}, map[string][]string{
		"csv": {"metrics http:network=tcp:tls=mutual handshake s 0.0025", "metrics http:network=tcp:tls=mutual cold_round s 0.8125", "tls on http round_ratio 1 1.8", "tls on http cpu_ratio 1 1.8",
			"tls on http more_bytes 1 0.000"},
		"json":     {`"against":"http:network=tcp"`, `"round_ratio":{`, `"ciphers":[`},
		"benchfmt": {"/transport=http:network=tcp:tls=mutual/", " 0.0025 handshake-sec"},
		"md":       {"With mutual TLS, a round of http takes 1.80 (1.76 to 1.84) times as long", "| grpc-stream | mutual |"},
	})
}

// TestTLSSentences: what is said of TLS is as sure as the blocks are, and where nothing
// was measured without, what to run.
func TestTLSSentences(t *testing.T) {
	drop := func(r *result.Result, variant string) {
		for i := range r.Cells {
			if r.Cells[i].Variant == variant {
				r.Cells[i].Blocks = nil
			}
		}
	}
	blocks := func(r *result.Result, n int) {
		for i := range r.Cells {
			r.Cells[i].Blocks = r.Cells[i].Blocks[:n]
		}
	}
	const hint = "What TLS costs is seen beside the same without it: add --transport http:network=tcp:tls=off"
	for name, tt := range map[string]struct {
		times      float64
		edit       func(r *result.Result)
		view, line string // the screen's
	}{
		"slower":     {1.8, func(*result.Result) {}, "With mutual TLS, a round of http takes 1.80 (1.76 to 1.84) times as long and 1.80 (1.76 to 1.84) times the CPU time. Handshakes take 2.50 ms before the first round.", "With mutual TLS a round takes 1.80 (1.76 to 1.84) times as long over http:network=tcp."},
		"on alone":   {1.8, func(r *result.Result) { drop(r, "http:network=tcp:tls=mutual") }, "With TLS, a round of http takes 1.80 (1.76 to 1.84) times as long and 1.80 (1.76 to 1.84) times the CPU time. Handshakes take 2.00 ms before the first round.", "With TLS a round takes 1.80 (1.76 to 1.84) times as long over http:network=tcp."},
		"the same":   {1, func(*result.Result) {}, "With mutual TLS, no difference is shown in rounds of http: 1.00 (0.980 to 1.02) times as long and 1.00 (0.980 to 1.02) times the CPU time. Handshakes take 2.50 ms before the first round.", "With mutual TLS a round takes 1.00 (0.980 to 1.02) times as long over http:network=tcp (no difference shown)."},
		"one block":  {1.8, func(r *result.Result) { blocks(r, 1) }, "With mutual TLS, a round of http seems to take 1.80 times as long and 1.80 times the CPU time, but 1 block cannot prove it (run with --blocks 6). Handshakes take 2.45 ms before the first round.", "With mutual TLS a round takes 1.80 times as long over http:network=tcp (not proved)."},
		"two blocks": {1.8, func(r *result.Result) { blocks(r, 2) }, "With mutual TLS, a round of http seems to take 1.80 (1.78 to 1.82) times as long and 1.80 (1.78 to 1.82) times the CPU time, but 2 blocks cannot prove it (run with --blocks 6). Handshakes take 2.46 ms before the first round.", "With mutual TLS a round takes 1.80 (1.78 to 1.82) times as long over http:network=tcp (not proved)."},
		"no plain":   {1.8, func(r *result.Result) { drop(r, "http:network=tcp") }, hint + ".", hint + "."},
		"off loopback": {1.8, func(r *result.Result) {
			drop(r, "http:network=tcp")
			r.Environment.Listen = "off loopback"
		}, hint + " --listen 127.0.0.1.", hint + " --listen 127.0.0.1."},
		"two models": {1.8, func(r *result.Result) {
			for _, c := range r.Cells {
				c.Model = benchtest.Models["cnn"]
				r.Cells = append(r.Cells, c)
			}
		}, "cnn, 248 kB in 10 tensors, 1 worker, 1 client, over TCP:", "With mutual TLS a round takes 1.80 (1.76 to 1.84) times as long over http:network=tcp (histology, 66.6 MB in 20 tensors, 1 worker, 1 client)."},
		"over Unix sockets": {1.8, func(r *result.Result) {
			for i := range r.Cells {
				r.Cells[i].Variant = strings.Replace(r.Cells[i].Variant, ":network=tcp", "", 1)
				r.Cells[i].Settings = maps.Clone(r.Cells[i].Settings)
				delete(r.Cells[i].Settings, "network")
			}
		}, "histology, 66.6 MB in 20 tensors, 1 worker, 1 client, over Unix sockets", "With mutual TLS a round takes 1.80 (1.76 to 1.84) times as long over http."},
	} {
		t.Run(name, func(t *testing.T) {
			r := benchtest.Encrypted(map[string]float64{"http": tt.times})
			tt.edit(r)
			wantLines(t, shown(t, r, "tls"), tt.view)
			if screen := shown(t, r); tt.line != "" {
				wantLines(t, screen, tt.line)
			}
		})
	}
	text := shown(t, benchtest.Encrypted(nil), "tls")
	check.That(t, strings.Contains(text, "tls: this result has nothing to show."), "without TLS:\n%s", text)
	many := map[string]float64{}
	for i := range 9 {
		many[fmt.Sprintf("http%d", i)] = 1.8
	}
	if text := shown(t, benchtest.Encrypted(many)); !strings.Contains(text, "6 more transports: --view tls") {
		t.Errorf("with many transports:\n%s", text)
	}
	if text := shown(t, benchtest.Encrypted(many), "tls"); strings.Count(text, "times as long") != 1 || !strings.Contains(text, " over http8:network=tcp.") {
		t.Errorf("the view with many transports:\n%s", text)
	}
}
