package metrics

import (
	"cmp"
	"slices"

	"ipcbench/internal/link"
)

// The settings tls of what travels in the clear, and of what has certificates at both
// ends.
const (
	NoTLS     = "off"
	MutualTLS = "mutual"
)

// OverTCP reports whether the cell's tensors go over TCP.
func (c *Cell) OverTCP() bool { return c.Link != link.Rate{} || c.Settings["network"] == "tcp" }

// TLS returns how the cell's connections are encrypted: off, on or mutual.
func (c *Cell) TLS() string { return cmp.Or(c.Settings["tls"], NoTLS) }

// InTheClear is the cell's variant but for its TLS.
func (c *Cell) InTheClear() string { return c.without("tls") }

// Ciphers returns the cipher suites of the cell's connections.
func (c *Cell) Ciphers() []string {
	var all []string
	for _, b := range c.timed {
		if b.TLS != nil && b.TLS.Cipher != "" && !slices.Contains(all, b.TLS.Cipher) {
			all = append(all, b.TLS.Cipher)
		}
	}
	return all
}
