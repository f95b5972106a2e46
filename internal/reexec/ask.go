package reexec

import (
	"context"
	"fmt"
	"os"
)

// An Asked is a child that reads a text from stdin and writes its answer to stdout.
type Asked struct {
	*Process
	ctx     context.Context
	release func()
	stdout  *Excerpt
}

// Ask starts a child and writes text to its stdin. It closes stdin when quit is done,
// which asks the child to end early. The child is killed when ctx is done, or if its
// answer has more than most bytes. The caller must call Answer.
func Ask(ctx, quit context.Context, c Command, text []byte, most int) (*Asked, error) {
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	stdout := &Excerpt{Most: most, Head: true, Over: func() { end(fmt.Errorf("the answer has more than %d bytes", most)) }}
	c.Stdin, c.Stdout = theirs, stdout
	p, err := Start(ctx, c)
	theirs.Close()
	if err != nil {
		stdin.Close()
		end(nil)
		return nil, err
	}
	stop := context.AfterFunc(quit, func() { _ = stdin.Close() })
	go func() { // Write would block on a stopped child
		_, _ = stdin.Write(text) // if the child does not read everything, Answer returns the reason
	}()
	return &Asked{p, ctx, func() { stop(); _ = stdin.Close(); end(nil) }, stdout}, nil
}

// Answer waits until the child has ended, and returns its stdout. The error is the reason
// why the child was killed, or its exit status if it failed.
func (a *Asked) Answer() ([]byte, error) {
	defer a.release()
	<-a.Exited()
	if a.ctx.Err() != nil {
		return nil, context.Cause(a.ctx)
	}
	return a.stdout.Bytes(), a.Err()
}
