package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"ipcbench/bench"
	"ipcbench/report/doc"
)

// progress shows the progress of a run: on a terminal one line that is redrawn, otherwise a
// line every few seconds. It has no goroutine and is called between rounds only, so it never
// draws during timed rounds.
type progress struct {
	w      io.Writer
	width  func() int // width of the terminal; nil if there is none
	state  bench.Progress
	at     time.Time // time of state
	drawn  time.Time
	until  time.Time // end of the pause that was last drawn
	joined int       // number of agents, as last shown
}

// Shortest time between drawings.
const liveEvery = 100 * time.Millisecond

var plainEvery = 5 * time.Second // shorter in tests that wait for a line

func newProgress(w io.Writer, quiet bool) *progress {
	if quiet {
		return nil
	}
	p := &progress{w: w}
	if m, ok := w.(messages); ok && isTerminal(m.File) && os.Getenv("TERM") != "dumb" {
		p.w, p.width = m.File, func() int { return cmp.Or(columns(m.File), 80) }
	}
	return p
}

func (p *progress) show(s bench.Progress) {
	now := time.Now()
	p.state, p.at = s, now
	every := plainEvery
	if p.width != nil {
		every = liveEvery
	}
	if now.Sub(p.drawn) >= every && (p.width != nil || s.Until.IsZero() || s.Until != p.until) { // a log has one line for each pause
		p.until = s.Until
		p.draw(now)
	}
}

// step shows a step after measuring.
func (p *progress) step(what string) {
	if p == nil {
		return
	}
	now := time.Now()
	p.state.What, p.state.Done, p.state.More = what, p.state.Plan, false
	p.state.Elapsed += now.Sub(p.at)
	p.state.Left, p.at = 0, now
	if p.width != nil {
		p.draw(now)
	}
}

// gathering shows which agents have joined, and the time left for the others.
func (p *progress) gathering(have []string, want int, left time.Duration) {
	if p == nil {
		return
	}
	line := fmt.Sprintf("waiting for agents: %d of %d", len(have), want)
	if len(have) > 0 {
		line += " (" + strings.Join(have, ", ") + ")"
	}
	line += fmt.Sprintf(", %v left", left.Round(time.Second))
	if now := time.Now(); p.width != nil || len(have) != p.joined || now.Sub(p.drawn) >= plainEvery {
		p.drawn, p.joined = now, len(have)
		p.put(doc.Visible(line))
	}
}

func (p *progress) draw(now time.Time) {
	p.drawn = now
	p.put(p.line())
}

// put prints a line, in place of the previous one on a terminal.
func (p *progress) put(line string) {
	if p.width == nil {
		fmt.Fprintln(p.w, line)
		return
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", twwidth.Truncate(line, p.width()-1)) // some terminals wrap after the last column
}

func (p *progress) line() string {
	s := p.state
	seconds := func(d time.Duration) string { return d.Round(time.Second).String() }
	parts := []string{fmt.Sprintf("%4s", seconds(s.Elapsed))}
	if s.Left > 0 {
		left := seconds(s.Left) + " left"
		if s.More {
			left = "at most " + left
		}
		parts = append(parts, left)
	}
	if s.Done < s.Plan {
		block := fmt.Sprintf("block %d of %d", s.Done+1, s.Plan)
		if s.More {
			block += " or more, for precision"
		}
		parts = append(parts, block)
	}
	if s.Standing != "" && p.width != nil {
		parts = append(parts, s.Standing)
	}
	return strings.Join(append(parts, doc.Lines(s.What)), " · ")
}

// clear removes the live line.
func (p *progress) clear() {
	if p != nil && p.width != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
