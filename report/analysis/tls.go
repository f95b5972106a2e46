package analysis

import (
	"cmp"
	"slices"

	"ipcbench/bench/stat"
)

// The settings tls of what travels in the clear, and of what has certificates at both
// ends.
const (
	NoTLS     = "off"
	MutualTLS = "mutual"
)

// TLS returns how the cell's connections are encrypted: off, on or mutual.
func (c *Cell) TLS() string { return cmp.Or(c.Settings["tls"], NoTLS) }

// InTheClear is the cell's variant but for its TLS.
func (c *Cell) InTheClear() string { return c.without("tls") }

// A Tunnel is one transport in one work with and without TLS: cells that differ in the
// setting tls alone. What was not measured is nil.
type Tunnel struct{ Plain, On, Mutual *Cell }

// Tunnels returns those of all transports that were measured with TLS.
func (r *Result) Tunnels() []Tunnel {
	known := slices.DeleteFunc(slices.Clone(r.Cells), func(c *Cell) bool { return !c.Of("round").Known() })
	var all []Tunnel
	for _, cells := range GroupBy(known, func(c *Cell) alike { return alike{c.Group(), c.InTheClear(), c.Language} }) {
		var t Tunnel
		for _, c := range cells {
			switch c.TLS() {
			case NoTLS:
				t.Plain = c
			case MutualTLS:
				t.Mutual = c
			default:
				t.On = c
			}
		}
		if t.Most() != nil {
			all = append(all, t)
		}
	}
	return all
}

// Cells are those that were measured, that in the clear first.
func (t Tunnel) Cells() []*Cell {
	return slices.DeleteFunc([]*Cell{t.Plain, t.On, t.Mutual}, func(c *Cell) bool { return c == nil })
}

// Most returns the cell with certificates at both ends, or else at the server alone.
func (t Tunnel) Most() *Cell { return cmp.Or(t.Mutual, t.On) }

// Ratio returns a sampled metric of a cell with TLS over that of the one in the clear. It
// is not Known where there is none.
func (t Tunnel) Ratio(metric string, c *Cell) stat.Interval {
	if t.Plain == nil || c == t.Plain {
		return stat.None()
	}
	return c.Ratio(metric, t.Plain)
}

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
