package batched

import (
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"ipcbench/transports/driver"
	"ipcbench/transports/driver/drivertest"
)

// TestCertificates: O4, O21. A client with a certificate for one lane is refused for every
// other lane, in every call and whatever its header claims. The client is gRPC's own, with
// gRPC's TLS.
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
