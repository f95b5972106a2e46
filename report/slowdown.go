package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"ipcbench/bench"
	"ipcbench/bench/stat"
	"ipcbench/profile/capture"
)

// watched returns the blocks in which p was taken.
func (c *cell) watched(p *bench.Profile) []bench.Block {
	return slices.DeleteFunc(slices.Clone(c.Blocks[p.First:p.First+p.Blocks]), func(b bench.Block) bool {
		return !b.Profiled // a file that was edited may name others
	})
}

// slowdown is the round with the profile over that without.
func (c *cell) slowdown(p *bench.Profile) stat.Interval {
	return stat.Ratio(c.medianOf("round"), stat.Medians(c.samples(c.view.metric("round").samples, c.watched(p))))
}

func slowdownText(i stat.Interval) string {
	if i.Confidence == 0 { // of one block against another
		return none
	}
	return change(i)
}

// slowdowns says for each kind in how many cells it told at 95 %, how much at
// most, and how sure the bounds of all slowdowns are.
func slowdowns(v *view) string {
	var texts []string
	least := 1.0
	for _, k := range capture.Kinds() {
		cells, told := 0, 0
		worst := stat.None()
		for _, c := range v.cells {
			p := c.profiled(k.Name)
			if p == nil {
				continue
			}
			cells++
			i := c.slowdown(p)
			if i.Confidence > 0 {
				least = min(least, i.Confidence)
			}
			if i.Sure() && i.Excludes(1) && i.Center > 1 {
				told++
				if !worst.Known() || i.Center > worst.Center {
					worst = i
				}
			}
		}
		switch {
		case cells == 0:
		case told == 0:
			texts = append(texts, fmt.Sprintf("%s: none shown in %s", k.Name, plural(cells, "cell")))
		default:
			texts = append(texts, fmt.Sprintf("%s in %d of %s, by up to %s", k.Name, told, plural(cells, "cell"), change(worst)))
		}
	}
	text := strings.Join(texts, "; ")
	if least < 1 {
		text += "; bounds hold with at least " + share(least)
	}
	return text
}

// sampled returns which part of the CPU time that the kernel counted in the
// blocks of a CPU profile its samples hold.
func (c *cell) sampled(p *bench.Profile) string {
	var used time.Duration
	blocks := c.watched(p)
	for i := range blocks {
		for _, process := range processes(&blocks[i]) {
			used += process.Usage.CPU()
		}
	}
	if used <= 0 {
		return none
	}
	return share(float64(p.Summary.Total) / float64(used))
}
