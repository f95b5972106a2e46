// Package profile merges profiles of a session's processes and sums their samples by phase.
//
//   - [Merge] joins the pieces of all processes and blocks, which package capture takes.
//     Each sample of the result has the labels transport, model, process and, if known,
//     phase. A comment in the file holds the [Meta]; pprof can still read the file.
//   - The phase of a CPU sample is the label that package phase has set on the goroutine.
//     For goroutines of libraries, a table in rules.go maps functions to phases. Other
//     kinds of profile have no labels, so their samples get the phase of the call of
//     package transports on their stack, if any.
//   - [Summarize] sums values by phase and function.
//
// Only rules.go depends on particular transports. The package prints nothing.
package profile

import (
	"encoding/json"
	"fmt"
	"io"

	pprof "github.com/google/pprof/profile"

	"ipcbench/internal/profile/capture"
)

// A Meta describes the measurement that a profile belongs to.
type Meta struct {
	Kind      string `json:"kind"` // name of a kind in package capture
	Transport string `json:"transport"`
	Model     string `json:"model"`
	Workers   int    `json:"workers"`
	Clients   int    `json:"clients"`

	// Labels are the settings in which the cell differs from the default, by dimension.
	// Merge adds them to each sample.
	Labels map[string]string `json:"labels,omitempty"`

	Blocks    int   `json:"blocks"`
	Rounds    int   `json:"rounds"`
	Delivered int64 `json:"delivered_bytes"` // payload of these rounds; 0 if unknown
}

// A Profile is the merged profile of one kind of all processes of one cell.
type Profile struct {
	Meta
	*pprof.Profile
	index int // index of the value to sum; a sample may have several
}

// commentPrefix marks the comment of a profile that holds the Meta in JSON.
const commentPrefix = "ipcbench "

// values names the value to sum, by kind.
var values = map[string]string{
	capture.CPU: "cpu", capture.Heap: "inuse_space", capture.Allocs: "alloc_space", capture.Mutex: "delay", capture.Block: "delay",
}

// of returns p with its m and the index of the value to sum.
func of(m Meta, p *pprof.Profile) (*Profile, error) {
	for i, t := range p.SampleType {
		if t.Type == values[m.Kind] {
			return &Profile{Meta: m, Profile: p, index: i}, nil
		}
	}
	return nil, fmt.Errorf("has no value %q, which a profile of kind %q must have", values[m.Kind], m.Kind)
}

// Unit returns the unit in which p is shown: "s" or "B".
func (p *Profile) Unit() string {
	if p.SampleType[p.index].Unit == "bytes" {
		return "B"
	}
	return "s"
}

// value returns a sample's value to sum, in nanoseconds or bytes.
func (p *Profile) value(s *pprof.Sample) int64 { return s.Value[p.index] }

// Write writes the profile in pprof's format, with the Meta in a comment.
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
