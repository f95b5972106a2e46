package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"ipcbench/bench/result"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/rig"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// part returns the nth code block in a language of a section of a page, counted from 0.
func part(t *testing.T, name, section, language string, n int) string {
	t.Helper()
	page := check.Value(os.ReadFile("../../" + name))(t)
	_, text, found := strings.Cut(string(page), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for range n + 1 {
		_, text, found = strings.Cut(text, "\n```"+language+"\n")
	}
	text, _, closed := strings.Cut(text, "```\n")
	check.Need(t, found && closed, "%s: section %s has no block %d of %s", name, section, n, language)
	return text
}

// installed makes this program ipcbench in dir, and returns the environment with which scripts find it.
func installed(t *testing.T, dir string) (env []string) {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "ipcbench"))
	}
	check.Must(t, err)
	return []string{programEnv + "=1", "PATH=" + dir + ":" + os.Getenv("PATH")}
}

// hosts are the hosts h0, h1 and h2, and a folder that they share.
type hosts struct {
	*rig.Rig
	t   *testing.T
	dir string
	env []string // environment of scripts
}

func newHosts(t *testing.T) hosts {
	t.Parallel()
	h := hosts{Rig: rig.New(t, "h0", "h1", "h2"), t: t, dir: t.TempDir()}
	h.env = installed(t, h.dir)
	return h
}

// bash runs a script on this host, in dir and with more variables.
func bash(t *testing.T, dir, script string, env ...string) (string, error) {
	c := exec.CommandContext(t.Context(), "bash", "-euc", script)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}

// bash starts a script on a host, in the shared folder, with ipcbench in its path.
func (h hosts) bash(host, stdin, script string, env ...string) *child.Child {
	h.t.Helper()
	cmd := h.Command(host, "bash", "-ec", "cd "+h.dir+"\n"+script)
	cmd.Env = slices.Concat(cmd.Env, h.env, env)
	cmd.Stdin, cmd.WaitDelay = strings.NewReader(stdin), soon
	return child.Start(h.t, cmd)
}

// result checks that there is one result, with proved cells and workers placed as in on.
func (h hosts) result(on string) {
	h.t.Helper()
	files, _ := filepath.Glob(filepath.Join(h.dir, "ipcbench-*.json"))
	check.Need(h.t, len(files) == 1, "%d results, want 1", len(files))
	r := check.Value(result.ReadFile(files[0]))(h.t)
	for _, name := range []string{"http", "grpc-stream"} {
		i := slices.IndexFunc(r.Cells, func(c result.Cell) bool { return c.Transport == name })
		check.That(h.t, i >= 0 && r.Cells[i].Proved() && r.Cells[i].Hosts == on,
			"%s: want a cell with workers on %s, proved", name, on)
	}
}

// clear waits until nothing of the test is left on any host.
func (h hosts) clear() {
	h.t.Helper()
	for _, host := range []string{"h0", "h1", "h2"} {
		cleanOf(h.t, h.Rig, host, "ipcbench*")
	}
}

// TestHostsByHand: the section "By hand" of docs/hosts.md works word for word.
func TestHostsByHand(t *testing.T) {
	skip.Soak(t)
	h := newHosts(t)
	server := h.bash("h0", "", part(t, "docs/hosts.md", "By hand", "bash", 0))
	line := server.Says(joinLine)
	for _, host := range []string{"h1", "h2"} {
		defer h.bash(host, line, part(t, "docs/hosts.md", "By hand", "bash", 1)).Ends(soon, 0, `^joined the run at .*\n$`)
	}
	server.Ends(patience, 0, `wrote `)
	h.result("h1:1,h2:1")
}

// TestListenChoice: without --listen, rank 0 listens at its host's only address. If the host has several addresses, the
// error names them.
func TestListenChoice(t *testing.T) {
	h := newHosts(t)
	env := []string{"PMIX_RANK=0", "PMIX_NAMESPACE=j", "IPCBENCH_WORLD=2"}
	run := "exec ipcbench world --rendezvous meet %s run --transport http --join-timeout 1ms"
	h.bash("h0", "", fmt.Sprintf(run, ""), env...).Ends(soon, 1, `0 of 1 agents have joined at 10\.77\.0\.1:`)
	out, err := h.Command("h0", "ip", "address", "add", "10.78.0.1/24", "dev", "eth0").CombinedOutput()
	check.Need(t, err == nil, "%v: %s", err, out)
	h.bash("h0", "", fmt.Sprintf(run, ""), env...).Ends(soon, 2, `--listen is missing(.|\n)*--listen 10\.77\.0\.1, or 10\.78\.0\.1`)
	h.bash("h0", "", fmt.Sprintf(run, "--addr h0:7117"), env...).Ends(soon, 1, `0 of 1 agents have joined at 10\.77\.0\.1:7117`)
	h.clear()
}

