package batched

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestCertificates: O4, O21. Whoever has a certificate for one lane speaks for no other
// one, whatever it calls and whatever its header says. The client is gRPC's own, with
// TLS as gRPC makes it.
func TestCertificates(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r := listen(t, "grpc-batch:tls=mutual:network="+network, twenty(t), 3)
		r.dispatch(0, driver.Job{Round: 1})
		_, cc := r.stranger(grpc.WithTransportCredentials(credentials.NewTLS(drivertest.Certified(t, r.Endpoint, 1))))
		for name, call := range callsOf(t, cc) {
			refused(t, name, call(r.head(0)), wrongCertificate, "lane-0")
			refused(t, name, call(r.head(9)), wrongSender, "lane-9")
		}
	}
}

// TestWithoutTLS: a client that knows nothing of TLS hears at once, in the answer to its
// call, that the session has it, and does not connect for ever.
func TestWithoutTLS(t *testing.T) {
	r := listen(t, "grpc-stream:tls=on", twenty(t), 1)
	client, _ := r.stranger()
	for range 3 {
		_, err := client.Ping(waiting.Context(t), &pb.PingRequest{})
		refused(t, "a call without TLS", err, reason{code: codes.PermissionDenied}, "this session speaks TLS")
	}
	n := r.Options.Rec.Counts()[phase.Refused]
	check.That(t, n <= 3, "the client has connected %d times for 3 calls", n)
}
