package drivertest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"ipcbench/internal/test/check"
)

// A Role is the function of a test program that Spawn starts. It decodes the value given to
// Spawn, writes to standard output, and returns when its context ends.
type Role func(ctx context.Context, given *json.Decoder) error

const roleEnv = "IPCBENCH_TEST_ROLE"

// Play runs the role for which Spawn started this process, and ends the process. In other
// processes it returns at once. Call it at the beginning of TestMain.
func Play(roles map[string]Role) {
	name, ok := os.LookupEnv(roleEnv)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	given, in := io.Pipe()
	go func() {
		_, _ = io.Copy(in, os.Stdin) // ends with the test
		in.Close()
		cancel()
	}()
	err := roles[name](ctx, json.NewDecoder(given))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// A Child is this program, started again in a role.
type Child struct {
	Cmd *exec.Cmd
	Out *bufio.Reader    // its standard output
	Err *strings.Builder // its standard error, complete after Wait
}

// Spawn starts this program in a role, and gives it a value as JSON. The child is killed
// when the test ends. An error means that the machine refuses the attributes.
func Spawn(t testing.TB, role string, given any, attr *syscall.SysProcAttr) (*Child, error) {
	t.Helper()
	self := check.Value(os.Executable())(t)
	c := &Child{Cmd: exec.CommandContext(t.Context(), self), Err: &strings.Builder{}}
	c.Cmd.Env = append(os.Environ(), roleEnv+"="+role)
	c.Cmd.SysProcAttr, c.Cmd.Stderr = attr, c.Err
	in := check.Value(c.Cmd.StdinPipe())(t)
	out := check.Value(c.Cmd.StdoutPipe())(t)
	c.Out = bufio.NewReader(out)
	if err := c.Cmd.Start(); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		_ = c.Cmd.Process.Kill() // it may have ended
		_ = c.Cmd.Wait()         // or the test may have waited for it
	})
	check.Must(t, json.NewEncoder(in).Encode(given))
	return c, nil
}

// Line returns the next line of the child's output, and fails the test if there is none.
func (c *Child) Line(t testing.TB) string {
	t.Helper()
	line, err := c.Out.ReadString('\n')
	check.Need(t, err == nil, "the child says %q: %v", line, err)
	return strings.TrimSuffix(line, "\n")
}