// mpirun returns the environment in which mpirun reaches the hosts, which have no ssh.
func (h hosts) mpirun() (env []string) {
	h.t.Helper()
	if _, err := exec.LookPath("mpirun"); err != nil {
		skip.Missing(h.t, "mpirun (Debian: openmpi-bin)")
	}
	enter := "#!/bin/sh\nhost=$1; shift\ncase $host in\n"
	for _, host := range []string{"h0", "h1", "h2"} {
		enter += host + ") exec " + strings.Join(slices.DeleteFunc(h.Command(host, "sh").Args, func(arg string) bool { return arg == "--user" }), " ") + " -c \"$*\";;\n"
	}
	for name, text := range map[string]string{"enter": enter + "esac\n", "hosts": part(h.t, "docs/hosts.md", "mpirun", "text", 0)} {
		check.Must(h.t, os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o700))
	}
	return []string{"OMPI_MCA_plm_rsh_agent=" + filepath.Join(h.dir, "enter"), "OMPI_MCA_oob_tcp_if_include=eth0", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}
}

// TestHostsMPIRun: the mpirun section of docs/hosts.md works word for word. If mpirun is ended at a random time,
// nothing is left on any host.
func TestHostsMPIRun(t *testing.T) {
	skip.Soak(t)
	h := newHosts(t)
	env := h.mpirun()
	script := part(t, "docs/hosts.md", "mpirun", "bash", 1)
	t.Run("green", func(t *testing.T) {
		h.bash("h0", "", script, env...).Ends(patience, 0, `^3 ranks on 3 hosts: h0 \(server\), h1, h2 \(Open MPI\)\n`)
		h.result("h1:1,h2:1")
		h.clear()
	})
	t.Run("killed", func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 0))
		for range 10 {
			p := h.bash("h0", "", strings.Replace(script, "mpirun", "exec mpirun", 1), env...)
			after := time.Duration(random.Int64N(int64(4 * time.Second)))
			waiting.Pause(after)
			p.Send(syscall.SIGTERM)
			p.Ends(soon, 1, ``)
			check.That(t, !strings.Contains(p.Stderr.String(), "goroutine "), "killed after %v:\n%s", after, p.Stderr.String())
			h.clear()
		}
	})
}

// TestHostsJob: the variables and arguments of examples/kubernetes/job.yaml work on three hosts, without Kubernetes.
func TestHostsJob(t *testing.T) {
	skip.Soak(t)
	h := newHosts(t)
	manifest := check.Value(os.ReadFile("../../examples/kubernetes/job.yaml"))(t)
	_, jobText, _ := strings.Cut(string(manifest), "\n---\n")
	var job struct {
		Spec struct {
			Completions int
			Template    struct {
				Spec struct {
					Containers []struct {
						Args []string
						Env  []struct{ Name, Value string }
					}
				}
			}
		}
	}
	check.Must(t, yaml.Unmarshal([]byte(jobText), &job))
	c := job.Spec.Template.Spec.Containers[0]
	env := []string{}
	for _, v := range c.Env {
		if v.Value == "" { // the value comes from a Secret
			v.Value = "8c1d0f5e2b7a49368c1d0f5e2b7a4936"
		}
		env = append(env, v.Name+"="+strings.Replace(v.Value, "ipcbench-0.ipcbench", "h0", 1))
	}
	script := "exec ipcbench " + strings.ReplaceAll(strings.Join(c.Args, " "), "/tmp/", "ipcbench-")
	var pods []*child.Child
	for i := range job.Spec.Completions {
		pods = append(pods, h.bash(fmt.Sprint("h", i), "", script, append(env, fmt.Sprint("JOB_COMPLETION_INDEX=", i))...))
	}
	pods[0].Ends(patience, 0, `^3 ranks on 3 hosts: h0 \(server\), h1.1, h2.2 \(Indexed Job\)\n`)
	for _, pod := range pods[1:] {
		pod.Ends(soon, 0, `^$`)
	}
	h.result("h1.1:1,h2.2:1")
	h.clear()
}
