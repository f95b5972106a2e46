package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/waiting"
)

const session = "5e55"

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// certified returns a worker process that hosts lanes l, certified as in a session.
func certified(a *Authority, l Lanes) *Worker {
	w := must(NewWorker(a.Certificate()))
	must(0, w.Certify(must(a.Sign(must(w.Request()), l))))
	return w
}

// forged returns a worker with a certificate that a would not issue, although its signature is a's.
func forged(a *Authority, change func(c *x509.Certificate)) *Worker {
	w := certified(a, Lanes{4, 7})
	c := *w.own.Leaf
	change(&c)
	w.own.Certificate = [][]byte{must(x509.CreateCertificate(rand.Reader, &c, a.cert, &w.key.PublicKey, a.key))}
	return w
}

// shake connects a server and a client. It returns the server's connection state and the error of each end. A client of
// TLS 1.3 learns that it was rejected when it reads.
func shake(t *testing.T, server, client *tls.Config) (state tls.ConnectionState, serverErr, clientErr error) {
	t.Helper()
	l := must(net.Listen("unix", t.TempDir()+"/s"))
	defer l.Close()
	c := must(net.Dial("unix", l.Addr().String()))
	s := must(l.Accept())
	for _, end := range []net.Conn{s, c} {
		waiting.Conn(t, end)
		defer end.Close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn := tls.Client(c, client)
		if _, clientErr = conn.Write([]byte{1}); clientErr == nil {
			_, clientErr = io.ReadFull(conn, make([]byte, 1))
		}
	}()
	conn := tls.Server(s, server)
	if _, serverErr = io.ReadFull(conn, make([]byte, 1)); serverErr == nil {
		_, serverErr = conn.Write([]byte{1})
	}
	<-done
	return conn.ConnectionState(), serverErr, clientErr
}

// TestWrong (O21): a client with a wrong certificate is rejected, and the errors of both ends give a reason.
func TestWrong(t *testing.T) {
	a, other := must(NewAuthority(session)), must(NewAuthority(session))
	right := func() *tls.Config { return certified(a, Lanes{4, 7}).Config() }
	with := func(c *tls.Config, change func(c *tls.Config)) *tls.Config { change(c); return c }
	for _, test := range []struct {
		name           string
		client         *tls.Config
		server, reason string // texts in the errors of the server and of the client
	}{
		{"right", right(), "", ""},
		{"another authority", func() *tls.Config {
			w := certified(a, Lanes{4, 7})
			w.own = certified(other, Lanes{4, 7}).own
			return w.Config()
		}(), "unknown authority", "unknown certificate authority"},
		{"expired", forged(a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }).Config(), "certificate has expired", "expired certificate"},
		{"not yet valid", forged(a, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }).Config(), "not yet valid", "expired certificate"},
		{"a server's certificate", forged(a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }).Config(), "incompatible key usage", "bad certificate"},
		{"no certificate", must(NewWorker(a.Certificate())).Config(), "didn't provide a certificate", "certificate required"},
		{"another's certificate, without its key", func() *tls.Config {
			w := certified(a, Lanes{4, 7})
			w.own.Certificate, w.own.Leaf = certified(a, Lanes{1, 1}).own.Certificate, nil
			return w.Config()
		}(), "invalid signature by the client certificate", "error decrypting message"},
		{"TLS 1.2", with(right(), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }), "unsupported versions", "protocol version not supported"},
		{"the client trusts another authority", with(right(), func(c *tls.Config) { c.RootCAs = must(NewWorker(other.Certificate())).authorities }), "bad certificate", "unknown authority"},
		{"the client wants another name", with(right(), func(c *tls.Config) { c.ServerName = "elsewhere" }), "bad certificate", "not elsewhere"},
	} {
		t.Run(test.name, func(t *testing.T) {
			state, server, client := shake(t, must(a.Server(true)), test.client)
			l, err := Of(state, session)
			if test.server == "" {
				check.OK(t, errors.Join(server, client, err))
				check.Equal(t, l, Lanes{4, 7}, "it speaks for")
				return
			}
			check.Fails(t, server, test.server, "at the server")
			check.Fails(t, client, test.reason, "at the client")
			check.That(t, err != nil, "it speaks for %v", l)
		})
	}
}

