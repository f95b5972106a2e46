package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestSignalsEndReaders: a signal ends a command that reads, also one that waits
// for somebody to write into a pipe.
func TestSignalsEndReaders(t *testing.T) {
	exe, err := exec.LookPath("ipcbench")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"report"}, {"compare"}, {"profile", "top"}} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			t.Run(fmt.Sprint(args[0], " ", sig), func(t *testing.T) {
				t.Parallel()
				fifo := filepath.Join(t.TempDir(), "fifo")
				if err := syscall.Mkfifo(fifo, 0o600); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), soon)
				defer cancel()
				cmd := exec.CommandContext(ctx, exe, append(args, fifo)...)
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				reading := make(chan struct{})
				go func() { // until it reads
					f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
					if err == nil {
						defer f.Close()
					}
					close(reading)
					<-ctx.Done()
				}()
				select {
				case <-reading:
				case <-ctx.Done():
					t.Error("it does not read")
				}
				_ = cmd.Process.Signal(sig) // it lives: nobody has written
				_ = cmd.Wait()              // how it ended is looked at now
				if got := cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != sig {
					t.Errorf("ended with %v, want by %v", cmd.ProcessState, sig)
				}
			})
		}
	}
}

// stubborn is a program that does not end when it is told to.
func stubborn() {
	ctx, _ := untilSignal(context.Background())
	fmt.Println("ready")
	<-ctx.Done()
	select {}
}

// TestSecondSignal: a program that hangs after the first signal is ended by a
// later one, and not by one that comes at once.
func TestSecondSignal(t *testing.T) {
	exe, err := exec.LookPath("stubborn")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanln(out, new(string)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is looked at below
		close(ended)
	}()
	began := time.Now()
	for cmd.Process.Signal(syscall.SIGINT) == nil { // until it has ended
		select {
		case <-ended:
		case <-time.After(20 * time.Millisecond):
		}
	}
	<-ended
	if got := cmd.ProcessState.Sys().(syscall.WaitStatus); !got.Signaled() || got.Signal() != syscall.SIGINT {
		t.Errorf("ended with %v, want by SIGINT", cmd.ProcessState)
	}
	if took := time.Since(began); took < hasty {
		t.Errorf("ended after %v, want it to have at least %v", took, hasty)
	}
}
