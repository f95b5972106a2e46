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

// listens returns the address of --listen, with port 0 if it has none, or the zero address
// without the flag.
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
	ours, why := ourAddresses(), ""
	switch {
	case err != nil:
		why = "not an IP address"
	case at.Addr().IsUnspecified():
		why = "workers cannot connect to it"
	case at.Addr().Zone() != "":
		why = "the zone after % is not supported"
	case !at.Addr().IsLoopback() && !slices.Contains(ours, at.Addr().String()):
		why = "not an address of this machine"
	default:
		return at, nil
	}
	return at, hinted{usagef("--listen %s: %s: must be an address of this machine, with or without a port", f.listen, why), "its addresses are " + strings.Join(ours, ", ") + "; with a port, ADDR:PORT or [ADDR]:PORT"}
}

// tryListen returns an error if servers cannot listen at the address.
func (f *cellFlags) tryListen(at netip.AddrPort) error {
	l, err := net.Listen("tcp", at.String())
	if err == nil {
		return l.Close()
	}
	if errno := syscall.Errno(0); errors.As(err, &errno) { // drops the address, which the message has already
		err = errno
	}
	return hinted{usagef("--listen %s: %w", f.listen, err), "choose another port, or leave it out to use any free one"}
}

// ourAddresses returns the addresses at which other machines can reach this one, followed by
// 127.0.0.1.
func ourAddresses() (all []string) {
	addrs, _ := net.InterfaceAddrs() // an address that is missing here is rejected
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLinkLocalUnicast() && !p.Addr().IsLoopback() {
			all = append(all, p.Addr().String())
		}
	}
	return append(all, "127.0.0.1")
}

// secured are the default settings with --listen.
var secured = driver.Settings{"network": "tcp", "tls": "mutual"}

// with returns v with the given settings, except settings that v lacks or text, the text
// that v was parsed from, sets.
func with(v transports.Variant, text string, settings driver.Settings) transports.Variant {
	v.Settings = maps.Clone(v.Settings)
	for name, value := range settings {
		if _, has := v.Settings[name]; has && !strings.Contains(text, ":"+name+"=") {
			v.Settings[name] = value
		}
	}
	return v
}

// listening returns an error if variants cannot listen at the address of --listen, or only
// without mutual TLS and --insecure-network is missing.
func (f *cellFlags) listening(variants []transports.Variant) error {
	at, err := f.listens()
	if err != nil || f.listen == "" {
		return err
	}
	if err := f.tryListen(at); err != nil {
		return err
	}
	has := slices.ContainsFunc(variants, func(v transports.Variant) bool { return v.Settings["network"] != "" })
	if err := overTCP("--listen", "network=unix cannot be combined with --listen", f.transports, has); err != nil || at.Addr().IsLoopback() || f.insecure {
		return err
	}
	for _, v := range variants {
		if mode := v.Settings["tls"]; v.Settings["network"] != "" && mode != secured["tls"] {
			what := "others could read the data on the network"
			if mode == "on" {
				what = "workers could not prove their identity"
			}
			return hinted{usagef("--listen %s: with %s, %s", f.listen, v, what), fmt.Sprintf("remove tls=%s, because the default with --listen is %s; or allow it with --insecure-network", mode, secured["tls"])}
		}
	}
	return nil
}

// overTCP returns an error if flag, which needs TCP, cannot apply: a text of --transport has
// network=unix, or no variant uses a network, as has reports.
func overTCP(flag, unix string, texts []string, has bool) error {
	for _, text := range texts {
		if strings.Contains(text+":", ":network=unix:") {
			return hinted{usagef("--transport %s: %s", text, unix), fmt.Sprintf("remove network=unix, because the default with %s is tcp; or measure it without %[1]s", flag)}
		}
	}
	if !has {
		return hinted{usagef("%s: no transport of --transport %s uses a network", flag, strings.Join(texts, ",")), "ipcbench list transports shows which transports have the setting network"}
	}
	return nil
}