// TestOf: a valid certificate speaks for its lanes in its session, and for nothing else.
func TestOf(t *testing.T) {
	a := must(NewAuthority(session))
	named := func(texts ...string) *Worker {
		return forged(a, func(c *x509.Certificate) {
			c.URIs = nil
			for _, text := range texts {
				c.URIs = append(c.URIs, must(url.Parse(text)))
			}
		})
	}
	for _, test := range []struct {
		name string
		w    *Worker
		want string
	}{
		{"its own", certified(a, Lanes{0, 0}), "0"},
		{"several lanes", certified(a, Lanes{12, 15}), "12-15"},
		{"another session", named("ipcbench://ab/lanes/3"), `"ipcbench://ab/lanes/3", must name lanes of this session, such as ipcbench://5e55/lanes/4-7`},
		{"no name", named(), "0 names"},
		{"two names", named("ipcbench://5e55/lanes/3", "ipcbench://5e55/lanes/4"), "2 names"},
		{"another kind of name", named("spiffe://5e55/lanes/3"), "must name lanes of this session"},
		{"no lanes", named("ipcbench://5e55/lanes/"), "must name lanes of this session"},
	} {
		state, err, _ := shake(t, must(a.Server(true)), test.w.Config())
		l, of := Of(state, session)
		got := l.String()
		if of != nil {
			got = of.Error()
		}
		check.That(t, err == nil && strings.Contains(got, test.want), "%s: got %v (%v), want %s", test.name, got, err, test.want)
	}
	l := (Lanes{4, 7})
	check.That(t, !l.Has(3) && l.Has(4) && l.Has(7) && !l.Has(8), "4-7 are not 4 to 7")

	state, _, _ := shake(t, must(a.Server(false)), certified(a, Lanes{4, 7}).Config())
	l, err := Of(state, session)
	check.That(t, err != nil, "a server that asked for no certificate lets one speak for %v", l)
}

// TestConnection: connections use TLS 1.3, certificates have the decided lifetimes and serial numbers, and no session
// is resumed.
func TestConnection(t *testing.T) {
	a := must(NewAuthority(session))
	client := certified(a, Lanes{3, 3}).Config()
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	now := time.Now()
	for range 2 {
		state, err, _ := shake(t, must(a.Server(true)), client)
		check.Need(t, err == nil && state.Version == tls.VersionTLS13 && !state.DidResume,
			"version %x, resumed: %v: %v", state.Version, state.DidResume, err)
	}
	for _, c := range []*x509.Certificate{a.cert, must(client.GetClientCertificate(nil)).Leaf} {
		check.That(t, c.NotAfter.Unix() >= now.Add(lifetime-time.Hour).Unix() && c.NotBefore.Unix() <= now.Add(-skew/2).Unix() && c.SerialNumber.BitLen() >= 64,
			"%s: from %v to %v, number %v", c.Subject, c.NotBefore, c.NotAfter, c.SerialNumber)
	}
}

func request(key crypto.Signer, c *x509.CertificateRequest) []byte {
	return must(x509.CreateCertificateRequest(rand.Reader, c, key))
}

// speaksFor reports whether a certificate has this name and no other.
func speaksFor(c *x509.Certificate, name string) bool {
	return len(c.URIs) == 1 && c.URIs[0].String() == name && len(c.DNSNames) == 0 && !c.IsCA
}

