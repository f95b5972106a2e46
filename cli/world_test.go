package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ipcbench/bench/result"
	"ipcbench/internal/scratch"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// kills returns how many worlds each engine ends, each after another time.
func kills() int {
	if os.Getenv("IPCBENCH_TEST_SOAK") != "" {
		return 10
	}
	return 1
}

// An engine starts a world of three ranks in a folder.
type engine struct {
	name  string
	start []string // the engine's command, which precedes ipcbench
	line  string   // first line of output
	flags []string // flags of ipcbench world
	dir   string
	env   []string
	runs  *atomic.Int32 // number of runs so far
}

// openMPI returns mpirun on this host, without flags of ipcbench world.
func openMPI(t *testing.T) engine {
	t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		skip.Missing(t, "mpirun (Debian: openmpi-bin)")
	}
	host := check.Value(os.Hostname())(t)
	host, _, _ = strings.Cut(host, ".")
	dir := shortDir(t)
	return engine{
		name: "mpirun", start: []string{"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3"},
		line: fmt.Sprintf("3 ranks on 1 host: %s (server), %[1]s.1, %[1]s.2 (Open MPI)", host),
		dir:  dir, env: []string{"TMPDIR=" + dir}, runs: new(atomic.Int32),
	}
}

// run starts a run in the engine's world. It also returns the mark of its processes.
func (e engine) run(t *testing.T, args ...string) (c *child.Child, mark string) {
	t.Helper()
	mark = fmt.Sprintf("%s=%s.%d", idEnv, e.dir, e.runs.Add(1))
	cmd := command(t, slices.Concat([]string{"world"}, e.flags, []string{"run"}, args)...)
	start := check.Value(exec.LookPath(e.start[0]))(t)
	cmd.Args = slices.Concat(e.start, []string{cmd.Path}, cmd.Args[1:])
	cmd.Path, cmd.Dir, cmd.Env = start, e.dir, slices.Concat(cmd.Env, e.env, []string{mark})
	cmd.WaitDelay = soon // for processes that an engine leaves
	return child.Start(t, cmd), mark
}

// clear fails if processes or files of the world are left, or segments of the processes in
// were.
func (e engine) clear(t *testing.T, mark string, were map[int]string) {
	t.Helper()
	waiting.Until(t, "the end of all processes", func() bool { return len(alive(mark)) == 0 })
	var left []string
	for _, pattern := range []string{"ipcbench-*", "meet"} {
		found, _ := filepath.Glob(filepath.Join(e.dir, pattern))
		left = append(left, found...)
	}
	for pid := range were {
		left = append(left, sessions(scratch.SharedMemory, pid)...)
	}
	check.That(t, len(left) == 0, "left: %v", left)
}

// green checks a run from its first line to its exit code: rank 0 alone prints, and its
// workers ran on the agents' hosts.
func (e engine) green(t *testing.T) {
	c, mark := e.run(t, "--transport", "http", "--model", "cnn", "--rounds", "3", "--blocks", "1", "--out", "out.json", "-q")
	c.Ends(waiting.Limit, 0, "^"+regexp.QuoteMeta(e.line)+"\n")
	check.Equal(t, strings.Count(c.Stdout.String(), "CPU, s/GB"), 1, &c.Stdout, "answers")
	r := check.Value(result.ReadFile(filepath.Join(e.dir, "out.json")))(t)
	cell := r.Cells[len(r.Cells)-1]
	check.That(t, cell.Launcher == "agents" && len(r.Hosts) == 3 && cell.Workers == 2,
		"%d workers by %q on %v, want 2 on two agents and a server", cell.Workers, cell.Launcher, r.Hosts)
	e.clear(t, mark, nil)
}

// code checks that the engine ends with rank 0's exit code, and that one rank prints the
// reason.
func (e engine) code(t *testing.T) {
	for want, args := range map[int][]string{2: {"--transport", "nonesuch"}, 1: {"--transport", "http", "--join-timeout", "1ns"}} {
		c, mark := e.run(t, args...)
		c.Ends(waiting.Limit, want, "")
		n := strings.Count(c.Stderr.String(), `unknown transport "nonesuch"`)
		check.That(t, want != 2 || n == 1, "%d ranks say why, want 1:\n%s", n, &c.Stderr)
		e.clear(t, mark, nil)
	}
}

// killed calls stop to end worlds at random times. Some of them train for 5 s, longer than
// the second for which mpirun waits.
func (e engine) killed(t *testing.T, stop func(*exec.Cmd) error) {
	random := rand.New(rand.NewPCG(1, 0))
	for range kills() {
		c, mark := e.run(t, "--transport", "http,grpc-stream", "--model", "cnn", "--time", "60s", "--blocks", "500", "--train-ms", fmt.Sprint(random.IntN(2)*5000), "--out", "killed.json")
		after := time.Duration(random.Int64N(int64(3 * time.Second)))
		waiting.Pause(after)
		were := alive(mark)
		check.OK(t, stop(c.Cmd))
		waiting.Promise(t, "B25", soon, c.Wait)
		check.That(t, c.ProcessState.ExitCode() != 0 && !strings.Contains(c.Stderr.String(), "goroutine "),
			"killed after %v, it ended with %v\n%s", after, c.ProcessState, &c.Stderr)
		e.clear(t, mark, were)
	}
}

