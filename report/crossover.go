package report

import (
	"fmt"

	"ipcbench/report/analysis"
)

// mostCrossovers is how many pairs are written out, besides those of a transport
// and its fast path.
const mostCrossovers = 12

// where names the model of a meeting.
func where(m analysis.Meeting) string {
	model := m.A.Model
	return fmt.Sprintf("%s (%s in %s)", model.Label(), size(model.Bytes), plural(model.Tensors, "tensor"))
}

// crossovers says from which model on one transport beats another, for pairs of
// which neither is always ahead.
func crossovers(v *analysis.Result) section {
	s := section{title: "Crossover points"}
	written, left := 0, 0
	least := 1.0
	for _, x := range v.Crossovers() {
		if !x.FastPath && written >= mostCrossovers {
			left++
			continue
		}
		written++
		for _, m := range x.Meetings {
			least = min(least, m.Ratio.Confidence)
		}
		text := fmt.Sprintf("With %s and %s", plural(x.Workers, "worker"), plural(x.Clients, "client"))
		if x.Build != "" {
			text += ", " + x.Build
		}
		text += ": " + crossing(x)
		if x.FastPath {
			moving, sure := movingShare(x)
			text, least = text+moving, min(least, sure)
		}
		s.lead = append(s.lead, text)
	}
	if left > 0 {
		s.lead = append(s.lead, fmt.Sprintf("%s more cross: see the table of verdicts.", plural(left, "pair")))
	}
	if len(s.lead) == 0 {
		return section{}
	}
	s.tail = []string{"A crossing is given as the two measured sizes between which it lies. Intervals have at least " +
		share(least) + " confidence; faster means that that of the ratio excludes 1."}
	return s
}

// crossing says where A overtakes B.
func crossing(x analysis.Crossover) string {
	last := len(x.Meetings) - 1
	a, b := x.Meetings[0].A.Variant, x.Meetings[0].B.Variant
	ahead, behind, undecided := x.Ahead(1), x.Ahead(-1), x.Ahead(0)
	places := func(meetings []analysis.Meeting) string {
		var at []string
		for _, m := range meetings {
			at = append(at, times(m.Ratio)+" at "+where(m))
		}
		return list(at)
	}
	top, rest := places(x.Meetings[last:]), ""
	if len(undecided) > 0 {
		rest = "; not decided: " + places(undecided)
	}
	switch {
	case len(ahead) == 0:
		return fmt.Sprintf("%s and %s are too close to call at every size up to %s.", a, b, top)
	case len(behind) == 0 && len(undecided) == 0:
		return fmt.Sprintf("%s beats %s at every size measured, from %s to %s.", a, b, places(x.Meetings[:1]), top)
	case len(behind) == 0:
		return fmt.Sprintf("%s is faster than %s: %s%s.", a, b, places(ahead), rest)
	case !x.Ordered():
		return fmt.Sprintf("%s is faster: %s; %s is faster: %s; no size decides.", a, places(ahead), b, places(behind))
	}
	below := behind[len(behind)-1]
	text := fmt.Sprintf("%s overtakes %s between %s, where it is slower than %s (%s), and %s, where it is faster (%s)",
		a, b, where(below), b, times(below.Ratio), where(ahead[0]), times(ahead[0].Ratio))
	if len(ahead) > 1 {
		text += ", up to " + top
	}
	return text + rest + "."
}

// movingShare says which share of a round moving tensors takes without the fast
// path, at the smallest and the largest model, and how sure its bounds are.
func movingShare(x analysis.Crossover) (text string, sure float64) {
	sure = 1
	for k, m := range []analysis.Meeting{x.Meetings[0], x.Meetings[len(x.Meetings)-1]} {
		c := m.Plain()
		part := c.OverheadShare()
		if !part.Known() {
			return "", 1
		}
		if k == 0 {
			text = fmt.Sprintf(" Of a round of %s, moving tensors is %s at %s", c.Variant, share(part.Center), c.Model.Label())
		} else {
			text += fmt.Sprintf(" and %s at %s", share(part.Center), c.Model.Label())
		}
		if part.Confidence > 0 {
			text += fmt.Sprintf(" (%s to %s)", share(max(0, part.Low)), share(min(1, part.High)))
			sure = min(sure, part.Confidence)
		}
	}
	return text + ".", sure
}
