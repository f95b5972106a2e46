package answer

import (
	"fmt"
	"strings"
	"time"

	"ipcbench/report/contrast"
	"ipcbench/report/doc"
	"ipcbench/report/metrics"
)

// repeated returns copies of claims with what a second run gave, where it can make the claim too.
func repeated(r, second *metrics.Result, claims, again []*claim) (both []*claim) {
	between := map[string]contrast.Again{} // by metric
	for i, c := range claims {
		c := *c
		if c.err == nil && again[i].err == nil {
			moves, ok := between[c.Metric.Name]
			if !ok {
				moves = contrast.Between(r, second, c.Metric.Name)
				between[c.Metric.Name] = moves
			}
			c.again, c.later, c.between = again[i], second.Started.Sub(r.Started), moves
		}
		both = append(both, &c)
	}
	return both
}

// secondly says what the second run gave, in the words of predicate if the claim compares two cells, and the range for
// another run. It is empty without a second run.
func (c *claim) secondly(predicate func(second contrast.Judged) string) string {
	if c.again == nil {
		return ""
	}
	value, moves := c.again.amount(c.again.Cell, ""), c.between.Alone
	if predicate != nil {
		value, moves = "it "+predicate(c.again.Judged), c.between.Ratios
	}
	text := ". Measured again " + strings.TrimSpace(after(c.later)+" "+c.between.Elsewhere) + ": " + value
	if _, even := c.value(c.Cell); len(moves) > 0 && c.whole == nil && c.between.Elsewhere == "" && !even {
		text += fmt.Sprintf("; another run on this machine is within %s of either in 19 of 20, by %s measured twice",
			contrast.Another(moves), doc.Plural(len(c.between.Cells), "cell"))
	}
	return text
}

// after writes the time from one run to another.
func after(d time.Duration) string {
	direction := " later"
	if d < 0 {
		d, direction = -d, " earlier"
	}
	switch hours := int(d.Hours() + 0.5); {
	case hours >= 48:
		return doc.Plural((hours+12)/24, "day") + direction
	case hours >= 1:
		return doc.Plural(hours, "hour") + direction
	}
	return doc.Plural(int(d.Minutes()), "minute") + direction
}
