package cli

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
)

// Properties of cells that are not flags or dimensions, for exclusive.
const (
	aPeer = "a peer"
	inGo  = "workers in Go"
)

// shortLimit is a value of a flag, as in session.Features.
const shortLimit = "round-limit below 1s"

// An exclusion is a pair that cannot be combined in one run, with the reason. Each name is a flag, a
// dimension of cells, or one of the properties above.
type exclusion struct{ a, b, why string }

// exclusive lists all exclusions except what session.Features says of workers in Python.
var exclusive = []exclusion{
	{"quick", "thorough", "choose one of these modes"},
	{"rounds", "time", "choose one of these ends of a cell"},
	{"rounds", "precision", "all cells have the same number of rounds then"},
	{"spread", "precision", "each part of the time has one cycle then"},
	{"listen", "link", "a link is a network of its own, with its own address"},
	{"listen", "against", "the other build listens on no such address: remove --listen"},
	{"server-cpus", "pin", "choose one of these placements"},
	{"server-cpus", "agents", "processors can be given on this host only"},
	{"server-cpus", "against", "the other build gives its server all processors"},
	{"server-cpus", aPeer, "a peer places its own processes"},
	{"agents", "pin", "processors can be pinned on this host only"},
	{"agents", "tls-ca", "agents get certificates from the run: remove --tls-*"},
	{"agents", aPeer, "a peer runs entirely on this host"},
	{"against", "tls-ca", "the other build makes its own certificates"},
	{"against", aPeer, "a peer is not part of either build"},
	{"profile", "respawn", "ending a profile takes longer than ending a worker"},
	{"profile", "against", "profile each build, and compare with ipcbench pprof -diff_base"},
	{"profile", aPeer, "a peer cannot be profiled"},
	{"canary", aPeer, "a peer that is not the --baseline cannot be slowed down"},
	{"train", inGo, "they cannot call your function: choose --language python"},
	{"train", "scenario", "the server would change the model and ignore training"},
	{"train", "train-ms", "your function determines its own time"},
	{"train", "change", "your function determines the changes"},
	{"train", "nested", "your function gets tensors, not Go values"},
	{"train", aPeer, "a peer has its own training function"},
	{"respawn", aPeer, "a peer starts its workers once per block"},
	{"link", aPeer, "the addresses of a peer are not known"},
}

// dependent lists flags that need another flag, with the reason.
var dependent = []struct{ flag, with, why string }{
	{"agents", "listen", "agents join at an address of this host that they can reach: add --listen ADDR"},
	{"data-ports", "agents", "without agents, all workers are on this host"},
	{"join-timeout", "agents", "without agents, all workers are on this host"},
	{"place", "agents", "without agents, all workers are on this host"},
	{"insecure-network", "listen", "without --listen, servers listen on the loopback interface only: add --listen ADDR"},
	{"layouts", "against", "they are layouts of this build for a comparison with another one"},
}

// given returns the flags with a nonzero value that is given or differs from the default.
func given(fs *pflag.FlagSet) map[string]bool {
	all := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) {
		text := f.Value.String()
		all[f.Name] = !unset(text) && text != "false" && (f.Changed || text != f.DefValue)
	})
	limit, _ := fs.GetDuration("round-limit") // doctor has no such flag
	all[shortLimit] = limit > 0 && limit < time.Second
	return all
}

// conflicts returns an error if flags, or properties of a cell, exclude each other, or if a
// flag lacks the one that it needs.
func conflicts(given map[string]bool, cells []session.Spec) error {
	for _, o := range dependent {
		if given[o.flag] && !given[o.with] {
			return usagef("--%s needs --%s: %s", o.flag, o.with, o.why)
		}
	}
	pairs := slices.Clone(exclusive)
	for _, f := range session.Features() {
		if f.Bars() {
			pairs = append(pairs, exclusion{strings.TrimPrefix(f.Name, "--"), "language", f.Why})
		}
	}
	for _, c := range cells {
		has := maps.Clone(given)
		for _, d := range result.Dims {
			has[d.Key] = d.Of(c.Cell().Setup) != ""
		}
		has[aPeer], has[inGo] = isPeer(c), !inPython(c)
		has["canary"] = given["canary"] && !given["baseline"]
		for _, o := range pairs {
			if has[o.a] && has[o.b] {
				return usagef("%s and %s cannot be combined: %s", userName(o.a, c), userName(o.b, c), o.why)
			}
		}
	}
	return nil
}

// userName returns the name that users know: the flag, with its value in c if that matters.
func userName(name string, c session.Spec) string {
	names := map[string]string{
		aPeer: "--transport " + c.Variant.Subject.Name(), inGo: inGo,
		"language": "--language " + c.Language, "scenario": "--scenario " + c.Scenario,
	}
	return cmp.Or(names[name], "--"+name)
}
