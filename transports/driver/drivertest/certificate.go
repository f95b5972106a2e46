package drivertest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"ipcbench/identity"
	"ipcbench/internal/test/check"
	"ipcbench/transports/endpoint"
)

// Certified returns the TLS configuration of a client with a certificate of e's session for
// lanes, which must be consecutive.
func Certified(t testing.TB, e *endpoint.Endpoint, lanes ...int) *tls.Config {
	t.Helper()
	w := check.Value(identity.NewWorker(e.Trust().Authority))(t)
	request := check.Value(w.Request())(t)
	cert, err := e.Sign(request, lanes)
	check.Must(t, errors.Join(err, w.Certify(cert)))
	return w.Config()
}

// Files writes a client's certificate and key to files that end with the test, and returns
// their paths.
func Files(t *testing.T, client *tls.Config) (cert, key string) {
	t.Helper()
	own := check.Value(client.GetClientCertificate(nil))(t)
	der := check.Value(x509.MarshalPKCS8PrivateKey(own.PrivateKey))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	check.Must(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]}), 0o600))
	check.Must(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	return cert, key
}
