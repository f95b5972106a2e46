package phase_test

import (
	"fmt"

	"ipcbench/phase"
)

// A transport records spans and counts bytes while a round runs. Reports read them afterwards.
func ExampleRecorder() {
	r := phase.NewRecorder(100)
	sent := r.Counter(phase.WireSent)

	span := r.Begin(phase.Send, phase.ID{Lane: 0, Round: 3, Client: 7})
	sent.Add(4096) // writes to the socket
	span.End()

	samples, lost := r.Drain()
	for _, s := range samples {
		fmt.Println(s.Phase, "of round", s.Round, "client", s.Client, s.End >= s.Start)
	}
	fmt.Println(r.Counts(), lost)
	// Output:
	// send of round 3 client 7 true
	// map[wire.sent:4096] 0
}
