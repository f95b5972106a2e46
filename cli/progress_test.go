package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"ipcbench/bench"
	"ipcbench/internal/test/check"
)

func at(done int, elapsed, left time.Duration) bench.Progress {
	return bench.Progress{What: "http histology", Done: done, Plan: 120, Elapsed: elapsed, Left: left}
}

// TestProgressLine: the progress line has the elapsed time, the number of the block and the
// current step. From the second cycle on, it also has the time left.
func TestProgressLine(t *testing.T) {
	p := newProgress(new(bytes.Buffer), false)
	more := at(60, 40*time.Second, 2*time.Minute)
	more.Plan, more.More = 70, true
	for _, tt := range []struct {
		state bench.Progress
		want  string
	}{
		{at(0, 3*time.Second, 0), "  3s · block 1 of 120 · http histology"},
		{at(44, 12*time.Second, 20*time.Second), " 12s · 20s left · block 45 of 120 · http histology"},
		{more, " 40s · at most 2m0s left · block 61 of 70 or more, for precision · http histology"},
	} {
		p.show(tt.state)
		check.Equal(t, p.line(), tt.want)
	}
	p.step("making the report")
	got := p.line()
	check.That(t, strings.HasSuffix(got, "s · making the report"), "got %q after the last block", got)
}

// TestProgressPlain: without a terminal, the first line is printed at once and later ones
// at most every five seconds. A note is printed when it is due.
func TestProgressPlain(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, false)
	for i := range 100 {
		p.show(at(i, time.Duration(i)*time.Second, time.Minute))
	}
	got := strings.Count(out.String(), "\n")
	check.That(t, got == 1 && strings.HasPrefix(out.String(), "  0s · "), "got %q, want one line at once", out.String())
	p.drawn = p.drawn.Add(-plainEvery)
	p.show(at(100, time.Minute, time.Second))
	check.Equal(t, strings.Count(out.String(), "\n"), 2, "lines")
	check.That(t, newProgress(&out, true) == nil, "a quiet run has progress")
}

// TestProgressWidth: the line that is drawn over is narrower than the terminal, even while
// the terminal is made smaller.
func TestProgressWidth(t *testing.T) {
	var out bytes.Buffer
	width := 0
	p := &progress{w: &out, width: func() int { return width }}
	s := at(44, 12*time.Second, 20*time.Second)
	s.What = "storage:dir=/tmp/模型 cnn"
	escapes := regexp.MustCompile("\r\x1b\\[K")
	for width = 100; width > 0; width-- {
		out.Reset()
		p.drawn = time.Time{}
		p.show(s)
		line := escapes.ReplaceAllString(out.String(), "")
		columns := len([]rune(line)) + strings.Count(line, "模") + strings.Count(line, "型")
		check.That(t, columns < width && (width < 80 || strings.HasSuffix(line, " cnn")) && (width >= 50 || columns >= width-2),
			"%d columns: %q has %d", width, line, columns)
	}
	out.Reset()
	p.clear()
	check.Equal(t, out.String(), "\r\x1b[K", "cleared by")
}

// TestGathering: without a terminal, a line is printed when an agent joins, and then at
// most every five seconds. On a terminal the line is drawn over. Names are those that
// agents send.
func TestGathering(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, false)
	p.gathering(nil, 3, time.Minute)
	p.gathering(nil, 3, 59*time.Second)
	p.gathering([]string{"h1"}, 3, 58*time.Second)
	p.gathering([]string{"h1"}, 3, 57*time.Second)
	p.drawn = p.drawn.Add(-plainEvery)
	p.gathering([]string{"h1", "h\x1b[2J"}, 3, 400*time.Millisecond)
	p.width = func() int { return 30 }
	p.gathering([]string{"h1"}, 3, 56*time.Second)
	want := `waiting for agents: 0 of 3, 1m0s left
waiting for agents: 1 of 3 (h1), 58s left
waiting for agents: 2 of 3 (h1, h\x1b[2J), 0s left
` + "\r\x1b[Kwaiting for agents: 1 of 3 (h"
	newProgress(&out, true).gathering(nil, 1, time.Second) // a quiet run shows nothing
	check.Equal(t, out.String(), want)
}
