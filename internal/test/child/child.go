// Package child starts programs for tests: what one says is kept, and it ends with its test.
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

// A Text is what a program has said so far.
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

// Start starts a program. Its streams are kept unless cmd has others for them. What has not
// ended with the test is killed.
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
		_ = cmd.Wait() // how it ended is in its state
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

// Wait waits for the end.
func (c *Child) Wait() {
	c.t.Helper()
	waiting.Do(c.t, "the end of "+c.Path, func() { <-c.Done })
}

// Kill kills it, if it has not ended, and waits for its end.
func (c *Child) Kill() {
	_ = c.Process.Kill() // most have ended
	c.Wait()
}

// Send sends a signal to one that has not ended.
func (c *Child) Send(signal syscall.Signal) {
	c.t.Helper()
	check.Must(c.t, c.Process.Signal(signal))
}

// Until waits for what comes before the end.
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

// Says waits until stdout or stderr match a pattern, and returns the text that does.
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

// Ends waits for the end, which B25 promises within some time, and says how it must be:
// with which code, which is -1 for any signal, and with which words on stderr. A stack
// trace is never among them, unless the words ask for it.
func (c *Child) Ends(within time.Duration, code int, pattern string) {
	c.t.Helper()
	waiting.Promise(c.t, "B25: the end of "+c.Path, within, func() { <-c.Done })
	said := c.Stderr.String()
	trace := strings.Contains(said, "goroutine ") && !strings.Contains(pattern, "goroutine ")
	if got := c.ProcessState.ExitCode(); got != code || trace || !regexp.MustCompile(pattern).MatchString(said) {
		c.t.Errorf("%s: exit code %d, want %d, and no stack trace, and %q on stderr:\n%s", c, got, code, pattern, said)
	}
}
