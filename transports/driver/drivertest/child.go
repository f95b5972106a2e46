package drivertest

import (
	"bufio"
	"os"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/reexec"
	"ipcbench/internal/test/check"
)

// A Child is this program, started again in a role.
type Child struct {
	*reexec.Process
	Out    *bufio.Reader   // its standard output
	Stderr *reexec.Excerpt // complete when it has ended
}

// Spawn starts this program in a role that is in the table given to [MainWith], with a
// question. The child is killed when the test ends. An error means that the machine refuses
// the attributes.
func Spawn(t testing.TB, role string, question any, attr *syscall.SysProcAttr) (*Child, error) {
	t.Helper()
	from, to, err := os.Pipe()
	check.Must(t, err)
	c := &Child{Out: bufio.NewReader(from), Stderr: &reexec.Excerpt{Most: 64 << 10}}
	command := reexec.Command{Role: role, Question: question, Attr: attr, Stdout: to, Stderr: c.Stderr}
	c.Process, err = reexec.Start(t.Context(), command)
	to.Close()
	t.Cleanup(func() {
		if err == nil {
			c.Kill()
		}
		from.Close()
	})
	return c, err
}

// Kill kills the child, unless it has ended, and waits for its end.
func (c *Child) Kill() {
	_ = c.Signal(syscall.SIGKILL)
	<-c.Exited()
}

// Line returns the next line of the child's output, and fails the test if there is none.
func (c *Child) Line(t testing.TB) string {
	t.Helper()
	line, err := c.Out.ReadString('\n')
	check.Need(t, err == nil, "the child says %q: %v", line, err)
	return strings.TrimSuffix(line, "\n")
}