// TestMPIRun: worlds of mpirun with three ranks on this host work without flags of ipcbench
// world.
func TestMPIRun(t *testing.T) {
	skip.Long(t)
	t.Run("green", func(t *testing.T) { t.Parallel(); openMPI(t).green(t) })
	t.Run("code", func(t *testing.T) { t.Parallel(); openMPI(t).code(t) })
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		openMPI(t).killed(t, func(cmd *exec.Cmd) error { return cmd.Process.Signal(syscall.SIGTERM) })
	})
}

// TestSlurm: worlds of Slurm with three nodes on one machine work. The test starts its own
// daemons.
func TestSlurm(t *testing.T) {
	skip.Soak(t)
	e := slurm(t)
	e.green(t)
	e.code(t)
	e.killed(t, func(*exec.Cmd) error { // each step is a job
		cancel := exec.CommandContext(t.Context(), "scancel", "--user=root")
		cancel.Env = append(os.Environ(), e.env...)
		if said, err := cancel.CombinedOutput(); err != nil {
			return fmt.Errorf("scancel: %w: %s", err, said)
		}
		return nil
	})
	e.batch(t) // last, because it leaves a result
}

// batch runs the script of docs/hosts.md with sbatch.
func (e engine) batch(t *testing.T) {
	page := check.Value(os.ReadFile("../docs/hosts.md"))(t)
	script := regexp.MustCompile("(?s)```bash\n(#!/bin/bash\n#SBATCH.*?)```").FindSubmatch(page)
	check.Need(t, script != nil, "docs/hosts.md has no script for sbatch")
	exe := check.Value(exec.LookPath("ipcbench"))(t)
	cmd := exec.CommandContext(waiting.Context(t), "sbatch", "--wait", "--output=said")
	cmd.Dir, cmd.Stdin = e.dir, bytes.NewReader(script[1])
	cmd.Env = append(append(os.Environ(), e.env...), "HOME="+e.dir, "PATH="+filepath.Dir(exe)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	said, _ := os.ReadFile(filepath.Join(e.dir, "said")) // empty if the script has not begun
	first := regexp.MustCompile(`^3 ranks on 3 hosts: n1 \(server\), n2, n3 \(Slurm step [0-9]+\.0\)\n`)
	check.That(t, err == nil && first.Match(said), "%v: %s\n%s", err, out, said)
}

// slurm starts munged, slurmctld and three slurmd in a new folder, without systemd. They
// end with the test.
func slurm(t *testing.T) engine {
	t.Helper()
	for _, name := range []string{"munged", "slurmctld", "slurmd", "srun", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			skip.Missing(t, "%s (Debian: slurm-wlm munge)", name)
		}
	}
	if os.Geteuid() != 0 {
		skip.Refused(t, "daemons of Slurm: they need root")
	}
	host := check.Value(os.Hostname())(t)
	dir := shortDir(t)
	conf := fmt.Sprintf(`
ClusterName=test
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=17100
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool.%%n
SlurmctldPidFile=%[2]s/slurmctld.pid
SlurmdPidFile=%[2]s/slurmd.%%n.pid
NodeName=n[1-3] NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=[17101-17103] CPUs=4
PartitionName=all Nodes=ALL Default=YES State=UP
`, host, dir)
	for name, text := range map[string]string{"slurm.conf": conf, "key": strings.Repeat("a key that is no secret ", 4)} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	check.Must(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	env := []string{"TMPDIR=" + dir, "SLURM_CONF=" + filepath.Join(dir, "slurm.conf")}
	for _, args := range [][]string{
		{"munged", "--foreground", "--force", "--key-file=" + dir + "/key", "--socket=" + dir + "/munge", "--pid-file=" + dir + "/pid", "--log-file=" + dir + "/log", "--seed-file=" + dir + "/seed"},
		{"slurmctld", "-D"}, {"slurmd", "-D", "-N", "n1"}, {"slurmd", "-D", "-N", "n2"}, {"slurmd", "-D", "-N", "n3"},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env, cmd.SysProcAttr = append(os.Environ(), env...), &syscall.SysProcAttr{Setpgid: true}
		daemon := child.Start(t, cmd)
		t.Cleanup(func() {
			_ = daemon.Process.Signal(syscall.SIGTERM) // it may have ended already
			waiting.Later(t, soon, func() { _ = daemon.Process.Kill() })
			daemon.Wait()
			if t.Failed() {
				t.Logf("%v:\n%.2000s", args, &daemon.Stderr)
			}
		})
	}
	idle := regexp.MustCompile(`3 +idle n\[1-3\]`)
	waiting.Until(t, "idle nodes", func() bool {
		cmd := exec.CommandContext(t.Context(), "sinfo", "--noheader")
		cmd.Env = append(os.Environ(), env...)
		said, _ := cmd.CombinedOutput() // fails until its daemon has started
		return idle.Match(said)
	})
	return engine{
		name: "srun", start: []string{"srun", "-N3"}, flags: []string{"--rendezvous", filepath.Join(dir, "meet")},
		line: "3 ranks on 3 hosts: n1 (server), n2, n3 (Slurm step 1.0)", dir: dir, env: env, runs: new(atomic.Int32),
	}
}
