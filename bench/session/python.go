package session

import (
	"slices"
	"strings"

	"ipcbench/bench/result"
	"ipcbench/python"
	"ipcbench/tensor"
)

// InPython is the language of workers in Python, as opposed to Go.
const InPython = result.InPython

// HasPython reports whether any cell has workers in Python.
func HasPython(cells []Spec) bool {
	return slices.ContainsFunc(cells, func(s Spec) bool { return s.Language == InPython })
}

// A Feature is something that a user can ask of workers.
type Feature struct {
	Name  string          // flags or settings with their values, separated by ", "
	Why   string          // why workers in Python do not support it, and often a remedy; empty if they do
	asked func(Spec) bool // whether a cell asks for it; nil if they support it, or only the flags of a run ask
}

// Bars reports whether workers in Python do not support f, which flags of a run ask for instead of cells.
func (f Feature) Bars() bool { return f.Why != "" && f.asked == nil }

// Features lists what workers in Python support and what they do not. Checks, ipcbench list transports
// and a table of docs/python.md derive from it.
func Features() []Feature {
	transports := strings.Join(python.Transports(), ", ")
	return []Feature{
		{"--transport " + transports, "", nil},
		{"--workers, --clients, --depth, --up, --values, --scenario, --link, --listen, --insecure-network, --pin, " +
			"--server-cpus, --respawn, --train, --train-ms, --pages", "", nil},
		{"other transports", "workers in Python support " + transports + ": for Python's pickle choose py-pickle5",
			func(s Spec) bool { return !slices.Contains(python.Transports(), s.Variant.Subject.Name()) }},
		{"tls=on, tls=mutual", "workers in Python do not support TLS: choose tls=off",
			func(s Spec) bool { return !slices.Contains([]string{"", "off"}, s.Variant.Settings["tls"]) }},
		{"--codec", "workers in Python support no codecs: leave --codec out", func(s Spec) bool {
			return s.Variant.Codec() != nil
		}},
		{"--change", "workers in Python change all elements: leave --change out", func(s Spec) bool {
			return s.Change != (tensor.Change{})
		}},
		{"--nested", "workers in Python have no Go values: leave --nested out", func(s Spec) bool { return s.Nested }},
		{"--lanes-per-process above 1", "a process in Python has one worker: --lanes-per-process must be 1",
			func(s Spec) bool { return s.PerProcess != 1 }},
		{"--round-limit below 1s", "workers in Python do not answer while they import modules", nil},
		{"--agents", "agents start workers in Go only: remove --language", nil},
		{"--against", "the other build starts workers in Go only", nil},
		{"--profile", "only programs in Go can be profiled", nil},
		{"--canary", "the copy is slowed down by a worker in Go", nil},
	}
}
