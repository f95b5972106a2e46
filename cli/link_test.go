package cli

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ipcbench/bench/result"
	"ipcbench/internal/link"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// onLink skips a test where there can be no link, and returns the program.
func onLink(t *testing.T) string {
	t.Helper()
	exe, err := exec.LookPath("ipcbench")
	check.Must(t, err)
	if err := link.Try(); err != nil {
		skip.Refused(t, "a link: %v", err)
	}
	return exe
}

// TestLink: a run with links is what a run without is, and its result says what
// network there was. What has no network is measured once.
func TestLink(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	exe, out := onLink(t), filepath.Join(t.TempDir(), "out.json")
	cmd := exec.CommandContext(waiting.Context(t), exe, "run", "--quick", "--blocks", "1", "--quiet", "--transport", "http,grpc-stream,http-shm,shm-slab",
		"--model", "uniform:256KiB/4", "--clients", "2", "--workers", "2", "--link", "50Mbit,unshaped", "--out", out)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r, err := result.ReadFile(out)
	check.Must(t, err)
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
	check.That(t, slices.Equal(ids, want), "got cells %q, want %q", ids, want)
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
	if l := r.Environment.Link; l == nil || l.MTU != link.MTU || l.Bursts["50Mbit"] == 0 || !strings.Contains(l.Namespaces, "network") {
		t.Errorf("the environment has the link %+v", l)
	}
}

// TestLinkAgainst: another build runs its blocks on the same link.
func TestLinkAgainst(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	exe, out := onLink(t), filepath.Join(t.TempDir(), "out.json")
	cmd := exec.CommandContext(waiting.Context(t), exe, "run", "--quick", "--blocks", "1", "--quiet", "--transport", "http", "--model", "uniform:64KiB/4",
		"--clients", "1", "--workers", "1", "--link", "50Mbit", "--out", out, "--against", exe)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	r, err := result.ReadFile(out)
	check.Must(t, err)
	for _, c := range r.Cells {
		if c.Link != (link.Rate{}) && (c.Blocks[0].Link == nil || c.Blocks[0].Link.Overlimits == 0) {
			t.Errorf("%s %s: the link has counted %+v", c.ID(), c.Build, c.Blocks[0].Link)
		}
	}
}

// saying reads what a program says until it has said what matches the pattern.
func saying(t *testing.T, from io.Reader, pattern string) {
	t.Helper()
	said, read, wanted := make([]byte, 1<<16), 0, regexp.MustCompile(pattern)
	for !wanted.Match(said[:read]) {
		n, err := from.Read(said[read:])
		read += n
		check.Need(t, err == nil, "it ended early: %v: %s", err, said[:read])
	}
}

// TestLinkInterrupted: Ctrl-C, which a terminal sends to both processes, and a signal
// to the outer one alone end a run on a link in order: its code is that of the signal,
// what was measured is kept, and nothing is left.
func TestLinkInterrupted(t *testing.T) {
	skip.Long(t)
	t.Parallel() // much of it is waiting
	exe := onLink(t)
	for _, all := range []bool{true, false} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out.json")
		cmd := exec.CommandContext(waiting.Context(t), exe, "run", "--transport", "http", "--model", "uniform:64KiB/4", "--clients", "1", "--workers", "1",
			"--time", "600s", "--precision", "0.000001", "--link", "50Mbit", "--out", out)
		cmd.Env = append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		interruptRun(t, cmd, "block [23] of", all, dir, out)
	}
}

// interruptRun starts a run, which has a process group of its own, and interrupts it when
// it has said what matches the pattern: all of its processes, or the first one alone. It
// has to end in order, keep what it has, and leave nothing in dir.
func interruptRun(t *testing.T, cmd *exec.Cmd, pattern string, all bool, dir, out string) {
	t.Helper()
	stderr, err := cmd.StderrPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	saying(t, stderr, pattern)
	pid := cmd.Process.Pid
	if all {
		pid = -pid
	}
	check.Must(t, syscall.Kill(pid, syscall.SIGINT))
	_ = cmd.Wait() // how it ended is looked at now
	got, want := cmd.ProcessState.ExitCode(), 128+int(syscall.SIGINT)
	check.That(t, got == want, "exit code %d (%v), want %d", got, cmd.ProcessState, want)
	check.Equal[error](t, syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH, "a process of its group lives")
	if r, err := result.ReadFile(out); err != nil || r.Partial == "" {
		t.Errorf("the result was not kept as partial: %v", err)
	}
	if left, err := scratch.Leftovers(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
