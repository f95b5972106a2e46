package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/machine"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase/usage"
)

// onLink returns the command of a short run and the path of its result. It skips the test
// if links cannot be emulated here.
func onLink(t *testing.T, transports string, args ...string) (cmd *exec.Cmd, out string) {
	t.Helper()
	skip.Long(t)
	t.Parallel() // such runs mostly wait
	if err := link.Try(); err != nil {
		skip.Refused(t, "a link: %v", err)
	}
	cmd = command(t, slices.Concat([]string{"run", "--blocks", "1", "--transport", transports, "--out", "out.json"}, args)...)
	return cmd, filepath.Join(cmd.Dir, "out.json")
}

func measured(t *testing.T, cmd *exec.Cmd, out string) *result.Result {
	t.Helper()
	child.Start(t, cmd).Ends(waiting.Limit, 0, "")
	return check.Value(result.ReadFile(out))(t)
}

// TestLink: a run with links works like a run without, and its result names the links.
// Transports that use no network are measured once.
func TestLink(t *testing.T) {
	cmd, out := onLink(t, "http,grpc-stream,http-shm,shm-slab", "--quick", "--quiet", "--model", "uniform:256KiB/4",
		"--clients", "2", "--workers", "2", "--link", "50Mbit,unshaped")
	r := measured(t, cmd, out)
	var ids []string
	for _, c := range r.Cells {
		ids = append(ids, c.Transport+" "+c.Link.String())
		b := c.Blocks[0]
		wants := c.Link.String() == "50Mbit"
		check.That(t, wants == (b.Link != nil && b.Link.Overlimits > 0), "%s: the link has counted %+v", c.ID(), b.Link)
		check.That(t, c.Link == (link.Rate{}) || c.Settings["network"] == "tcp",
			"%s: its settings are %v, want network=tcp", c.ID(), c.Settings)
		// 2 clients × 256 KiB each way at 50 Mbit/s
		if least := 2 * 256 << 10 * 8 / 50e6 * 1e9; c.Link.String() == "50Mbit" && float64(slices.Min(b.Round)) < 0.8*least {
			t.Errorf("%s: a round took %v ns, and the link needs %.0f", c.ID(), slices.Min(b.Round), least)
		}
	}
	slices.Sort(ids)
	want := []string{"grpc-stream 50Mbit", "grpc-stream unshaped", "http 50Mbit", "http unshaped", "http-shm none", "inproc none", "shm-slab none"}
	check.Equal(t, ids, want, "cells")
	floors := map[string]bool{}
	for _, f := range r.Floors {
		if f.Link != (link.Rate{}) && f.Variant == "" {
			floors[f.Name+" "+f.Link.String()] = true
		}
		check.That(t, f.Name != "tcp-stream" || f.Bytes >= 250_000 && f.Bytes <= 300_000,
			"%s of %s: of %d bytes", f.Name, f.Link, f.Bytes)
	}
	for _, want := range []string{"tcp-stream 50Mbit", "tcp-stream unshaped", "tcp-pingpong 50Mbit", "tcp-pingpong unshaped"} {
		check.That(t, floors[want], "no floor %s among %v", want, floors)
	}
	if l := r.Environment.Link; l == nil || l.MTU != link.MTU || l.Congestion != "cubic" || l.Bursts["50Mbit"] == 0 || !strings.Contains(l.Namespaces, "network") {
		t.Errorf("the environment has the link %+v", l)
	}
}

// TestLinkAgainst: another build runs its blocks on the same link.
func TestLinkAgainst(t *testing.T) {
	cmd, out := onLink(t, "http", "--quick", "--quiet", "--model", "uniform:64KiB/4", "--clients", "1", "--workers", "1", "--link", "50Mbit")
	cmd.Args = append(cmd.Args, "--against", cmd.Path)
	r := measured(t, cmd, out)
	for _, c := range r.Cells {
		check.That(t, c.Link == (link.Rate{}) || c.Blocks[0].Link != nil && c.Blocks[0].Link.Overlimits > 0,
			"%s %s: the link has counted %+v", c.ID(), c.Program, c.Blocks[0].Link)
	}
}

// delayed starts a run with a link of 5 ms, and returns the process that makes the delay.
func delayed(t *testing.T, args ...string) (c *child.Child, mirror int, out string) {
	t.Helper()
	cmd, out := onLink(t, "http", append([]string{"--clients", "1", "--workers", "1", "--link", "100Mbit/5ms"}, args...)...)
	if err := link.Try(check.Value(link.Parse("100Mbit/5ms"))(t)); err != nil {
		skip.Refused(t, "a link with a delay: %v", err)
	}
	c = child.Start(t, cmd)
	c.Until("the link", func() bool {
		inner, _ := usage.ChildrenOf(c.Process.Pid)
		for _, pid := range inner {
			pids, _ := usage.ChildrenOf(pid) // errors as long as processes end
			at := slices.IndexFunc(pids, func(pid int) bool { return strings.Contains(proc.Read(pid, "cmdline"), "(link)") })
			if at >= 0 {
				mirror = pids[at]
			}
		}
		return mirror > 0
	})
	return c, mirror, out
}

