package identity

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// Files name keys and certificates that the user has, in PEM, as an OpenFL federation
// has them. A file of a certificate may hold those that lead from it to the authority,
// behind it.
type Files struct {
	CA    string   `json:"ca"`    // one or more authorities that are trusted
	Cert  []string `json:"cert"`  // the server's first, then those of worker processes
	Key   []string `json:"key"`   // of each certificate
	Names []string `json:"names"` // the common name of each worker process's certificate
}

// An Error says what is wrong with one of the [Files].
type Error struct {
	Field string // the field of Files that names the file
	What  string
	Mend  string // what to try, if that is known
}

func (e *Error) Error() string { return e.What }

// Zero reports whether there are none.
func (f *Files) Zero() bool {
	return f == nil || f.CA == "" && len(f.Cert) == 0 && len(f.Key) == 0 && len(f.Names) == 0
}

// Check reads all files and returns an [*Error] unless each is what its place demands.
// For mutual there must be a certificate for worker processes.
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
			return &Error{"Names", fmt.Sprintf("%s: its common name is %q, and at its place in the list is %q", f.Cert[1+process], cn, name),
				"name certificates and common names in the same order"}
		}
	}
	return nil
}

// complete returns what is missing, without a look into any file.
func (f *Files) complete(mutual bool) error {
	switch workers := len(f.Cert) - 1; {
	case workers < 0:
		return &Error{"Cert", "there is no certificate", "name the server's first, then those of worker processes"}
	case len(f.Key) != len(f.Cert):
		return &Error{"Key", fmt.Sprintf("want as many keys as certificates: there are %d and %d", len(f.Key), len(f.Cert)), "name the key of each certificate, in the same order"}
	case mutual && workers == 0:
		return &Error{"Cert", "there is only the server's certificate, and with tls=mutual worker processes need one, too", "name it behind the server's"}
	case len(f.Names) != workers:
		return &Error{"Names", fmt.Sprintf("want as many names as certificates of worker processes: there are %d and %d", len(f.Names), workers),
			"name the common name (CN) of each, in the same order, without the server's"}
	}
	return nil
}

// Server returns how the session's server accepts connections. ServerName is the name in
// its certificate that worker processes look for, and are told on the control channel.
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
	i := slices.IndexFunc(names, func(name string) bool { return !strings.Contains(name, "*") }) // of a whole domain: nobody can be asked for by that
	if i < 0 {
		return nil, &Error{"Cert", f.Cert[0] + ": it names no server: its subjectAltName has no DNS name (but for *) and no address, and a common name alone does not count",
			"sign it again with -addext subjectAltName=DNS:" + ServerName}
	}
	c.ServerName = names[i]
	return c, nil
}

// Worker returns the side of a worker process: processes have the certificates behind
// the server's in turn. It trusts the server of that name.
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

// Speaks returns nil if the other end of a connection may speak for this process: the
// common name of its certificate is the one at the process's place in the list.
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

// authorities returns those that are trusted.
func (f *Files) authorities() (*x509.CertPool, error) {
	all, err := certificates("CA", f.CA)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range all {
		if !c.IsCA {
			return nil, &Error{"CA", fmt.Sprintf("%s: the certificate of %.80q is not that of an authority (basicConstraints CA:TRUE)", f.CA, c.Subject.CommonName),
				"name the file of the authority that signed the others"}
		}
		pool.AddCert(c)
	}
	return pool, nil
}

// pair returns certificate i with its key, if it will be accepted.
func (f *Files) pair(i int, authorities *x509.CertPool, usage x509.ExtKeyUsage) (own tls.Certificate, err error) {
	chain, err := certificates("Cert", f.Cert[i])
	if err != nil {
		return own, err
	}
	file := f.Key[i]
	text, key, err := block("Key", file, "PRIVATE KEY")
	if err != nil {
		return own, err
	}
	if key.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(key.Headers["Proc-Type"], "ENCRYPTED") {
		return own, &Error{"Key", file + ": the key is encrypted, and nobody is asked for its password", "openssl pkey -in " + file + " -out NEW writes it without"}
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: chain[0].Raw})
	if own, err = tls.X509KeyPair(cert, text); err != nil {
		return own, &Error{"Key", fmt.Sprintf("%s, of %s: %s", file, f.Cert[i], strings.TrimPrefix(err.Error(), "tls: ")), "name the keys in the order of their certificates"}
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		own.Certificate = append(own.Certificate, c.Raw)
		between.AddCert(c)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return own, &Error{"Cert", fmt.Sprintf("%s: %s", f.Cert[i], strings.TrimPrefix(err.Error(), "x509: ")), whyNot(err, usage, f.CA)}
	}
	return own, nil
}

// whyNot returns what to try when a certificate cannot be verified.
func whyNot(err error, usage x509.ExtKeyUsage, ca string) string {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "sign it with an authority in " + ca + ", and put those in between behind it in its file"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "sign it again, or set the clock"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage && usage == x509.ExtKeyUsageServerAuth:
		return "the server's, which comes first, needs extendedKeyUsage=serverAuth"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return "those of worker processes need extendedKeyUsage=clientAuth"
	}
	return ""
}

// certificates reads a file of one or more.
func certificates(field, file string) (all []*x509.Certificate, err error) {
	text, b, err := block(field, file, "CERTIFICATE")
	for ; err == nil && b != nil; b, text = pem.Decode(text) {
		if b.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, &Error{Field: field, What: fmt.Sprintf("%s: %s", file, strings.TrimPrefix(err.Error(), "x509: "))}
		}
		all = append(all, c)
	}
	return all, err
}

// block reads a file and returns it from the first block on whose type ends in kind.
func block(field, file, kind string) (text []byte, b *pem.Block, err error) {
	if text, err = read(field, file); err != nil {
		return nil, nil, err
	}
	seen := ""
	for {
		b, rest := pem.Decode(text)
		switch {
		case b == nil && seen != "":
			return nil, nil, &Error{field, fmt.Sprintf("%s: there is no %s in it, but a %.40q", file, kind, seen), "name the file that has it"}
		case b == nil:
			return nil, nil, &Error{field, fmt.Sprintf("%s: there is no %s in PEM in it", file, kind), "a file in DER becomes PEM by openssl x509 or openssl pkey, with -inform DER"}
		case strings.HasSuffix(b.Type, kind):
			return text, b, nil
		}
		seen, text = b.Type, rest
	}
}

// read reads a file. A key must not be there for others to read, as OpenSSH and
// PostgreSQL demand; a group may read it, as Debian's ssl-cert does.
func read(field, file string) ([]byte, error) {
	const most = 1 << 20
	wrong := func(err error) *Error {
		if p := (*fs.PathError)(nil); errors.As(err, &p) {
			err = p.Err
		}
		return &Error{Field: field, What: fmt.Sprintf("%s: %v", file, err)}
	}
	r, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to blocks nothing
	if err != nil {
		return nil, wrong(err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("no regular file")
	}
	if err != nil {
		return nil, wrong(err)
	}
	if field == "Key" && info.Mode().Perm()&0o007 != 0 {
		return nil, &Error{field, file + ": others on this machine may read or change the key", "chmod 600 " + file}
	}
	text, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, wrong(err)
	}
	if len(text) > most {
		return nil, wrong(fmt.Errorf("more than %d bytes: that is no such file", most))
	}
	return text, nil
}
