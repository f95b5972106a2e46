// Package identity makes keys, certificates and TLS configurations for a session. Its server and its
// worker processes authenticate each other with them.
//
// Requests, certificates and files of strangers enter; certificates and a [tls.Config] for each end
// leave. An [Authority] exists in memory for one session. A key is made in the process that uses it,
// and never leaves that process. A [Worker] sends a request (PKCS #10, RFC 2986), and the authority
// signs a certificate (RFC 5280) for the lanes that the worker process hosts. All end with the session.
// [Files] are the alternative: the user's own authority, and a list of common names, as in OpenFL.
//
// Connections use TLS 1.3 only (RFC 8446), without session tickets, so that both ends prove their
// identity on every connection. Go's crypto/tls and crypto/x509 check that the peer has the
// certificate's key, that the authority signed the certificate, and that the certificate is valid now
// and for this end of a connection (extended key usage). A worker also checks the server's name in the
// subjectAltName. This package checks that a worker's certificate names this session and the lane it is
// used for. With Files it checks instead that the common name is on the list, at the place of the
// process that hosts the lane.
//
// Revocation is not checked: to revoke a certificate, remove its name from the list. Root and processes
// of the same user can read a process's memory and files, so nothing here is secret from them.
package identity
