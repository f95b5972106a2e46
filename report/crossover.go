package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"ipcbench/bench/stat"
)

// fastPath is what the name of a transport has behind it if it goes around itself
// on the same host. That crossover is always told: whether the server is a
// bottleneck, and from which size on going around it pays.
const fastPath = "-shm"

// mostCrossovers is how many pairs besides those are told.
const mostCrossovers = 12

// A meeting is two transports at one model, with the same workers and clients.
type meeting struct {
	a, b  *cell
	ratio stat.Interval // round of b over that of a
}

// outcome is 1 where a is faster, -1 where b is, and 0 where there is no telling.
func (m meeting) outcome() int {
	switch {
	case !m.ratio.Excludes(1):
		return 0
	case m.ratio.Center > 1:
		return 1
	}
	return -1
}

// at names the model.
func (m meeting) at() string {
	return fmt.Sprintf("%s (%s in %s)", m.a.Model.Label(), size(m.a.Model.Bytes), plural(m.a.Model.Tensors, "tensor"))
}

// crossovers says from which model on one transport beats another, for pairs of
// which neither is always ahead.
func crossovers(v *view) section {
	s := section{title: "Crossover points"}
	type work struct {
		build            string
		workers, clients int
	}
	cells := slices.DeleteFunc(slices.Clone(v.cells), func(c *cell) bool { return c.Variant == control })
	told, untold := 0, 0
	least := 1.0
	for _, same := range grouped(cells, func(c *cell) work { return work{c.Build, c.Workers, c.Clients} }) {
		variants := grouped(same, func(c *cell) string { return c.Variant })
		for i, as := range variants {
			for _, bs := range variants[i+1:] {
				meetings := meet(as, bs)
				a, b := as[0].Variant, bs[0].Variant
				asked := a+fastPath == b || b+fastPath == a
				if len(meetings) < 2 || !asked && !crosses(meetings) {
					continue
				}
				if !asked && told >= mostCrossovers {
					untold++
					continue
				}
				told++
				for _, m := range meetings {
					least = min(least, m.ratio.Confidence)
				}
				where := fmt.Sprintf("With %s and %s", plural(same[0].Workers, "worker"), plural(same[0].Clients, "client"))
				if build := same[0].Build; build != "" {
					where += ", " + build
				}
				text := where + ": " + crossing(meetings)
				if asked {
					moving, sure := burden(meetings)
					text, least = text+moving, min(least, sure)
				}
				s.lead = append(s.lead, text)
			}
		}
	}
	if untold > 0 {
		s.lead = append(s.lead, fmt.Sprintf("%s more cross: see the table of verdicts.", plural(untold, "pair")))
	}
	if len(s.lead) == 0 {
		return section{}
	}
	s.tail = []string{"A crossing is given as the two measured sizes between which it lies. Intervals have at least " +
		share(least) + " confidence; faster means that that of the ratio excludes 1."}
	return s
}

// meet pairs cells of the same model, the smallest first.
func meet(as, bs []*cell) []meeting {
	var all []meeting
	for _, a := range as {
		for _, b := range bs {
			if a.Model == b.Model {
				all = append(all, meeting{a, b, stat.Ratio(a.medianOf("round"), b.medianOf("round"))})
			}
		}
	}
	slices.SortStableFunc(all, bySize)
	return all
}

func bySize(x, y meeting) int {
	return cmp.Or(cmp.Compare(x.a.Model.Payload(), y.a.Model.Payload()), cmp.Compare(x.a.Model.Tensors, y.a.Model.Tensors))
}

// those returns the meetings of an outcome.
func those(meetings []meeting, outcome int) []meeting {
	return slices.DeleteFunc(slices.Clone(meetings), func(m meeting) bool { return m.outcome() != outcome })
}

// crosses reports whether each of the two is ahead somewhere.
func crosses(meetings []meeting) bool {
	return len(those(meetings, 1)) > 0 && len(those(meetings, -1)) > 0
}

// crossing says where one of the two overtakes the other. The names are turned
// round so that a is ahead at the largest model, or else anywhere, if either is.
func crossing(meetings []meeting) string {
	last := len(meetings) - 1
	if meetings[last].outcome() < 0 || len(those(meetings, 1)) == 0 && len(those(meetings, -1)) > 0 {
		for i, m := range meetings {
			meetings[i] = meeting{m.b, m.a, stat.Ratio(m.b.medianOf("round"), m.a.medianOf("round"))}
		}
	}
	a, b := meetings[0].a.Variant, meetings[0].b.Variant
	ahead, behind, untold := those(meetings, 1), those(meetings, -1), those(meetings, 0)
	places := func(meetings []meeting) string {
		var at []string
		for _, m := range meetings {
			at = append(at, times(m.ratio)+" at "+m.at())
		}
		return list(at)
	}
	top, rest := places(meetings[last:]), ""
	if len(untold) > 0 {
		rest = "; not decided: " + places(untold)
	}
	switch {
	case len(ahead) == 0:
		return fmt.Sprintf("%s and %s are too close to call at every size up to %s.", a, b, top)
	case len(behind) == 0 && len(untold) == 0:
		return fmt.Sprintf("%s beats %s at every size measured, from %s to %s.", a, b, places(meetings[:1]), top)
	case len(behind) == 0:
		return fmt.Sprintf("%s is faster than %s: %s%s.", a, b, places(ahead), rest)
	case meetings[last].outcome() == 0 || !slices.IsSortedFunc(append(behind, ahead...), bySize):
		return fmt.Sprintf("%s is faster: %s; %s is faster: %s; no size decides.", a, places(ahead), b, places(behind))
	}
	below := behind[len(behind)-1]
	text := fmt.Sprintf("%s overtakes %s between %s, where it is slower than %s (%s), and %s, where it is faster (%s)",
		a, b, below.at(), b, times(below.ratio), ahead[0].at(), times(ahead[0].ratio))
	if len(ahead) > 1 {
		text += ", up to " + top
	}
	return text + rest + "."
}

// burden says which share of a round the slower of the asked pair adds, at the
// smallest and the largest model, and how sure its bounds are.
func burden(meetings []meeting) (text string, sure float64) {
	sure = 1
	for k, m := range []meeting{meetings[0], meetings[len(meetings)-1]} {
		c := m.a
		if strings.HasSuffix(c.Variant, fastPath) {
			c = m.b
		}
		o := c.of("overhead")
		if !o.Known() {
			return "", 1
		}
		part := quotient(o, c.of("round"))
		if k == 0 {
			text = fmt.Sprintf(" Of a round of %s, moving tensors is %s at %s", c.Variant, share(part.Center), m.a.Model.Label())
		} else {
			text += fmt.Sprintf(" and %s at %s", share(part.Center), m.a.Model.Label())
		}
		if part.Confidence > 0 {
			text += fmt.Sprintf(" (%s to %s)", share(max(0, part.Low)), share(min(1, part.High)))
			sure = min(sure, part.Confidence)
		}
	}
	return text + ".", sure
}
