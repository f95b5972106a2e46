// Package child starts programs for tests. It keeps their output, and kills them when their
// test ends.
package child

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

// A Child is a program that a test has started.
type Child struct {
	*exec.Cmd
	Stdout, Stderr Text
	Done           chan struct{} // closed when it has ended
	t              testing.TB
}

// A Text is the output of a program so far. It may be read while the program writes.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *Text) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *Text) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Start starts a program and keeps its output, unless cmd has other writers for it. If the
// program is still running at the end of the test, it is killed.
func Start(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	c := &Child{Cmd: cmd, Done: make(chan struct{}), t: t}
	if cmd.Stdout == nil {
		cmd.Stdout = &c.Stdout
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &c.Stderr
	}
	check.Must(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // the error is also in the process state
		close(c.Done)
	}()
	t.Cleanup(c.Kill)
	return c
}

// Run starts a program and waits for its end.
func Run(t testing.TB, cmd *exec.Cmd) *Child {
	t.Helper()
	c := Start(t, cmd)
	c.Wait()
	return c
}

// Wait waits for the program's end.
func (c *Child) Wait() {
	c.t.Helper()
	waiting.Do(c.t, "the end of "+c.Path, func() { <-c.Done })
}

// Kill kills the program if it has not ended, and waits for its end.
func (c *Child) Kill() {
	_ = c.Process.Kill() // fails if it has ended
	c.Wait()
}

// Send sends a signal to the program, which must not have ended.
func (c *Child) Send(signal syscall.Signal) {
	c.t.Helper()
	check.Must(c.t, c.Process.Signal(signal))
}

// Until waits until ok returns true, and fails if the program ends before that.
func (c *Child) Until(what string, ok func() bool) {
	c.t.Helper()
	waiting.Until(c.t, what, func() bool {
		select {
		case <-c.Done:
			check.Need(c.t, ok(), "%s: ended before %s:\n%s", c, what, c.Stderr.String())
			return true
		default:
		}
		return ok()
	})
}

// Says waits until stdout or stderr matches a pattern, and returns the matching text.
func (c *Child) Says(pattern string) (text string) {
	c.t.Helper()
	wanted := regexp.MustCompile(pattern)
	c.Until("it says "+pattern, func() bool {
		said := c.Stdout.String() + c.Stderr.String()
		text = wanted.FindString(said)
		return wanted.MatchString(said)
	})
	return text
}

// Ends waits for the program's end, which B25 promises within some time, and checks its
// exit code (-1 means any signal) and that stderr matches pattern. A stack trace on stderr
// fails the test, unless pattern contains "goroutine ".
func (c *Child) Ends(within time.Duration, code int, pattern string) {
	c.t.Helper()
	waiting.Promise(c.t, "B25: the end of "+c.Path, within, func() { <-c.Done })
	said := c.Stderr.String()
	trace := strings.Contains(said, "goroutine ") && !strings.Contains(pattern, "goroutine ")
	if got := c.ProcessState.ExitCode(); got != code || trace || !regexp.MustCompile(pattern).MatchString(said) {
		c.t.Errorf("%s: exit code %d, want %d, and no stack trace, and %q on stderr:\n%s", c, got, code, pattern, said)
	}
}
