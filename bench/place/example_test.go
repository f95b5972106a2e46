package place_test

import (
	"context"
	"fmt"
	"log"

	"ipcbench/bench/place"
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

// Without agents, a block runs on this host. The control needs no process but this one.
func ExampleHere() {
	fmt.Println(place.Rule{Fill: true, Server: true}) // for runs with agents

	ctx, host := context.Background(), trainer.Host{Transports: all.Transports(), Funcs: session.Funcs()}
	plan := must(session.DefaultPlan(session.Quick))
	plan.Rounds = 1
	run := session.Run{Plan: plan, Block: new(result.Block), Spec: session.Spec{
		Variant: must(transports.Parse("inproc", host.Transports)), Model: must(models.Parse("cnn")),
		Workers: 1, Clients: 1, PerProcess: 1, Depth: 1,
	}}
	fmt.Println(must(place.New(plan, host)).Run(ctx, ctx, &run), len(run.Block.Round))
	// Output:
	// server,fill
	// <nil> 1
}
