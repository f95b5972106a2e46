package identity_test

import (
	"crypto/tls"
	"fmt"
	"log"
	"net"

	"ipcbench/identity"
)

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

// The authority of a session signs for a worker, and each end of a connection verifies the other one.
func ExampleAuthority() {
	authority := must(identity.NewAuthority("session"))
	worker := must(identity.NewWorker(authority.Certificate()))
	request := must(worker.Request()) // sent to the server, which answers with the certificate
	if err := worker.Certify(must(authority.Sign(request, identity.Lanes{First: 4, Last: 7}))); err != nil {
		log.Fatal(err)
	}

	here, there := net.Pipe()
	server, client := tls.Server(here, must(authority.Server(true))), tls.Client(there, worker.Config())
	done := make(chan error)
	go func() { done <- client.Handshake() }()
	fmt.Println(server.Handshake(), <-done)
	lanes, err := identity.Of(server.ConnectionState(), "session")
	fmt.Println("lanes", lanes, err)
	// Output:
	// <nil> <nil>
	// lanes 4-7 <nil>
}
