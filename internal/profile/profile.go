// Package profile merges the profiles of all processes of a session (package capture
// takes them), says which phase each sample belongs to, and computes what is shown.
//
//   - [Merge] joins the pieces of all processes and blocks. Every sample of the
//     result is labelled with transport, model, process and, if it has one, phase.
//     What it was made of stands in a comment of the file, which stays an ordinary
//     one: pprof reads it.
//   - A CPU sample's phase is the label that package phase has put on the goroutine.
//     Goroutines of libraries get theirs from a table in rules.go, each entry a
//     function and what it does. Other kinds of profile have no labels: their samples
//     have the phase of the call of package transports that they are in, if any.
//   - [Summarize] counts by phase.
//
// Only rules.go knows transports. The package prints nothing.
package profile

import (
	"encoding/json"
	"fmt"
	"io"

	pprof "github.com/google/pprof/profile"

	"ipcbench/internal/profile/capture"
)

// A Meta says what a profile is of.
type Meta struct {
	Kind      string `json:"kind"` // see package capture
	Transport string `json:"transport"`
	Model     string `json:"model"`
	Workers   int    `json:"workers"`
	Clients   int    `json:"clients"`

	// Labels has what the cell does differently from the usual one, by its dimensions:
	// each sample has these labels too.
	Labels map[string]string `json:"labels,omitempty"`

	Blocks    int   `json:"blocks"`
	Rounds    int   `json:"rounds"`
	Delivered int64 `json:"delivered_bytes"` // payload of these rounds; 0 is unknown
}

// A Profile is a profile of one kind of one cell, all processes together.
type Profile struct {
	Meta
	*pprof.Profile
	index int // of the value that counts
}

// commentPrefix is before the Meta among a profile's comments.
const commentPrefix = "ipcbench "

// values names the value that counts, by kind.
var values = map[string]string{
	capture.CPU: "cpu", capture.Heap: "inuse_space", capture.Allocs: "alloc_space", capture.Mutex: "delay", capture.Block: "delay",
}

// of finds the value that counts in p.
func of(m Meta, p *pprof.Profile) (*Profile, error) {
	for i, t := range p.SampleType {
		if t.Type == values[m.Kind] {
			return &Profile{Meta: m, Profile: p, index: i}, nil
		}
	}
	return nil, fmt.Errorf("holds no value %q, which a profile of kind %q has", values[m.Kind], m.Kind)
}

// Unit returns the unit of the value that counts: s or B.
func (p *Profile) Unit() string {
	if p.SampleType[p.index].Unit == "bytes" {
		return "B"
	}
	return "s"
}

// value returns a sample's value in nanoseconds or bytes.
func (p *Profile) value(s *pprof.Sample) int64 { return s.Value[p.index] }

// Write writes the profile as pprof reads it.
func (p *Profile) Write(w io.Writer) error {
	meta, err := json.Marshal(p.Meta)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	p.Comments = []string{commentPrefix + string(meta)}
	p.DefaultSampleType = p.SampleType[p.index].Type
	if err := p.Profile.Write(w); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}
