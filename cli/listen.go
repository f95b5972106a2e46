package cli

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"

	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// listens returns where --listen has servers listen; the zero address if it is not
// there.
func (f *cellFlags) listens() (at netip.AddrPort, err error) {
	if f.listen == "" {
		return at, nil
	}
	at, err = netip.ParseAddrPort(f.listen)
	if err != nil {
		var ip netip.Addr
		ip, err = netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(f.listen, "["), "]"))
		at = netip.AddrPortFrom(ip, 0)
	}
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	ours := ourAddresses()
	for _, of := range []struct {
		wrong bool
		why   string
	}{
		{err != nil, "want an IP address of this machine, with or without a port"},
		{at.Addr().IsUnspecified(), "workers could not dial it: want one address of this machine"},
		{at.Addr().Zone() != "", "an address of one interface alone: want one without %"},
		{!at.Addr().IsLoopback() && !slices.Contains(ours, at.Addr().String()), "no address of this machine"},
	} {
		if of.wrong {
			return at, hinted{usagef("--listen %s: %s", f.listen, of.why), "addresses are " + strings.Join(ours, ", ") + "; ADDR:PORT, or [ADDR]:PORT of IPv6, names a port, too"}
		}
	}
	return at, nil
}

// tryListen reports why servers could not listen at the address.
func (f *cellFlags) tryListen(at netip.AddrPort) error {
	l, err := net.Listen("tcp", at.String())
	if err == nil {
		return l.Close()
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) { // without the address, which stands there
		err = errno
	}
	return hinted{usagef("--listen %s: %w", f.listen, err), "choose another port, or leave it out: any free one is taken then"}
}

// ourAddresses returns those of this machine at which others reach it, and the usual
// one at which they do not.
func ourAddresses() (all []string) {
	addrs, _ := net.InterfaceAddrs() // an address that is not found is refused
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() && !p.Addr().IsLoopback() {
			all = append(all, p.Addr().String())
		}
	}
	return append(all, "127.0.0.1")
}

// secured are the settings of servers that may listen off the loopback interface.
var secured = driver.Settings{"network": "tcp", "tls": "mutual"}

// with returns v, which was made of text, with those of the settings that it has and
// that text does not name.
func with(v transports.Variant, text string, settings driver.Settings) transports.Variant {
	v.Settings = maps.Clone(v.Settings)
	for name, value := range settings {
		if _, has := v.Settings[name]; has && !strings.Contains(text, ":"+name+"=") {
			v.Settings[name] = value
		}
	}
	return v
}

// listening reports why the variants cannot listen where --listen says.
func (f *cellFlags) listening(variants []transports.Variant) error {
	at, err := f.listens()
	if err != nil || f.listen == "" {
		return err
	}
	if err := f.tryListen(at); err != nil {
		return err
	}
	has := slices.ContainsFunc(variants, func(v transports.Variant) bool { return v.Settings["network"] != "" })
	if err := overTCP("--listen", "a Unix socket has no address", f.transports, has); err != nil || at.Addr().IsLoopback() || f.insecure {
		return err
	}
	for _, v := range variants {
		if mode := v.Settings["tls"]; v.Settings["network"] != "" && mode != secured["tls"] {
			what := "strangers could read what goes over the network"
			if mode == "on" {
				what = "workers could not prove who they are"
			}
			return hinted{usagef("--listen %s: with %s, %s", f.listen, v, what), fmt.Sprintf("leave tls=%s out: with --listen it is %s; or allow it with --insecure-network", mode, secured["tls"])}
		}
	}
	return nil
}

// overTCP reports why a flag that puts transports on TCP cannot: texts are those of
// --transport, and has says that one of them has a network.
func overTCP(flag, unix string, texts []string, has bool) error {
	for _, text := range texts {
		if strings.Contains(text+":", ":network=unix:") {
			return hinted{usagef("--transport %s: %s", text, unix), fmt.Sprintf("leave network=unix out: with %s it is tcp; or measure it without %[1]s", flag)}
		}
	}
	if !has {
		return hinted{usagef("%s: nothing of --transport %s goes over a network", flag, strings.Join(texts, ",")), "ipcbench list transports shows which have the setting network"}
	}
	return nil
}
