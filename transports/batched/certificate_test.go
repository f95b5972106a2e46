package batched

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"ipcbench/identity"
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
	"ipcbench/transports/driver"
)

// certified returns how a client dials that has a certificate of the session for these
// lanes.
func (r *rig) certified(lanes ...int) *tls.Config {
	r.t.Helper()
	w, err := identity.NewWorker(r.at.Trust().Authority)
	if err != nil {
		r.t.Fatal(err)
	}
	request, err := w.Request()
	if err != nil {
		r.t.Fatal(err)
	}
	cert, err := r.at.Sign(request, lanes)
	if err := errors.Join(err, w.Certify(cert)); err != nil {
		r.t.Fatal(err)
	}
	return w.Config()
}

// files writes certificate and key of config, for clients that read them from files.
func (r *rig) files(config *tls.Config) (cert, key string) {
	r.t.Helper()
	own, err := config.GetClientCertificate(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600),
	); err != nil {
		r.t.Fatal(err)
	}
	return cert, key
}

// TestCertificates: O4, O21. Whoever has a certificate for one lane speaks for no other
// one, whatever it calls and whatever its header says. The client is gRPC's own, with
// TLS as gRPC makes it.
func TestCertificates(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r := listen(t, "grpc-batch:tls=mutual:network="+network, twenty(t), 3)
		r.dispatch(0, driver.Job{Round: 1})
		client, _ := r.stranger(grpc.WithTransportCredentials(credentials.NewTLS(r.certified(1))))
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
	if n := r.recs[0].Counts()[phase.Refused]; n > 3 {
		t.Errorf("the client has connected %d times for 3 calls", n)
	}
}