// TestLinkSpread: the link of a run with --spread lasts while the run waits for its next cycle.
func TestLinkSpread(t *testing.T) {
	c, mirror, out := delayed(t, "--model", "uniform:64KiB/4", "--rounds", "4", "--blocks", "2", "--spread", "70s") // the floors of such a link take 20 s
	c.Says("the next cycle, 2 of 2, begins at")
	inner, _ := usage.ChildrenOf(c.Process.Pid)
	check.That(t, len(inner) == 1 && proc.Read(mirror, "cmdline") != "", "while waiting, the children are %v, and the mirror %d is gone", inner, mirror)
	c.Ends(waiting.Limit, 0, "")
	r := check.Value(result.ReadFile(out))(t)
	check.That(t, len(r.Pauses) == 1 && len(r.Cells) > 0, "%d pauses", len(r.Pauses))
	for _, cell := range r.Cells {
		check.That(t, len(cell.Blocks) == 2 && cell.Proved(), "%s: %d blocks", cell.ID(), len(cell.Blocks))
	}
}

// TestLinkBroken: a run ends as soon as a link's mirror is killed, also during a block that is on no
// link.
func TestLinkBroken(t *testing.T) {
	c, mirror, _ := delayed(t, "--model", "uniform:64KiB/4", "--rounds", "100000", "--train-ms", "5", "--order-seed", "5")
	c.Says("block 1 of 2 · inproc")
	check.Must(t, syscall.Kill(mirror, syscall.SIGKILL))
	c.Ends(10*time.Second, 1, `the link's mirror \(pid [0-9]+\) has ended: signal: killed`)
}

// TestLinkLate: a run on a link whose packets are late goes on, and its result has a warning.
func TestLinkLate(t *testing.T) {
	c, mirror, out := delayed(t, "--model", "uniform:1KiB/1", "--rounds", "1")
	for !strings.Contains(c.Stderr.String(), "block 1 of 2") {
		check.Must(t, syscall.Kill(mirror, syscall.SIGSTOP))
		waiting.Pause(10 * time.Millisecond)
		check.Must(t, syscall.Kill(mirror, syscall.SIGCONT))
		waiting.Pause(time.Millisecond)
	}
	c.Ends(waiting.Limit, 0, "")
	late := check.Value(result.ReadFile(out))(t).Doctor
	check.That(t, slices.ContainsFunc(late, func(c machine.Check) bool {
		return c.Name == "link" && strings.Contains(c.What, "100Mbit/5ms: a connect took")
	}), "got %+v", late)
}

// TestLinkInterrupted: a run on a link ends in order on Ctrl-C, which a terminal sends to
// both processes, and on a signal to the outer process alone. It exits with the signal's
// code, keeps the measured blocks and leaves nothing.
func TestLinkInterrupted(t *testing.T) {
	for name, all := range map[string]bool{"all": true, "the outer one": false} {
		t.Run(name, func(t *testing.T) {
			cmd, _ := onLink(t, "http", "--model", "uniform:64KiB/4", "--clients", "1", "--workers", "1",
				"--blocks", "100", "--time", "600s", "--precision", "0.000001", "--link", "50Mbit")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			interruptRun(t, cmd, "block [23] of", all)
		})
	}
}

// interruptRun starts a run in its own process group, and interrupts it when its output
// matches the pattern: all of its processes, or the first alone. The run must end in order,
// keep the measured blocks and leave nothing.
func interruptRun(t *testing.T, cmd *exec.Cmd, pattern string, all bool) {
	t.Helper()
	tmp := shortDir(t)
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	c := child.Start(t, cmd)
	c.Says(pattern)
	pid := c.Process.Pid
	if all {
		pid = -pid
	}
	check.Must(t, syscall.Kill(pid, syscall.SIGINT))
	c.Ends(waiting.Limit, 128+int(syscall.SIGINT), "")
	check.Equal[error](t, syscall.Kill(-c.Process.Pid, 0), syscall.ESRCH, "a process of its group lives")
	r, err := result.ReadFile(filepath.Join(cmd.Dir, "out.json"))
	check.That(t, err == nil && r.Partial != "", "the result was not kept as partial: %v", err)
	left, err := os.ReadDir(tmp)
	check.That(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}
