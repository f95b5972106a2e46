package program

import (
	"context"
	"fmt"
	"io"

	"ipcbench/bench/exchange"
	"ipcbench/bench/place"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/machine"
	"ipcbench/trainer"
)

// BlockCommand is the command-line argument that makes ipcbench read an order from stdin, run one
// block and answer on stdout. The end of stdin asks it to finish early.
const BlockCommand = "block"

// Serve reads one order from in, carries it out and writes the answer to out. It
// ends early if ctx is done or if in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, h trainer.Host) error {
	err := exchange.Serve(ctx, in, out, func(quit context.Context, o *exchange.Order, a *exchange.Answer) error {
		return carryOut(quit, o, a, h)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", BlockCommand, err)
	}
	return nil
}

func carryOut(quit context.Context, o *exchange.Order, a *exchange.Answer, h trainer.Host) error {
	if o.Block == nil {
		e := machine.Read()
		a.Environment = &e
		for i := range o.Cells {
			refused := ""
			if _, err := specOf(o, i, h.Transports); err != nil {
				refused = err.Error()
			}
			a.Refused = append(a.Refused, refused)
		}
		return nil
	}
	if len(o.Cells) != 1 {
		return fmt.Errorf("order: a block must have one cell, not %d", len(o.Cells))
	}
	plan, err := planOf(o.Block)
	if err != nil {
		return err
	}
	spec, err := specOf(o, 0, h.Transports)
	if err != nil {
		return err
	}
	here, err := place.New(plan, h)
	if err != nil {
		return err
	}
	now, cancel := session.Bounded(quit, session.Grace)
	defer cancel()
	a.Block = new(result.Block)
	r := &session.Run{Spec: spec, Plan: plan, Slow: o.Block.Slow, Roster: o.Works[0].Clients, Block: a.Block}
	if err := here.Run(now, quit, r); err != nil {
		return err
	}
	a.Pings, a.Hashes = r.Pings, r.Hashes
	return nil
}
