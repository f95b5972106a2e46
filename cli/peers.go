package cli

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/report/doc"
	"ipcbench/transports"
	"ipcbench/transports/driver"
)

// userPeers returns the peers of --peer. taken are the transports whose names they must not use.
func (f *cellFlags) userPeers(taken []driver.Subject) (all []driver.Subject, err error) {
	for _, text := range f.peers {
		name, command, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usagef("--peer must be NAME='COMMAND', not %s", text)
		}
		p, err := program.NewPeer(name, command)
		if err != nil {
			return nil, usagef("--peer %w", err)
		}
		if name == "all" || slices.ContainsFunc(slices.Concat(taken, all), func(s driver.Subject) bool { return s.Name() == name }) {
			return nil, usagef("--peer %s: a transport has this name: choose another", name)
		}
		all = append(all, p)
	}
	return all, nil
}

func isPeer(c session.Spec) bool { return program.Of(c) != nil }

// comparesPeers checks --baseline: it is a peer, and there is another one to compare with it.
func comparesPeers(name string, cells []session.Spec) error {
	var found, others bool
	for _, c := range cells {
		switch {
		case !isPeer(c):
		case c.Variant.String() == name:
			found = true
		default:
			others = true
		}
	}
	switch {
	case name == "":
		return nil
	case !found:
		return hinted{usagef("--baseline %s: no --peer or row of --transport has this name", name), "--peer old='COMMAND' --peer new='COMMAND' --baseline old"}
	case !others:
		return hinted{usagef("--baseline %s: there is no other peer to compare with it", name), "add one: --peer new='COMMAND'"}
	}
	return nil
}

// chosenVariants returns the variants to measure: from --transport, and all peers of --peer. An
// entry with a leading minus excludes variants; if there are no other entries, it excludes
// them from all. Reference rows are not part of all.
func (a *app) chosenVariants(f *cellFlags) (variants []transports.Variant, err error) {
	known := slices.Concat(doc.Each(a.host.Transports, func(t driver.Transport) driver.Subject { return t }),
		doc.Each(a.rows, func(p *program.Program) driver.Subject { return p }))
	peers, err := f.userPeers(known)
	if err := cmp.Or(filled("--transport", f.transports), err); err != nil {
		return nil, err
	}
	known = append(known, peers...)
	settings := driver.Settings{} // defaults for settings that a text does not set
	if f.listen != "" {
		settings = secured
	}
	parse := func(text string) (transports.Variant, error) {
		v, err := transports.Parse(text, known)
		if err != nil {
			return v, hinted{usagef("--transport: %w", err), "ipcbench list transports"}
		}
		return with(v, text, settings), nil
	}
	add := func(text string) error {
		v, err := parse(text)
		if err == nil && !slices.ContainsFunc(variants, func(w transports.Variant) bool { return w.String() == v.String() }) {
			variants = append(variants, v)
		}
		return err
	}
	ours := doc.Each(a.host.Transports, driver.Transport.Name)
	var texts, without []string
	for _, text := range f.transports {
		rest, less := strings.CutPrefix(text, "-")
		switch {
		case less:
			without = append(without, rest)
		case text == "all":
			texts = append(texts, ours...)
		default:
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		texts = ours
	}
	for _, text := range texts {
		if err := add(text); err != nil {
			return nil, err
		}
	}
	for _, text := range without {
		v, err := parse(text)
		if err != nil {
			return nil, err
		}
		n := len(variants)
		variants = slices.DeleteFunc(variants, func(w transports.Variant) bool {
			return w.String() == v.String() || text == w.Subject.Name() // a bare name excludes all its settings
		})
		if len(variants) == n {
			return nil, usagef("cannot exclude %s: it is not in --transport", text)
		}
	}
	if len(variants) == 0 {
		return nil, usagef("--transport %s excludes every transport: keep at least one", strings.Join(f.transports, ","))
	}
	for _, p := range peers {
		if !slices.ContainsFunc(variants, func(v transports.Variant) bool { return v.Subject == p }) {
			if err := add(p.Name()); err != nil {
				return nil, err
			}
		}
	}
	return variants, f.listening(variants)
}

// peerRows describes each reference row, and whether it can run here or which modules are
// missing.
func (a *app) peerRows() [][]string {
	rows := make([][]string, len(a.rows))
	var all sync.WaitGroup
	for i, p := range a.rows {
		all.Go(func() {
			found, err := p.Ready()
			here := "ready: " + found.Path + " " + found.Version
			if err != nil {
				here = err.Error()
			}
			rows[i] = []string{p.Name(), p.Help(), here}
		})
	}
	all.Wait()
	return rows
}
