package result

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"ipcbench/internal/machine"
)

// Names of the two builds of a run with --against.
const (
	Base = "base" // the other build
	Head = "head" // the measuring build
)

// A Program ran blocks in processes of its own: a build of ipcbench, or a peer.
type Program struct {
	// `base` or `head` for a build; a peer is named like the transport of its cells
	Name string `json:"name" check:"name"`
	// command of the peer, or file of the reference row; absent for a build
	Command string `json:"command,omitempty"`
	// executables of a build, each with another layout; block i of a cell runs in layout i,
	// modulo the length of the list; absent for a peer
	Layouts []Layout `json:"layouts,omitempty"`
	// environment of the other build: the same machine, its own commit; absent for other programs
	Environment *machine.Environment `json:"environment,omitempty"`
	// software versions, as reported by a peer; absent for a build
	Software map[string]string `json:"software,omitempty" check:"name"`
}

// A Layout is one linking of a build's functions, in an executable.
type Layout struct {
	File   string `json:"file" check:"name"` // name of the executable, without its folder
	SHA256 string `json:"sha256"`            // SHA-256 of its bytes, in hex digits
}

// ProgramOf returns the program that ran the cell, or nil if the measuring process was the server.
func (r *Result) ProgramOf(c *Cell) *Program {
	i := slices.IndexFunc(r.Programs, func(p Program) bool { return p.Name == c.Program })
	if i < 0 {
		return nil
	}
	return &r.Programs[i]
}

// IsPeer reports whether a peer ran the cell.
func (c *Cell) IsPeer() bool { return c.Program != "" && c.Program == c.Transport }

// Build returns the name of the build that ran the cell, if the run has several; else empty.
func (c *Cell) Build() string {
	if c.IsPeer() {
		return ""
	}
	return c.Program
}

func (p Program) validate() error {
	for i, l := range p.Layouts {
		if sum, err := hex.DecodeString(l.SHA256); err != nil || len(sum) != sha256.Size {
			return Errorf(index("layouts", i)+".sha256", "%.70q: must be %d hex digits", l.SHA256, 2*sha256.Size)
		}
	}
	if err := unique("layouts", p.Layouts, func(l Layout) string { return l.SHA256 }); err != nil {
		return err
	}
	return CheckSoftware(p.Software)
}
