package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"ipcbench/agent"
	"ipcbench/bench"
	"ipcbench/internal/skip"
	"ipcbench/internal/waiting"
)

// joinEnv makes the test's own program an agent: its value is a join line.
const joinEnv = "IPCBENCH_TEST_JOIN"

// maybeAgent is that agent, named h2.
func maybeAgent() {
	text := os.Getenv(joinEnv)
	if text == "" {
		return
	}
	l, err := agent.ParseLine(text)
	if err == nil {
		_, err = agent.Join(context.Background(), l, agent.Options{Name: "h2", Wait: waiting.Limit})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestClockOfAnotherHost: of a host that has the server's clock nothing is translated.
// Of one whose clock is 100,000 s ahead, all is: ways down and up, and the timeline
// (guard 22).
func TestClockOfAnotherHost(t *testing.T) {
	skip.Long(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		skip.Missing(t, "unshare (Debian: util-linux)")
	}
	const ahead = 100_000e9
	shifted := []string{"--map-root-user", "--time", "--monotonic", "100000"}
	if out, err := exec.Command("unshare", append(shifted, "true")...).CombinedOutput(); err != nil {
		skip.Refused(t, "a time namespace: %v: %s", err, out)
	}
	var stderr strings.Builder
	cmd := exec.Command("unshare", append(shifted, os.Args[0])...)
	cmd.Stderr = &stderr
	fleet, err := agent.Gather(t.Context(), agent.Config{Listen: loopback, Agents: 2, Wait: waiting.Limit, Announce: func(l agent.Line) error {
		go func() { _, _ = agent.Join(context.Background(), l, agent.Options{Name: "h1", Wait: waiting.Limit}) }()
		cmd.Env = append(os.Environ(), joinEnv+"="+l.String())
		return cmd.Start()
	}})
	check(t, err)
	defer func() {
		if err := fleet.Close(0); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, stderr.String())
		}
	}()
	h := host()
	o := options(t, h, quick(t), spec(t, h, "pickle:network=tcp:tls=mutual", "cnn", 2, 2))
	o.Fleet, o.Listen, o.Plan.Blocks = fleet, loopback, 1
	o.Profiling = bench.Profiling{Kinds: []string{"cpu"}, Dir: t.TempDir()}
	r, err := bench.RunWithFloors(t.Context(), o)
	check(t, err)
	check(t, r.Validate())
	c := cellOf(t, r, o.Cells[0].Variant.String())
	timelines := 0
	for i, b := range c.Blocks {
		if len(b.Clocks) != 2 {
			t.Fatalf("block %d: clocks %+v", i, b.Clocks)
		}
		same, other := b.Clocks[0], b.Clocks[1]
		if want := (bench.Clock{Host: "h1", Same: true}); same != want {
			t.Errorf("block %d: clock %+v, want %+v", i, same, want)
		}
		if other.Host != "h2" || other.Same || max(other.Offset-ahead, ahead-other.Offset) > other.Width {
			t.Errorf("block %d: clock %+v, want one that is 100,000 s ahead", i, other)
		}
		for k := range b.RTT {
			if slack := other.Width; b.Down[k]+b.Up[k] > b.RTT[k]+2*slack || b.Up[k] < b.Train[k]-slack {
				t.Errorf("block %d: down %d, up %d and train %d of a round trip of %d", i, b.Down[k], b.Up[k], b.Train[k], b.RTT[k])
			}
		}
		if b.Timeline == nil {
			continue
		}
		timelines++
		for k, at := range b.Timeline.End {
			if last := b.Timeline.RoundEnd[len(b.Timeline.RoundEnd)-1]; at < 0 || at > last {
				t.Errorf("a span of process %d ends at %d of a timeline that ends at %d", b.Timeline.Process[k], at, last)
			}
		}
	}
	if timelines != 1 || len(c.Discarded) > 0 {
		t.Errorf("%d timelines, discarded %+v", timelines, c.Discarded)
	}
	b := c.Blocks[0]
	t.Logf("h2 is ahead by 100,000 s and %v ± %v", time.Duration(b.Clocks[1].Offset-ahead), time.Duration(b.Clocks[1].Width))
}
