// Package identity says who is at the other end of a connection: keys, certificates
// and the settings of TLS for a session's server and its worker processes.
//
// An [Authority] is made in memory for one session. Keys are made in the process that
// uses them and never leave it: a [Worker] sends a request (PKCS #10, RFC 2986), and
// the authority signs a certificate (RFC 5280) for the lanes that this process hosts.
// Authority, keys and certificates end with the session. [Files] are the other way:
// an authority of the user's own and common names on a list, as OpenFL has them.
//
// Connections are TLS 1.3 and nothing older (RFC 8446), without session tickets, so
// that each one proves who its ends are. What Go's crypto/tls and crypto/x509 check of
// the other end: that it has the certificate's key; that the certificate leads to the
// authority, is in time, and is for this end of a connection (extended key usage); and
// the server's name in its subjectAltName. What is checked here: that a worker's
// certificate names this session and the lane that it speaks for, or that its common
// name is on the list, at the place of the process that hosts the lane.
//
// Not checked is whether a certificate was revoked: nothing is looked up, and one that
// should count no more is taken off the list. Nothing here is secret from root or from
// the same user, who can read a process's memory and its files.
package identity
