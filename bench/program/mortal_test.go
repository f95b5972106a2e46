package program

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/bench/exchange"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/proc"
	"ipcbench/internal/test/waiting"
)

// A mortal is a reference row whose processes are killed. The row may be killed at any time; most of these kills are
// in its rounds.
type mortal struct {
	t     *testing.T
	row   *Program
	dir   string        // of [python.Unpack]
	pause time.Duration // until rounds have begun, about
	order []byte        // for more rounds than it has time for
}

var workerEnded = regexp.MustCompile(`the process of worker (\d) has ended`)

// ends kills each of the row's processes, in a start of its own. It has that many workers.
func (m mortal) ends(workers int) {
	m.t.Helper()
	c, _ := m.start()
	most := 0
	for range 50 {
		waiting.Pause(m.pause / 25)
		most = max(most, len(m.others(c)))
	}
	c.Send(syscall.SIGKILL)
	c.Ends(10*time.Second, -1, "")
	m.gone(c)
	named := map[string]bool{}
	for n := range most {
		for range 3 {
			name, said := m.kill(n)
			if found := workerEnded.FindStringSubmatch(said); found != nil {
				named[found[1]] = true
			}
			if said != "" || strings.Contains(name, "resource_tracker") { // Python starts it again
				break
			}
			// The server of a pool is started again, too. A process of the pool looks like it, and may have done its work.
			check.That(m.t, strings.Contains(name, "forkserver"), "%q was killed, and the answer does not say so", name)
		}
	}
	check.That(m.t, len(named) == workers, "the errors name the workers %v of %d; %d processes were killed", named, workers, most)
}

// kill starts the row, kills the process that is the nth by id, and asks the row to end early. It returns the command
// of the process, and the error in the row's answer, if any.
func (m mortal) kill(n int) (name, said string) {
	m.t.Helper()
	c, stdin := m.start()
	waiting.Pause(m.pause)
	c.Until("more processes", func() bool {
		pids := m.others(c)
		if len(pids) <= n {
			return false
		}
		name = proc.Read(pids[n], "cmdline")
		return syscall.Kill(pids[n], syscall.SIGKILL) == nil
	})
	check.Must(m.t, stdin.Close())
	c.Ends(30*time.Second, 0, "")
	m.gone(c)
	if _, err := exchange.ParseAnswer([]byte(c.Stdout.String())); err != nil {
		said = err.Error()
	}
	m.t.Logf("killed %q: %s", name, said)
	return name, said
}

// start starts the row, and returns the open end of its stdin.
func (m mortal) start() (*child.Child, *os.File) {
	m.t.Helper()
	process := check.Value(m.row.process(0, m.dir))(m.t)
	cmd := exec.CommandContext(m.t.Context(), process.Path, process.Args...)
	stdin, end := endless(m.t, m.order)
	cmd.Stdin, cmd.Dir = stdin, m.t.TempDir() // the run's scratch folder, which it removes
	cmd.Env = append(os.Environ(), "TMPDIR="+cmd.Dir)
	return child.Start(m.t, cmd), end
}

// others returns the processes that the row has started and that have not ended.
func (m mortal) others(c *child.Child) (pids []int) {
	mark := c.Env[len(c.Env)-1]
	for _, pid := range proc.All() {
		if pid != c.Process.Pid && strings.Contains(proc.Read(pid, "environ"), mark) && proc.Alive(pid) {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// gone waits until all of them have ended.
func (m mortal) gone(c *child.Child) {
	m.t.Helper()
	waiting.Promise(m.t, "B25: the processes that the row has started", 10*time.Second, func() {
		waiting.Poll(func() bool { return len(m.others(c)) == 0 })
	})
}
