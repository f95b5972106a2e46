package identity

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Files are paths of the user's own keys and certificates in PEM, as in an OpenFL
// federation. A certificate may be followed, in the same file, by the intermediate
// certificates between it and the authority.
type Files struct {
	CA    string   `json:"ca"`    // one or more trusted authorities
	Cert  []string `json:"cert"`  // the server's certificate, then the worker processes' certificates
	Key   []string `json:"key"`   // keys, one per certificate
	Names []string `json:"names"` // common names of the certificates for worker processes
}

// An Error describes a problem with one of the [Files].
type Error struct {
	Field string // name of the field of Files
	What  string
}

func (e *Error) Error() string { return e.What }

func wrong(field, format string, args ...any) error {
	return &Error{field, fmt.Sprintf(format, args...)}
}

// Zero reports whether f is nil or names no files.
func (f *Files) Zero() bool {
	return f == nil || f.CA == "" && len(f.Cert) == 0 && len(f.Key) == 0 && len(f.Names) == 0
}

// Check reads all files and returns an [*Error] if one is missing or invalid, or if a
// common name differs from the list. mutual requires a certificate for worker processes.
func (f *Files) Check(mutual bool) error {
	if _, err := f.Server(mutual); err != nil {
		return err
	}
	for process, name := range f.Names {
		w, err := f.Worker(process, "")
		if err != nil {
			return err
		}
		if cn := w.own.Leaf.Subject.CommonName; cn != name || name == "" {
			return wrong("Names", "%s: its common name is %q, but the list has %q in its place", f.Cert[1+process], cn, name)
		}
	}
	return nil
}

// complete returns an error if files or names are missing. It reads no file.
func (f *Files) complete(mutual bool) error {
	switch workers := len(f.Cert) - 1; {
	case workers < 0:
		return wrong("Cert", "there is no certificate: the server's comes first, then those of worker processes")
	case len(f.Key) != len(f.Cert):
		return wrong("Key", "there are %d keys for %d certificates: each certificate needs its own key, in the same order", len(f.Key), len(f.Cert))
	case mutual && workers == 0:
		return wrong("Cert", "there is only the server's certificate, but with tls=mutual worker processes need one, too")
	case len(f.Names) != workers:
		return wrong("Names", "there are %d names for %d certificates of worker processes: each needs its common name (CN), in the same order", len(f.Names), workers)
	}
	return nil
}

// Server returns the TLS configuration of the session's server. Its ServerName is the
// name in the server's certificate that worker processes must check. They get it on the
// control channel.
func (f *Files) Server(mutual bool) (*tls.Config, error) {
	if err := f.complete(mutual); err != nil {
		return nil, err
	}
	authorities, err := f.authorities()
	if err != nil {
		return nil, err
	}
	own, err := f.pair(0, authorities, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return nil, err
	}
	c := server(own, authorities, mutual)
	names := own.Leaf.DNSNames
	for _, ip := range own.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	i := slices.IndexFunc(names, func(name string) bool { return !strings.Contains(name, "*") }) // *.example.org names no single server
	if i < 0 {
		return nil, wrong("Cert", "%s: its subjectAltName has no DNS name without * and no address, and a common name alone is not enough: sign it again with -addext subjectAltName=DNS:%s", f.Cert[0], ServerName)
	}
	c.ServerName = names[i]
	return c, nil
}

// Worker returns the settings of a worker process that trusts the server of that name.
// Processes use the certificates after the server's in turn, again from the first after
// the last.
func (f *Files) Worker(process int, serverName string) (*Worker, error) {
	authorities, err := f.authorities()
	if err != nil {
		return nil, err
	}
	w := &Worker{authorities: authorities, server: serverName}
	if workers := len(f.Cert) - 1; workers > 0 {
		w.own, err = f.pair(1+process%workers, authorities, x509.ExtKeyUsageClientAuth)
	}
	return w, err
}

// Speaks returns nil if the peer may act for the given process: the common name of its
// certificate must be at the process's place in the list.
func (f *Files) Speaks(state tls.ConnectionState, process int) error {
	c, err := verified(state)
	if err != nil {
		return err
	}
	name := c.Subject.CommonName
	switch {
	case !slices.Contains(f.Names, name):
		return fmt.Errorf("the certificate's common name is %.80q, which is not on the list of names", name)
	case f.Names[process%len(f.Names)] != name:
		return fmt.Errorf("the certificate's common name is %.80q: process %d is %.80q", name, process, f.Names[process%len(f.Names)])
	}
	return nil
}

func (f *Files) authorities() (*x509.CertPool, error) {
	text, err := read("CA", f.CA)
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = wrong("CA", "%s: there is no PEM certificate in it", f.CA)
	}
	return pool, err
}

// pair returns certificate i with its key, after checking that peers will accept it for
// the given usage.
func (f *Files) pair(i int, authorities *x509.CertPool, usage x509.ExtKeyUsage) (own tls.Certificate, err error) {
	cert, err := read("Cert", f.Cert[i])
	if err != nil {
		return own, err
	}
	key, err := read("Key", f.Key[i])
	if err != nil {
		return own, err
	}
	if bytes.Contains(key, []byte("ENCRYPTED")) { // crypto/tls would report another error
		return own, wrong("Key", "%s: the key is encrypted, but there is no way to enter its password: decrypt it with openssl pkey -in %[1]s -out NEW", f.Key[i])
	}
	if own, err = tls.X509KeyPair(cert, key); err != nil {
		return own, wrong("Cert", "%s, with the key in %s: %v", f.Cert[i], f.Key[i], err)
	}
	between := x509.NewCertPool()
	between.AppendCertsFromPEM(cert)
	_, err = own.Leaf.Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return own, wrong("Cert", "%s: %v", f.Cert[i], err)
	}
	return own, nil
}

// read reads a file. A key must not be accessible to all users, as OpenSSH and
// PostgreSQL demand. A group may read it, as in Debian's ssl-cert.
func read(field, file string) ([]byte, error) {
	const most = 1 << 20
	r, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // so that opening a pipe without a writer does not block
	if err != nil {
		return nil, wrong(field, "%v", err)
	}
	defer r.Close()
	info, err := r.Stat()
	switch {
	case err != nil:
		return nil, wrong(field, "%v", err)
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, wrong(field, "%s: must be a regular file of at most %d bytes", file, most)
	case field == "Key" && info.Mode().Perm()&0o007 != 0:
		return nil, wrong(field, "%s: all users of this machine can read or change the key: use chmod 600 %[1]s", file)
	}
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return nil, wrong(field, "%v", err)
	}
	return text, nil
}
