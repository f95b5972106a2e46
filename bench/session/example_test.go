package session_test

import (
	"context"
	"fmt"
	"log"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
	"ipcbench/transports"
	"ipcbench/transports/all"
)

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// One block of the control. Its eight models must be those of the reference chain, which Compare computes.
func ExampleRun() {
	ctx, host := context.Background(), trainer.Host{Transports: all.Transports(), Funcs: session.Funcs()}
	plan := must(session.DefaultPlan(session.Quick))
	plan.Blocks, plan.Rounds = 1, 5
	cell := session.Spec{
		Variant: must(transports.Parse("inproc", host.Transports)), Model: must(models.Parse("cnn")),
		Workers: 2, Clients: 3, PerProcess: 2, Depth: 1,
	}
	run := session.Run{Spec: cell, Plan: plan, Chain: session.NewChain(cell, plan), Block: new(result.Block)}
	if err := run.Do(ctx, ctx, trainer.NewGoroutines(host)); err != nil {
		log.Fatal(err)
	}
	err := run.Compare(ctx)
	fmt.Printf("%d timed rounds, %+v, %v\n", len(run.Block.Round), run.Block.Proof, err)
	// Output: 5 timed rounds, {Rounds:1 Updates:3 Hashed:8}, <nil>
}
