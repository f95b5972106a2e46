package bench

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/profile"
	"ipcbench/internal/profile/capture"
	"ipcbench/phase"
	"ipcbench/trainer"
)

// Profiling selects the profiles that a run takes after all cells are measured.
type Profiling struct {
	Kinds []string // names from package capture
	Dir   string   // existing directory for the files, which results refer to by its last element
}

// A cell is profiled in 2 to 8 blocks, until their timed rounds have taken profiledTime,
// or the plan's time if that is less. At 100 samples per second and processor, 2 s are
// enough to distinguish a tenth from a fifth.
const (
	profiledTime   = 2 * time.Second
	fewestProfiled = 2
	mostProfiled   = 8
)

// groups returns the selected kinds in groups; kinds of one group are taken in the same
// blocks.
func (p Profiling) groups() [][]string {
	var groups [][]string
	var last string // kinds of a group are adjacent in the list
	for _, k := range capture.Kinds() {
		switch n := len(groups); {
		case !slices.Contains(p.Kinds, k.Name):
			continue
		case k.Group == last:
			groups[n-1] = append(groups[n-1], k.Name)
		default:
			groups = append(groups, []string{k.Name})
		}
		last = k.Group
	}
	return groups
}

// profileSteps creates the profiling steps, one for each cell and group of kinds.
func (r *run) profileSteps(ctx, quit context.Context) (steps []*step) {
	for _, c := range r.cells {
		if c.canary != "" {
			continue
		}
		for _, kinds := range r.Profiling.groups() {
			steps = append(steps, &step{cell: c, run: func() error { return r.profileCell(ctx, quit, c, kinds) }})
		}
	}
	return steps
}

// profiles runs all profiling steps in random order. Times of profiled blocks are not
// used, and if a step fails, earlier results remain.
func (r *run) profiles(quit context.Context) error {
	r.order().Shuffle(len(r.profiling), func(i, j int) { r.profiling[i], r.profiling[j] = r.profiling[j], r.profiling[i] })
	for _, s := range r.profiling {
		if len(s.cell.result.Blocks) == 0 {
			continue
		}
		if err := r.do(quit, s); err != nil {
			return err
		}
	}
	for _, c := range r.cells { // by kind, instead of in the random order in which they were taken
		slices.SortFunc(c.result.Profiles, func(a, b result.Profile) int { return rank(a.Kind) - rank(b.Kind) })
	}
	return nil
}

func rank(kind string) int {
	return slices.IndexFunc(capture.Kinds(), func(k capture.Kind) bool { return k.Name == kind })
}

func (r *run) profileCell(ctx, quit context.Context, c *cell, kinds []string) error {
	p := result.Profile{First: len(c.result.Blocks)}
	var parts []profile.Part
	var spent time.Duration
	enough := min(profiledTime, r.Plan.Time)
	for p.Blocks < mostProfiled && (p.Blocks < fewestProfiled || spent < enough && r.Plan.Rounds == 0) {
		s := &session.Run{Profiling: &trainer.Profiling{
			Transport: c.result.Variant, Model: c.result.Model.Label(), Kinds: kinds,
		}}
		what := "profile " + strings.Join(kinds, ", ")
		if err := r.next(ctx, quit, c, s, r.label(c)+", "+what); err != nil {
			return fmt.Errorf("%s: %s: %w", c, what, err)
		}
		b := s.Block
		if len(b.Round) == 0 {
			return nil
		}
		if !slices.ContainsFunc(c.result.Blocks, func(b result.Block) bool { return b.Timeline != nil }) {
			b.Timeline = s.Timeline() // the cell's only one
		}
		c.result.Blocks = append(c.result.Blocks, *b)
		p.Blocks, p.Rounds = p.Blocks+1, p.Rounds+len(b.Round)
		spent += b.RoundTime()
		parts = append(parts, profile.Part{Process: phase.ServerProcess, Pieces: s.Report.Server.Profiles})
		for i, w := range s.Report.Processes {
			parts = append(parts, profile.Part{Process: trainer.ProcessName(i), Pieces: w.Profiles})
		}
		if slices.Contains(kinds, capture.Trace) {
			break // one file per process has room for one block only
		}
	}
	for _, kind := range kinds {
		p.Kind, p.Files, p.Summary = kind, nil, nil
		if err := r.writeProfile(c, &p, parts); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
		c.result.Profiles = append(c.result.Profiles, p)
	}
	return nil
}

func (r *run) writeProfile(c *cell, p *result.Profile, parts []profile.Part) error {
	base := r.profileName(c)
	keep := func(name string, write func(io.Writer) error) error {
		if err := result.ReplaceFile(filepath.Join(r.Profiling.Dir, name), write); err != nil {
			return fmt.Errorf("write profile: %w", err)
		}
		p.Files = append(p.Files, filepath.Join(filepath.Base(r.Profiling.Dir), name))
		return nil
	}
	if p.Kind == capture.Trace {
		for _, part := range parts {
			for _, piece := range part.Pieces {
				name := fmt.Sprintf("%s.%s.trace", base, part.Process)
				if err := keep(name, func(w io.Writer) error { _, err := w.Write(piece.Data); return err }); err != nil {
					return err
				}
			}
		}
		return nil
	}
	labels := map[string]string{}
	for _, d := range c.result.Unusual() {
		labels[d.Key] = d.Of(c.result.Setup)
	}
	merged, err := profile.Merge(profile.Meta{
		Kind: p.Kind, Transport: c.result.Variant, Model: c.result.Model.Label(), Workers: c.Workers, Clients: c.Clients,
		Labels: labels, Blocks: p.Blocks, Rounds: p.Rounds, Delivered: c.result.Payload() * int64(p.Rounds),
	}, parts)
	if err != nil {
		return err
	}
	p.Summary = profile.Summarize(merged, summaryFunctions)
	return keep(base+"."+p.Kind+".pb.gz", merged.Write)
}

// summaryFunctions is the number of functions per phase in a result; the profile's file
// has all.
const summaryFunctions = 5

// notInNames matches the characters of a cell's name that are replaced in file names.
var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// profileName returns the prefix of the names of the cell's files, distinct for each
// cell.
func (r *run) profileName(c *cell) string {
	clean := func(text string) string { return notInNames.ReplaceAllString(text, "-") }
	name, i := clean(c.result.ID()), slices.Index(r.cells, c)
	if slices.ContainsFunc(r.cells[:i], func(d *cell) bool { return clean(d.result.ID()) == name }) {
		return fmt.Sprintf("%s.%d", name, i) // an earlier cell's name differs in replaced characters only
	}
	return name
}
