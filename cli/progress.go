package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"ipcbench/bench"
)

// progress shows how far a run is: one line that is drawn over on a terminal,
// plain lines now and then elsewhere. It is called between rounds only and
// starts nothing of its own, so that it never draws while something is timed.
type progress struct {
	w     io.Writer
	live  bool
	width int
	last  time.Time
	what  string
}

// How often it draws.
const (
	liveEvery  = 100 * time.Millisecond
	plainEvery = time.Second // and ten times that while nothing new has begun
)

func newProgress(w io.Writer, quiet bool) *progress {
	if quiet {
		return nil
	}
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.live = true
		p.width, _, _ = term.GetSize(int(f.Fd())) // 0 if unknown
	}
	return p
}

func (p *progress) show(s bench.Progress) {
	every := plainEvery
	if p.live {
		every = liveEvery
	}
	now := time.Now()
	if now.Sub(p.last) < every || !p.live && s.What == p.what && now.Sub(p.last) < 10*every {
		return
	}
	p.last, p.what = now, s.What
	line := fmt.Sprintf("%3.0fs  block %d of %d  %s", s.Elapsed.Seconds(), min(s.Done+1, s.Plan), s.Plan, s.What)
	if s.Round > 0 {
		line += fmt.Sprintf("  round %d", s.Round)
	}
	if !p.live {
		fmt.Fprintln(p.w, line)
		return
	}
	if p.width > 1 && len(line) >= p.width {
		line = line[:p.width-1]
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// end clears the live line.
func (p *progress) end() {
	if p != nil && p.live {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
