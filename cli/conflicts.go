package cli

import (
	"maps"

	"github.com/spf13/pflag"

	"ipcbench/bench"
	"ipcbench/bench/result"
)

// What cells may be, besides the dimensions of their setups, by the same names as flags.
const (
	aPeer = "a peer"
	inGo  = "workers in Go"
)

// exclusive has what cannot be combined in one run, and why. A name is a flag, or what a cell is.
var exclusive = []struct{ a, b, why string }{
	{"quick", "thorough", "choose one of these modes"},
	{"listen", "link", "a link is a network of its own, with its own address"},
	{"listen", "against", "the other build has no such address: leave --listen out"},
	{"agents", "pin", "processors are pinned on this host only"},
	{"agents", "tls-ca", "agents get certificates from the run: leave --tls-ca out"},
	{"agents", "language", "agents start no Python: leave --language out"},
	{"agents", aPeer, "all of a peer is on this host"},
	{"against", "tls-ca", "the other build makes certificates of its own"},
	{"against", "language", "the other build starts workers in Go only"},
	{"against", aPeer, "a peer is not part of either build"},
	{"profile", "respawn", "ending a profile takes longer than ending a worker"},
	{"profile", "language", "profiles are taken of programs in Go"},
	{"profile", "against", "profile each build, and compare with ipcbench pprof -diff_base"},
	{"profile", aPeer, "nothing of a peer can be profiled"},
	{"canary", "language", "the copy is slowed down by a worker in Go"},
	{"canary", aPeer, "nothing of a peer can be slowed down"},
	{"train", inGo, "they cannot call your function: choose --language python"},
	{"train", "scenario", "the server would change the model, whatever was trained"},
	{"train", "train-ms", "a function of yours takes the time that it needs"},
	{"train", "change", "a function of yours changes what it changes"},
	{"train", "nested", "a function of yours gets tensors, and no Go values"},
	{"train", aPeer, "a peer has a function of its own"},
	{"respawn", aPeer, "a peer starts its workers once per block"},
	{"link", aPeer, "the traffic of a peer is not known"},
}

// dependent has flags that need another one, and why.
var dependent = []struct{ flag, with, why string }{
	{"agents", "listen", "agents join at an address of this host that they can reach: add --listen ADDR"},
	{"data-ports", "agents", "without agents, all workers are on this host"},
	{"join-timeout", "agents", "without agents, all workers are on this host"},
	{"place", "agents", "without agents, all workers are on this host"},
	{"insecure-network", "listen", "without --listen, servers listen on the loopback interface only: add --listen ADDR"},
	{"layouts", "against", "they are layouts of this build for a comparison with another one"},
}

// given returns the flags that ask for something, from wherever their values come.
func given(fs *pflag.FlagSet) map[string]bool {
	all := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) {
		text := f.Value.String()
		all[f.Name] = !unset(text) && text != "false" && (f.Changed || text != f.DefValue)
	})
	return all
}

// conflicts reports flags that exclude each other, or what the cells are, and flags that
// need another one.
func conflicts(given map[string]bool, cells []bench.Spec) error {
	for _, o := range dependent {
		if given[o.flag] && !given[o.with] {
			return usagef("--%s needs --%s: %s", o.flag, o.with, o.why)
		}
	}
	for _, c := range cells {
		has, peer := maps.Clone(given), false
		for _, d := range result.Dims {
			has[d.Key] = d.Of(c.Cell().Setup) != ""
		}
		_, peer = c.Variant.Transport.(*bench.Peer)
		has[aPeer], has[inGo] = peer, !peer && c.Language == ""
		for _, o := range exclusive {
			if has[o.a] && has[o.b] {
				return usagef("%s and %s cannot be combined: %s", calledIn(o.a, c), calledIn(o.b, c), o.why)
			}
		}
	}
	return nil
}

// calledIn returns what users know a name of the tables by: a flag, or one with its value.
func calledIn(name string, c bench.Spec) string {
	switch name {
	case aPeer:
		return "--transport " + c.Variant.Transport.Name()
	case inGo:
		return name
	case "language":
		return "--language " + c.Language
	case "scenario":
		return "--scenario " + c.Scenario
	}
	return "--" + name
}
