package batched

import (
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ipcbench/internal/test/check"
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
		client, _ := r.stranger(grpc.WithTransportCredentials(credentials.NewTLS(drivertest.Certified(t, r.at, 1))))
		for name, call := range callsOf(limited(t), client) {
			refused(t, name, call(r.head(0)), wrongCertificate, "lane-0")
			h := r.head(1)
			h.Sender = "lane-9"
			refused(t, name, call(h), wrongSender, "lane-9")
		}
	}
}

// TestWithoutTLS: a client that knows nothing of TLS hears at once, in the answer to its
// call, that the session has it, and does not connect for ever.
func TestWithoutTLS(t *testing.T) {
	r := listen(t, "grpc-stream:tls=on", twenty(t), 1)
	client, _ := r.stranger()
	for range 3 {
		if _, err := client.Ping(limited(t), &pb.PingRequest{}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "this session speaks TLS") {
			t.Errorf("got %v, want a refusal that names TLS", err)
		}
	}
	n := r.recs[0].Counts()[phase.Refused]
	check.That(t, n <= 3, "the client has connected %d times for 3 calls", n)
}
