package report

import (
	"fmt"
	"strings"
	"testing"

	"ipcbench/bench/benchtest"
	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/report/doc/doctest"
)

var encrypted = map[string]float64{"grpc-stream": 1.4, "http": 1.8, "pickle": 1}

// TestTLSView: the first screen of TLS fits a terminal of 80 columns, and the other formats have
// the same numbers.
func TestTLSView(t *testing.T) {
	r := benchtest.Encrypted(encrypted)
	doctest.Golden(t, "tls.text", terminal(t, r, 80))
	shows(t, r, map[string][]string{
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
