package reexec

import (
	"context"
	"fmt"
	"os"
)

// An Asked is a child that was given a text, and whose answer is what it writes to stdout.
type Asked struct {
	*Process
	ctx     context.Context
	release func()
	stdout  *Excerpt
}

// Ask starts a child and writes text to its stdin, which stays open until quit ends: that
// asks the child to end early. The child is killed when ctx ends, or when its answer has
// more than most bytes. The caller must call Answer.
func Ask(ctx, quit context.Context, c Command, text []byte, most int) (*Asked, error) {
	theirs, stdin, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancelCause(ctx)
	stdout := &Excerpt{Most: most, Head: true, Over: func() { end(fmt.Errorf("an answer of more than %d bytes", most)) }}
	c.Stdin, c.Stdout = theirs, stdout
	p, err := Start(ctx, c)
	theirs.Close()
	if err != nil {
		stdin.Close()
		end(nil)
		return nil, err
	}
	stop := context.AfterFunc(quit, func() { _ = stdin.Close() })
	go func() { // a process that is stopped does not read
		_, _ = stdin.Write(text) // if the child does not read all of it, its end or its answer says why
	}()
	return &Asked{p, ctx, func() { stop(); _ = stdin.Close(); end(nil) }, stdout}, nil
}

// Answer waits for the end of the child. Its error says why the child was killed, or how it
// has ended.
func (a *Asked) Answer() ([]byte, error) {
	defer a.release()
	<-a.Exited()
	if a.ctx.Err() != nil {
		return nil, context.Cause(a.ctx)
	}
	return a.stdout.Bytes(), a.Err()
}
