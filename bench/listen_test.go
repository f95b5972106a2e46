package bench_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/result"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// reachable returns an address of this machine that is not a loopback address.
func reachable(t *testing.T) netip.AddrPort {
	t.Helper()
	addrs := check.Value(net.InterfaceAddrs())(t)
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			return netip.AddrPortFrom(p.Addr(), 0)
		}
	}
	skip.Refused(t, "a machine without a network")
	return netip.AddrPort{}
}

// TestListen: servers listen at the run's address, floors are measured there, and the result records the kind of
// address but not the address. Each block records its handshakes; with respawn, these are of its first session.
func TestListen(t *testing.T) {
	skip.Long(t)
	loopback := netip.MustParseAddrPort("[::1]:0")
	if l, err := net.Listen("tcp", loopback.String()); err == nil {
		l.Close()
	} else { // this machine has no IPv6
		loopback = netip.MustParseAddrPort("127.0.0.1:0")
	}
	for _, tt := range []struct {
		at       netip.AddrPort
		insecure bool
		respawn  bool
		variant  string
		want     string
	}{
		{loopback, false, false, "pickle:network=tcp:tls=on", ""},
		{loopback, true, true, "pickle:network=tcp", ""},
		{reachable(t), false, true, "pickle:network=tcp:tls=mutual", machine.OffLoopback},
		{reachable(t), true, false, "pickle:network=tcp", machine.Insecure},
	} {
		o := options(t, short(t, 2, 2), tt.variant+" uniform:4KiB/2 workers=3 clients=3 lanes-per-process=2")
		o.Cells[0].Respawn, o.Listen, o.Insecure = tt.respawn, tt.at, tt.insecure
		r := run(t, o, "tcp-stream")
		check.Equal(t, r.Environment.Listen, tt.want, tt.variant, "at", tt.at, "the result says")
		check.That(t, slices.ContainsFunc(r.Floors, func(f result.Floor) bool { return f.Name == "tcp-stream" }),
			"%s: no floor of TCP", tt.variant)
		encrypted := cellOf(t, r, tt.variant).Settings["tls"] != "off"
		for _, b := range cellOf(t, r, tt.variant).Blocks {
			check.That(t, (b.TLS != nil) == encrypted && (b.TLS == nil || b.TLS.Handshakes == 3 && b.TLS.Time > 0),
				"%s, respawn %v: handshakes %+v", tt.variant, tt.respawn, b.TLS)
		}
	}
	for _, variant := range []string{"pickle:network=tcp", "pickle:network=tcp:tls=on"} {
		o := options(t, short(t, 0, 1), variant+" uniform:4KiB/2")
		o.Listen = reachable(t)
		_, err := bench.Run(t.Context(), o)
		check.That(t, err != nil, "%s listens off the loopback interface", variant)
	}
}
