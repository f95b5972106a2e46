package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/transports"
)

type cell struct {
	session.Spec
	program *program.Program // runs its blocks; nil means this process
	canary  canaryKind
	copyOf  *cell // the original, if this is a canary
	chain   *session.Chain
	result  result.Cell
	spent   time.Duration // charged against its plan's time

	slowest time.Duration // duration of the slowest block that another program has run
}

// addCells adds cells that a build runs or, if it is nil, their peers and this process. Duplicates
// are an error.
func (r *run) addCells(specs []session.Spec, build *program.Program) error {
	type key struct {
		program *program.Program
		id      string
	}
	known := map[key]bool{}
	for _, c := range r.cells {
		known[key{c.program, c.result.ID()}] = true
	}
	for _, s := range specs {
		c := &cell{Spec: s, program: cmp.Or(build, program.Of(s)), chain: r.chainOf(s), result: s.Cell()}
		c.result.Launcher = r.here.Launcher(s).Name()
		c.result.Hosts, c.result.Place = r.here.Hosts.At(s)
		c.result.FileSystem = session.FileSystem(s.Variant)
		if c.program != nil {
			c.result.Program = c.program.Name()
		}
		if c.result.IsPeer() {
			c.result.Launcher = "peer"
		}
		k := key{c.program, c.result.ID()}
		if known[k] {
			return fmt.Errorf("duplicate cell %s", s)
		}
		known[k] = true
		r.cells = append(r.cells, c)
	}
	return nil
}

// chainOf returns the reference chain of s, shared with earlier cells that compute the
// same. It is nil for a user's worker function.
func (r *run) chainOf(s session.Spec) *session.Chain {
	if s.Train != "" {
		return nil
	}
	i := slices.IndexFunc(r.chains, func(ch *session.Chain) bool { return ch.Spec.Key() == s.Key() })
	if i < 0 {
		i = len(r.chains)
		r.chains = append(r.chains, session.NewChain(s, r.Plan))
	}
	return r.chains[i]
}

// withControls returns the cells, each preceded by its control unless that is present. A
// user's worker function has no control, because it does not run in this process.
func withControls(cells []session.Spec, inproc transports.Variant) []session.Spec {
	have := map[string]bool{}
	for _, s := range cells {
		have[s.String()] = true
	}
	var all []session.Spec
	for _, s := range cells {
		if k := s.Control(inproc); !have[k.String()] && s.Train == "" {
			have[k.String()] = true
			all = append(all, k)
		}
		all = append(all, s)
	}
	return all
}

func (c *cell) String() string {
	text := c.Spec.String()
	for _, more := range []string{c.result.Build(), string(c.canary)} {
		if more != "" {
			text += ", " + more
		}
	}
	return text
}

// rounds returns the durations of timed rounds in seconds, by block.
func (c *cell) rounds() (blocks [][]float64) {
	for _, b := range c.result.Blocks {
		blocks = append(blocks, session.Seconds(b.Round))
	}
	return blocks
}