// TestSign: of a certificate request, only the key is used, and only if the request proves possession of it.
func TestSign(t *testing.T) {
	a := must(NewAuthority(session))
	key := must(newKey())
	good := request(key, &x509.CertificateRequest{})
	forged := append([]byte(nil), good...)
	forged[len(forged)-1] ^= 1
	_, edwards, _ := ed25519.GenerateKey(rand.Reader)
	for _, test := range []struct {
		request []byte
		lanes   Lanes
		want    string
	}{
		{request(must(rsa.GenerateKey(rand.Reader, 2048)), &x509.CertificateRequest{}), Lanes{}, "type RSA, must be ECDSA on P-256"},
		{request(edwards, &x509.CertificateRequest{}), Lanes{}, "type Ed25519, must be"},
		{request(must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader)), &x509.CertificateRequest{}), Lanes{}, "must be ECDSA on P-256"},
		{request(key, &x509.CertificateRequest{DNSNames: []string{strings.Repeat("a", 3000)}}), Lanes{}, "must have at most 2048"},
		{forged, Lanes{}, "not signed with its own key"},
		{[]byte("-----BEGIN CERTIFICATE REQUEST-----"), Lanes{}, "certificate request: "},
		{nil, Lanes{}, "certificate request: "},
		{append(good[:len(good):len(good)], 0), Lanes{}, "trailing data"},
		{good, Lanes{3, 2}, "must be 0 or more"},
		{good, Lanes{-1, 2}, "must be 0 or more"},
	} {
		check.Fails(t, check.Err(a.Sign(test.request, test.lanes)), test.want)
	}

	greedy := request(key, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: ServerName}, DNSNames: []string{ServerName}, URIs: []*url.URL{Lanes{0, 99}.uri(session)},
	})
	c := must(x509.ParseCertificate(must(a.Sign(greedy, Lanes{2, 2}))))
	check.That(t, speaksFor(c, "ipcbench://5e55/lanes/2") && c.Subject.CommonName == "lanes 2", "a request gave itself names: %v %v %v", c.Subject, c.DNSNames, c.URIs)
}

// TestCertify: a worker accepts only the certificate that it requested.
func TestCertify(t *testing.T) {
	a, other := must(NewAuthority(session)), must(NewAuthority(session))
	w := must(NewWorker(a.Certificate()))
	check.That(t, w.Certify(certified(a, Lanes{}).own.Certificate[0]) != nil, "a certificate that nobody asked for was taken")
	mine := must(w.Request())
	for _, test := range []struct {
		name string
		cert []byte
		want string
	}{
		{"for another key", certified(a, Lanes{}).own.Certificate[0], "for another key"},
		{"of another authority", must(other.Sign(mine, Lanes{})), "unknown authority"},
		{"garbage", []byte("certificate"), "the signed certificate: "},
		{"empty", nil, "the signed certificate: "},
		{"too long", make([]byte, longest+1), "must have at most"},
	} {
		check.Fails(t, w.Certify(test.cert), test.want, test.name)
		check.Need(t, w.Config().GetClientCertificate == nil, "%s: it has a certificate", test.name)
	}
	for _, authority := range [][]byte{nil, []byte("authority"), make([]byte, longest+1), must(a.Sign(mine, Lanes{}))} {
		_, err := NewWorker(authority)
		check.That(t, err != nil, "%.20x is trusted as an authority", authority)
	}
}

// FuzzURI: a name of lanes is accepted in one form only.
func FuzzURI(f *testing.F) {
	for _, seed := range []string{"ipcbench://5e55/lanes/3", "ipcbench://u@5e55:80/lanes/3?q#f", "ipcbench:5e55/lanes/3", "ipcbench://5e55//lanes/3", "ipcbench://5e55/lanes/%33", "IPCBENCH://5E55/lanes/3-4"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		l, err := parse(u, session)
		check.That(t, err != nil || *u == *l.uri(session), "%q is %v", text, l)
	})
}

// FuzzSign: a signed certificate is for the key of the request and the lanes of the process.
func FuzzSign(f *testing.F) {
	key := must(newKey())
	f.Add(request(key, &x509.CertificateRequest{}))
	f.Add(request(key, &x509.CertificateRequest{DNSNames: []string{ServerName}}))
	f.Add([]byte{0x30, 0x80})
	a := must(NewAuthority(session))
	f.Fuzz(func(t *testing.T, request []byte) {
		der, err := a.Sign(request, Lanes{2, 3})
		if err != nil {
			return
		}
		c, r := must(x509.ParseCertificate(der)), must(x509.ParseCertificateRequest(request))
		check.That(t, c.PublicKey.(*ecdsa.PublicKey).Equal(r.PublicKey) && speaksFor(c, "ipcbench://5e55/lanes/2-3"), "%x gave %v for %v", request, c.Subject, c.URIs)
	})
}
