package identity

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ipcbench/internal/test/check"
)

// A ca is an authority that makes files as openssl does.
type ca struct {
	t    *testing.T
	dir  string
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// newCA makes an authority that above, or itself if above is nil, has certified.
func newCA(t *testing.T, dir, name string, above *ca) *ca {
	c := &ca{t: t, dir: dir, key: must(newKey()), cert: template(name)}
	c.cert.IsCA, c.cert.KeyUsage = true, x509.KeyUsageCertSign
	if above == nil {
		above = c
	}
	c.cert = must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, c.cert, above.cert, &c.key.PublicKey, above.key))))
	c.write(name+".crt", "CERTIFICATE", c.cert.Raw)
	return c
}

func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

func (c *ca) path(name string) string { return filepath.Join(c.dir, name) }

func (c *ca) write(name, kind string, der []byte) {
	c.t.Helper()
	check.Must(c.t, os.WriteFile(c.path(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// issue makes NAME.crt and NAME.key.
func (c *ca) issue(name string, usage x509.ExtKeyUsage, change func(*x509.Certificate)) {
	c.t.Helper()
	issued, key := template(name), must(newKey())
	issued.ExtKeyUsage = []x509.ExtKeyUsage{usage}
	if change != nil {
		change(issued)
	}
	c.write(name+".crt", "CERTIFICATE", must(x509.CreateCertificate(rand.Reader, issued, c.cert, &key.PublicKey, c.key)))
	c.write(name+".key", "PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
}

// federation makes the files of a server and two workers.
func federation(t *testing.T) (*ca, *Files) {
	c := newCA(t, t.TempDir(), "root", nil)
	c.issue("server", x509.ExtKeyUsageServerAuth, func(s *x509.Certificate) { s.DNSNames = []string{"*.example.org", "agg.example.org"} })
	c.issue("hospital", x509.ExtKeyUsageClientAuth, nil)
	c.issue("clinic", x509.ExtKeyUsageClientAuth, nil)
	return c, c.files("server", "hospital", "clinic")
}

func (c *ca) files(names ...string) *Files {
	f := &Files{CA: c.path("root.crt"), Names: names[1:]}
	for _, name := range names {
		f.Cert, f.Key = append(f.Cert, c.path(name+".crt")), append(f.Key, c.path(name+".key"))
	}
	return f
}

// TestFiles (O21): processes get the certificates in turn, and each speaks only for its own place in the list of names.
func TestFiles(t *testing.T) {
	c, f := federation(t)
	check.Must(t, f.Check(true))
	name := must(f.Server(true)).ServerName
	check.Need(t, name == "agg.example.org", "the server is %q", name)
	for process := range 4 {
		w := must(f.Worker(process, name))
		state, err, _ := shake(t, must(f.Server(true)), w.Config())
		check.Must(t, err)
		for of := range 4 {
			if err := f.Speaks(state, of); of%2 == process%2 {
				check.OK(t, err, process, "for process", of)
			} else {
				check.Fails(t, err, "process", process, "for process", of)
			}
		}
		listed := &Files{Names: []string{"elsewhere"}}
		check.Fails(t, listed.Speaks(state, process), "not on the list", "a name that is not on the list")
	}
	state, err, _ := shake(t, must(f.Server(false)), must(f.Worker(0, name)).Config())
	check.That(t, err == nil && f.Speaks(state, 0) != nil, "a server that asks for no certificate: %v, and knows who speaks", err)
	_, _, err = shake(t, must(f.Server(true)), must(f.Worker(0, "elsewhere")).Config())
	check.Fails(t, err, "not elsewhere", "a server of another name")

	alone := c.files("server")
	check.OK(t, alone.Check(false), "the server's files, for tls=on")
	check.That(t, (&Files{}).Zero() && !f.Zero() && (*Files)(nil).Zero(),
		"there are files where there are none, or the other way round")

	c.issue("address", x509.ExtKeyUsageServerAuth, func(s *x509.Certificate) { s.IPAddresses = []net.IP{net.IPv6loopback} })
	by := c.files("address", "clinic")
	check.Equal(t, must(by.Server(true)).ServerName, "::1", "a server that is named by its address")
	check.OK(t, by.Check(true), "by its address")
	_, err, atClient := shake(t, must(by.Server(true)), must(by.Worker(0, "::1")).Config())
	check.OK(t, errors.Join(err, atClient), "by its address")
}

// TestChain: intermediate certificates follow a certificate in its file.
func TestChain(t *testing.T) {
	c, f := federation(t)
	between := newCA(t, c.dir, "between", c)
	between.issue("hospital", x509.ExtKeyUsageClientAuth, nil)
	check.Fails(t, f.Check(true), "unknown authority", "without what lies between")
	both := append(must(os.ReadFile(c.path("hospital.crt"))), must(os.ReadFile(c.path("between.crt")))...)
	check.Must(t, os.WriteFile(c.path("hospital.crt"), both, 0o600))
	check.Must(t, f.Check(true))
	name := must(f.Server(true)).ServerName
	state, err, _ := shake(t, must(f.Server(true)), must(f.Worker(0, name)).Config())
	check.OK(t, errors.Join(err, f.Speaks(state, 0)), "with it")
}

// TestWrongFiles: each defect is reported in one line that names the file or the field.
func TestWrongFiles(t *testing.T) {
	write := func(name, text string) func(*ca, *Files) {
		return func(c *ca, _ *Files) {
			check.Must(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
		}
	}
	issue := func(name string, usage x509.ExtKeyUsage, change func(*x509.Certificate)) func(*ca, *Files) {
		return func(c *ca, _ *Files) { c.issue(name, usage, change) }
	}
	client, server := x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth
	agg := func(c *x509.Certificate) { c.DNSNames = []string{"agg"} }
	for _, test := range []struct {
		name        string
		do          func(c *ca, f *Files)
		field, want string
	}{
		{"no file", func(c *ca, f *Files) { f.CA = c.path("absent") }, "CA", "absent: no such file or directory"},
		{"a folder", func(c *ca, f *Files) { f.Cert[0] = c.dir }, "Cert", "must be a regular file"},
		{"a pipe", func(c *ca, f *Files) { f.Key[0] = c.path("pipe"); _ = syscall.Mkfifo(f.Key[0], 0o600) }, "Key", "must be a regular file"},
		{"empty", write("hospital.crt", ""), "Cert", "hospital.key: tls: failed to find any PEM data in certificate input"},
		{"not PEM", write("server.key", "\x30\x82"), "Cert", "server.key: tls: failed to find any PEM data in key input"},
		{"not a certificate", write("root.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "CA", "root.crt: there is no PEM certificate"},
		{"not a key", write("server.key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "Cert", "server.key: tls: failed to parse private key"},
		{"too large", write("root.crt", strings.Repeat("a", 1<<20+1)), "CA", "at most 1048576 bytes"},
		{"certificate and key have changed places", func(_ *ca, f *Files) { f.Cert, f.Key = f.Key, f.Cert }, "Cert", "server.key, with the key in "},
		{"encrypted", write("clinic.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), "Key", "clinic.key: the key is encrypted"},
		{"encrypted in the old way", write("clinic.key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"), "Key", "clinic.key: the key is encrypted"},
		{"a key for others to read", func(_ *ca, f *Files) { _ = os.Chmod(f.Key[1], 0o644) }, "Key", "all users of this machine can read"},
		{"another's key", func(_ *ca, f *Files) { f.Key[1], f.Key[2] = f.Key[2], f.Key[1] }, "Cert", "clinic.key: tls: private key does not match public key"},
		{"another authority", func(c *ca, f *Files) { newCA(t, c.dir, "other", nil); f.CA = c.path("other.crt") }, "Cert", "server.crt: x509: certificate signed by unknown authority"},
		{"no authority", func(c *ca, f *Files) { f.CA = c.path("clinic.crt") }, "Cert", "signed by unknown authority"},
		{"no subjectAltName", issue("server", server, nil), "Cert", "server.crt: its subjectAltName"},
		{"the server's is for clients", issue("server", client, agg), "Cert", "server.crt: x509: certificate specifies an incompatible key usage"},
		{"a worker's is for servers", issue("clinic", server, agg), "Cert", "clinic.crt: x509: certificate specifies an incompatible key usage"},
		{"expired", issue("clinic", client, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), "Cert", "clinic.crt: x509: certificate has expired"},
		{"not yet valid", issue("server", server, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), "Cert", "not yet valid"},
		{"another common name", func(_ *ca, f *Files) { f.Names = []string{"hospital", "surgery"} }, "Names", `clinic.crt: its common name is "clinic", but the list has "surgery" in its place`},
		{"other order", func(_ *ca, f *Files) { f.Names = []string{"clinic", "hospital"} }, "Names", "hospital.crt: its common name"},
		{"no common name", func(c *ca, f *Files) {
			c.issue("clinic", client, func(c *x509.Certificate) { c.Subject = pkix.Name{}; agg(c) })
			f.Names[1] = ""
		}, "Names", `its common name is ""`},
		{"fewer names", func(_ *ca, f *Files) { f.Names = f.Names[1:] }, "Names", "there are 1 names for 2"},
		{"fewer keys", func(_ *ca, f *Files) { f.Key = f.Key[1:] }, "Key", "there are 2 keys for 3"},
		{"no certificates", func(_ *ca, f *Files) { f.Cert = nil }, "Cert", "there is no certificate"},
		{"the server's alone", func(c *ca, f *Files) { *f = *c.files("server") }, "Cert", "only the server's certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, f := federation(t)
			test.do(c, f)
			err := f.Check(true)
			var wrong *Error
			check.Need(t, errors.As(err, &wrong), "got %v", err)
			check.That(t, wrong.Field == test.field && strings.Contains(wrong.What, test.want) && !strings.Contains(wrong.What, "\n"),
				"got %s: %s", wrong.Field, wrong.What)
		})
	}
}
