package report

import (
	"fmt"

	"ipcbench/report/analysis"
	"ipcbench/report/doc"
)

// mostCrossovers is how many pairs are written out, besides those of a transport
// and its fast path.
const mostCrossovers = 12

// where names the model of a meeting.
func where(m analysis.Meeting) string {
	model := m.A.Model
	return fmt.Sprintf("%s (%s in %s)", model.Label(), size(model.Bytes), doc.Plural(model.Tensors, "tensor"))
}

// crossovers says from which model on one transport beats another, for pairs of
// which neither is always ahead.
func crossovers(r *analysis.Result) doc.Section {
	s := doc.Section{Title: "Crossover points"}
	written, left := 0, 0
	least := 1.0
	for _, x := range r.Crossovers() {
		if !x.FastPath && written >= mostCrossovers {
			left++
			continue
		}
		written++
		for _, m := range x.Meetings {
			least = min(least, m.Ratio.Confidence)
		}
		text := "With " + doc.Plural(x.Workers, "worker") + " and " + doc.Plural(x.Clients, "client")
		if x.Build != "" {
			text += ", " + x.Build
		}
		text += ": " + crossing(x)
		if x.FastPath {
			moving, sure := movingShare(x)
			text, least = text+moving, min(least, sure)
		}
		s.Lead = append(s.Lead, doc.Say(text)...)
	}
	if left > 0 {
		s.Lead = append(s.Lead, doc.Say(doc.Plural(left, "more pair")+" cross: the view verdict shows them.")...)
	}
	if len(s.Lead) > 0 {
		s.Tail = doc.Say("A crossing lies between the two measured sizes that are named. Faster means that the interval of the ratio, with at least " +
			doc.Percent(least) + " confidence, excludes 1.")
	}
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
			at = append(at, doc.Times(m.Ratio)+" at "+where(m))
		}
		return doc.List(at)
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
		a, b, where(below), b, doc.Times(below.Ratio), where(ahead[0]), doc.Times(ahead[0].Ratio))
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
			text = fmt.Sprintf(" Of a round of %s, moving tensors is %s at %s", c.Variant, doc.Percent(part.Center), c.Model.Label())
		} else {
			text += fmt.Sprintf(" and %s at %s", doc.Percent(part.Center), c.Model.Label())
		}
		if part.Confidence > 0 {
			text += fmt.Sprintf(" (%s to %s)", doc.Percent(max(0, part.Low)), doc.Percent(min(1, part.High)))
			sure = min(sure, part.Confidence)
		}
	}
	return text + ".", sure
}
