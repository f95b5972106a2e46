// Package profile merges the profiles of all processes of a session (package capture
// takes them), says which phase each sample belongs to, and computes what is shown.
//
//   - [Merge] joins the pieces of all processes and blocks. Every sample of the
//     result is labelled with transport, model, process and, if it has one, phase.
//     What it was made of stands in a comment of the file, which stays an ordinary
//     one: go tool pprof reads it.
//   - A CPU sample's phase is the label that package phase has put on the
//     goroutine. Goroutines of libraries, and kinds of profile that have no labels,
//     get theirs from the rules in rules.go: one table, each entry a function and
//     what it does. A sample that no entry names has no phase.
//   - [Summarize] and [Compare] count; [WriteFlame] and [Serve] are pprof's own
//     views.
//
// Only that table knows transports. The package prints nothing.
package profile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	pprof "github.com/google/pprof/profile"

	"ipcbench/internal/legible"
	"ipcbench/phase"
	"ipcbench/profile/capture"
)

// A Meta says what a profile is of.
type Meta struct {
	Kind      string `json:"kind"` // see package capture
	Transport string `json:"transport"`
	Model     string `json:"model"`
	Workers   int    `json:"workers"`
	Clients   int    `json:"clients"`
	Blocks    int    `json:"blocks"`
	Rounds    int    `json:"rounds"`
	Delivered int64  `json:"delivered_bytes"` // payload of these rounds; 0 is unknown
}

// Title names what was profiled.
func (m Meta) Title() string {
	if m.Transport == "" {
		return m.Kind
	}
	return fmt.Sprintf("%s of %s %s workers=%d clients=%d", m.Kind, m.Transport, m.Model, m.Workers, m.Clients)
}

// perGB returns a value per delivered GB, if that is known.
func (m Meta) perGB(value int64) float64 {
	return float64(value) / (float64(m.Delivered) / 1e9)
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

// Write writes the profile as go tool pprof reads it.
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

// largest is the size of a profile that is not read any more.
const largest = 256 << 20

// ReadFile reads a profile that Write has written, or one that go test has
// written of a benchmark of ipcbench. Its errors name the file.
func ReadFile(path string) (*Profile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// read reads what ReadFile reads.
func read(r io.Reader) (*Profile, error) {
	data, err := io.ReadAll(io.LimitReader(r, largest+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > largest:
		return nil, fmt.Errorf("larger than %d bytes: not a profile of ipcbench", largest)
	case len(data) == 0:
		return nil, errors.New("empty file: not a profile of ipcbench")
	}
	if data, err = unzip(data); err != nil {
		return nil, err
	}
	if err := safe(data); err != nil {
		return nil, err
	}
	p, err := pprof.ParseUncompressed(data)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("not a profile: %w", err)
	}
	for _, c := range p.Comments {
		text, ok := strings.CutPrefix(c, commentPrefix)
		if !ok {
			continue
		}
		var m Meta
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return nil, fmt.Errorf("comment %q: %w", c, err)
		}
		if err := legible.Check(m.Kind + m.Transport + m.Model); err != nil {
			return nil, fmt.Errorf("comment %q: %w", c, err)
		}
		return of(m, p)
	}
	return raw(p)
}

// raw makes a Profile of one that go test has taken of a benchmark's server, which
// ipcbench has labelled but not merged.
func raw(p *pprof.Profile) (*Profile, error) {
	ours := false
	for _, s := range p.Sample {
		ours = ours || len(s.Label[phase.LabelProcess]) > 0
	}
	if !ours {
		return nil, errors.New("a profile, but not one of ipcbench: no sample has its labels")
	}
	tidy(p, map[string]string{phase.LabelProcess: phase.ServerProcess}) // whose own process it is
	return of(Meta{Kind: capture.CPU}, p)
}

// unzip returns what data holds, which is compressed as a rule.
func unzip(data []byte) ([]byte, error) {
	if !bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return data, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("not a profile: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, largest+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("truncated: ends after %d bytes", len(data))
	case err != nil:
		return nil, fmt.Errorf("not a profile: %w", err)
	case len(plain) > largest:
		return nil, fmt.Errorf("larger than %d bytes: not a profile of ipcbench", largest)
	}
	return plain, nil
}
