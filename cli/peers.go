package cli

import (
	"slices"
	"strings"
	"sync"

	"ipcbench/bench"
	"ipcbench/python"
	"ipcbench/report/doc"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// rows returns the reference rows.
func rows() (all []*bench.Peer) {
	for _, r := range python.Rows() {
		all = append(all, bench.NewRow(r))
	}
	return all
}

// ofUsers returns the peers that --peer asks for.
func (f *cellFlags) ofUsers(taken []driver.Transport) (all []driver.Transport, err error) {
	for _, text := range f.peers {
		name, command, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usagef("--peer %s: want NAME='COMMAND'", text)
		}
		p, err := bench.NewPeer(name, command)
		if err != nil {
			return nil, usagef("--peer %w", err)
		}
		if name == "all" || slices.ContainsFunc(slices.Concat(taken, all), func(t driver.Transport) bool { return t.Name() == name }) {
			return nil, usagef("--peer %s: the name is taken: choose another", name)
		}
		all = append(all, p)
	}
	return all, nil
}

// rivals returns the variants that the flags ask for: ours, reference rows, which are not
// part of all, and the peers of users, which need not be named.
func (a *app) rivals(f *cellFlags) ([]transports.Variant, error) {
	known := slices.Clone(a.host.Transports)
	for _, p := range a.rows {
		known = append(known, p)
	}
	peers, err := f.ofUsers(known)
	if err != nil {
		return nil, err
	}
	variants, err := a.variants(f.transports, f.settings(), append(known, peers...))
	if err != nil {
		return nil, err
	}
	for _, p := range peers {
		if slices.ContainsFunc(variants, func(v transports.Variant) bool { return v.Transport == p }) {
			continue
		}
		v, err := transports.NewVariant(p, nil)
		if err != nil {
			return nil, err
		}
		variants = append(variants, v)
	}
	return variants, nil
}

// listPeers says of each reference row whether it can run here, and what it lacks.
func (a *app) listPeers() error {
	lines := make([][]string, len(a.rows))
	var all sync.WaitGroup
	for i, p := range a.rows {
		all.Go(func() {
			found, err := p.Ready()
			here := "ready: " + found.Path + " " + found.Version
			if err != nil {
				here = err.Error()
			}
			lines[i] = []string{p.Name(), p.Help(), here}
		})
	}
	all.Wait()
	return a.list("Names for --transport, not part of all. With --peer, any program can be one.",
		[]doc.Column{{Name: "peer"}, {Name: "what it does", Wrap: true}, {Name: "here", Wrap: true}}, lines)
}
