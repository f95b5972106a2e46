package program_test

import (
	"context"
	"fmt"
	"log"

	"ipcbench/bench/program"
	"ipcbench/bench/session"
	"ipcbench/tensor/models"
	"ipcbench/transports"
)

// A peer answers whether it can run a cell. This one is a script that reads the order and refuses.
func ExampleProgram_Ask() {
	peer, err := program.NewPeer("mine", `sh -c 'read order; echo "{\"version\":2,\"rules\":4,\"refused\":[\"too large\"]}"'`)
	if err != nil {
		log.Fatal(err)
	}
	model, err := models.Parse("gpt2")
	if err != nil {
		log.Fatal(err)
	}
	cell := session.Spec{Variant: transports.Variant{Subject: peer}, Model: model, Workers: 1, Clients: 1, PerProcess: 1, Depth: 1}
	answer, err := peer.Ask(context.Background(), []session.Spec{cell}, program.Conditions{})
	fmt.Println(cell, answer.Refused, err)
	// Output: mine gpt2 workers=1 clients=1 map[mine gpt2 workers=1 clients=1:too large] <nil>
}
