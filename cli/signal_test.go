package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ipcbench/bench/result"
	"ipcbench/internal/agent"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/child"
	"ipcbench/internal/test/skip"
	"ipcbench/internal/test/waiting"
)

// TestSignalsEndReaders: a signal ends a command that reads, even if it waits for the
// writer of a named pipe.
func TestSignalsEndReaders(t *testing.T) {
	for _, args := range [][]string{{"report"}, {"compare"}, {"pprof", "-top"}} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(fmt.Sprint(args[0], " ", sig), func(t *testing.T) {
				t.Parallel()
				fifo := filepath.Join(t.TempDir(), "fifo")
				check.Must(t, syscall.Mkfifo(fifo, 0o600))
				c := child.Start(t, command(t, append(args, fifo)...))
				reading, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits until the command opens it
				check.Must(t, err)
				defer reading.Close()
				c.Send(sig)
				c.Wait()
				check.Equal(t, c.ProcessState.String(), "signal: "+sig.String(), "it ended with")
			})
		}
	}
}

// TestTerminalCloses: B25: if the terminal closes, a run ends in order and keeps the
// measured blocks, although it can no longer print.
func TestTerminalCloses(t *testing.T) {
	master, slave := terminal(t)
	cmd := command(t, "run", "--transport", "inproc", "--model", "cnn", "--time", "600s", "--precision", "0.000001", "--out", "out.json")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	c := child.Start(t, cmd)
	slave.Close()
	shown, block := bufio.NewReader(master), regexp.MustCompile(`block ([2-9]|[1-9][0-9]+) of`)
	for { // ends when the process ends, or before
		line, err := shown.ReadString('\r')
		if err != nil {
			t.Errorf("it ended early: %v: %s", err, line)
			break
		}
		if block.MatchString(line) {
			break
		}
	}
	master.Close()
	c.Ends(waiting.Limit, 128+int(syscall.SIGHUP), "")
	r, err := result.ReadFile(filepath.Join(cmd.Dir, "out.json"))
	check.That(t, err == nil && r.Partial != "" && len(r.Cells) > 0, "the result was not kept as partial: %v", err)
}

// terminal opens a pseudo-terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		skip.Refused(t, "a terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		skip.Refused(t, "a terminal: %v", err)
	}
	return master, slave
}

// stubborn is a program that ignores the request to end.
func stubborn() {
	ctx, _ := untilSignal(context.Background())
	fmt.Println("ready")
	<-ctx.Done()
	select {}
}

// TestSecondSignal: B25: a program that hangs after the first signal is ended by a later
// one, but not by one that follows at once.
func TestSecondSignal(t *testing.T) {
	exe := check.Value(exec.LookPath("stubborn"))(t)
	c := child.Start(t, exec.Command(exe))
	c.Says("ready")
	began := time.Now()
	for c.Process.Signal(syscall.SIGINT) == nil { // until the process has ended
		waiting.Pause(20 * time.Millisecond)
	}
	c.Wait()
	check.Equal(t, c.ProcessState.String(), "signal: interrupt", "it ended with")
	took := time.Since(began)
	check.That(t, took >= graceTime, "ended after %v, want it to have at least %v", took, graceTime)
}

// TestJoinInterrupted: a signal ends an agent that waits for its join line on stdin.
func TestJoinInterrupted(t *testing.T) {
	stdin, line, err := os.Pipe()
	check.Must(t, err)
	defer stdin.Close()
	defer line.Close()
	enough := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	a, ended := newApp(io.Discard, io.Discard, nil), make(chan error, 1)
	go func() { ended <- a.agent(ctx, "-", agent.Options{}, stdin) }()
	cancel(enough)
	err = waiting.Receive(t, "its end", ended)
	check.That(t, errors.Is(err, enough), "it ends with %v", err)
}
