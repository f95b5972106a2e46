package bench_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/internal/agent"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// joinEnv is an environment variable with a join line. It makes the test binary an agent.
const joinEnv = "IPCBENCH_TEST_JOIN"

// maybeAgent makes this process agent h2 if joinEnv is set.
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

// TestClockOfAnotherHost: a worker in another time namespace reads another clock. Its cell has no downlink or uplink
// times, and the timeline shows the server only (guard 22).
func TestClockOfAnotherHost(t *testing.T) {
	skip.Long(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		skip.Missing(t, "unshare (Debian: util-linux)")
	}
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
	check.Must(t, err)
	defer func() {
		check.OK(t, fleet.Close(0))
		check.OK(t, cmd.Wait(), stderr.String())
	}()
	o := options(t, short(t, 0, 1), "pickle:network=tcp:tls=mutual cnn workers=2 clients=2")
	o.Fleet, o.Listen = fleet, loopback
	o.Profiling = bench.Profiling{Kinds: []string{"cpu"}, Dir: t.TempDir()}
	c := cellOf(t, run(t, o), o.Cells[0].Variant.String())
	timelines := 0
	for i, b := range c.Blocks {
		p := b.Processes
		check.That(t, len(p) == 2 && !p[0].OtherClock && p[1].OtherClock && p[1].Host == "h2",
			"block %d: %+v, want another clock on h2 alone", i, p)
		check.That(t, b.Down == nil && b.Up == nil && b.Unattributed+b.Phases["wait"]+b.Phases["receive"] == 0,
			"block %d: down %v, up %v, %d ns are not attributed, phases %v", i, b.Down, b.Up, b.Unattributed, b.Phases)
		for k, ns := range b.RTT {
			check.That(t, b.Train[k] > 0 && b.Train[k] < ns,
				"block %d: a training took %d of a round trip of %d", i, b.Train[k], ns)
		}
		check.That(t, b.Phases["train"] != 0 && b.Phases["collect"] != 0, "block %d: phases %v", i, b.Phases)
		if b.Timeline == nil {
			continue
		}
		timelines++
		check.That(t, slices.Equal(b.Timeline.Processes, []string{"server"}) && len(b.Timeline.Start) != 0,
			"a timeline of %v with %d spans", b.Timeline.Processes, len(b.Timeline.Start))
	}
	check.Equal(t, timelines, 1, "timelines")
}
