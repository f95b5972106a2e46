package result

import (
	"cmp"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"ipcbench/phase"
)

// Validate returns an error for the first value that no run could have written, with its place
// in the file, such as cells[0].blocks.
func (r *Result) Validate() error {
	if err := r.ValidateHead(); err != nil {
		return err
	}
	if len(r.Cells) == 0 && r.Partial == "" {
		return errors.New("cells: must not be empty")
	}
	if err := each("cells", r.Cells, r.validate); err != nil {
		return err
	}
	err := unique("cells", r.Cells, func(c Cell) string { return strings.TrimSpace(c.Build() + " " + c.ID()) })
	if err != nil || r.Canary == nil {
		return err
	}
	return cmp.Or(At("canary.same", r.validate(r.Canary.Same)), At("canary.slow", r.validate(r.Canary.Slow)))
}

// ValidateHead is [Result.Validate] without the checks that need measured cells.
func (r *Result) ValidateHead() error {
	if r.Schema != Schema {
		return Errorf("schema", "version %d: this ipcbench writes version %d", r.Schema, Schema)
	}
	if err := Check(r); err != nil {
		return err
	}
	return cmp.Or(
		each("floors", r.Floors, Floor.validate),
		each("programs", r.Programs, Program.validate),
		unique("hosts", r.Hosts, func(h Host) string { return h.Name }),
		unique("programs", r.Programs, func(p Program) string { return p.Name }),
	)
}

// each returns the first error of check, with the place of the entry.
func each[T any](place string, all []T, check func(T) error) error {
	for i, x := range all {
		if err := check(x); err != nil {
			return At(index(place, i), err)
		}
	}
	return nil
}

// unique returns an error for an entry with the name of an earlier one.
func unique[T any](place string, all []T, name func(T) string) error {
	seen := map[string]int{}
	for i, x := range all {
		if j, ok := seen[name(x)]; ok {
			return Errorf(index(place, i), "the same as %s: %s", index(place, j), name(x))
		}
		seen[name(x)] = i
	}
	return nil
}

func (f Floor) validate() error {
	if len(f.Blocks) == 0 {
		return Errorf("blocks", "must not be empty")
	}
	for i, b := range f.Blocks {
		if len(b) == 0 {
			return Errorf(index("blocks", i), "no samples")
		}
		for j, x := range b {
			if !(x > 0 && x < float64(maxCount)) {
				return Errorf(index(index("blocks", i), j), "%v: must be a positive number", x)
			}
		}
	}
	return nil
}

// validate checks conditions that the tags of fields cannot express.
func (r *Result) validate(c Cell) error {
	if err := c.ValidateHead(); err != nil {
		return err
	}
	program := r.ProgramOf(&c)
	switch {
	case c.Program != "" && program == nil:
		return Errorf("program", "%.40q: must be the name of one of %d programs", c.Program, len(r.Programs))
	case len(c.Blocks) == 0:
		return Errorf("blocks", "must not be empty")
	}
	layouts := 1
	if program != nil {
		layouts = max(layouts, len(program.Layouts))
	}
	err := each("blocks", c.Blocks, func(b Block) error {
		if b.Layout >= layouts {
			return Errorf("layout", "%d: must be less than %d, the number of layouts of its program", b.Layout, layouts)
		}
		return b.Validate(c.Clients)
	})
	if err != nil {
		return err
	}
	return each("profiles", c.Profiles, func(p Profile) error {
		switch i := slices.IndexFunc(p.Files, func(f string) bool { return !filepath.IsLocal(f) }); {
		case len(p.Files) == 0:
			return Errorf("files", "must not be empty")
		case i >= 0:
			return Errorf(index("files", i), "%q: must be a path inside the folder of the result", p.Files[i])
		case p.First > len(c.Blocks)-p.Blocks:
			return Errorf("first_block", "%d: the cell has only %d blocks, and %d are profiled", p.First, len(c.Blocks), p.Blocks)
		}
		return nil
	})
}

// MaxSoftware is the maximum number of versions of software.
const MaxSoftware = 32

// ValidateHead is the part of the validation that does not need measured blocks.
func (c Cell) ValidateHead() error {
	most := maxCount / int64(max(1, c.Clients))
	switch {
	case c.Model.Up == "" && (c.UpTensors != 0 || c.UpBytes != 0):
		return Errorf("up", "missing, although the update has %d tensors and %d bytes", c.UpTensors, c.UpBytes)
	case c.Model.Bytes > most:
		return Errorf("model_bytes", "%d: must be at most %d", c.Model.Bytes, most)
	case c.UpBytes > most:
		return Errorf("up_bytes", "%d: must be at most %d", c.UpBytes, most)
	case c.Train != "" && c.Language == "":
		return Errorf("train", "must be absent, because the workers are not in Python")
	case c.Unproved != "" && !c.IsPeer():
		return Errorf("unproved", "%.40q: must be absent, because no peer ran the cell", c.Unproved)
	}
	return CheckSoftware(c.Software)
}

// CheckSoftware returns an error if there are too many versions of software.
func CheckSoftware(versions map[string]string) error {
	if len(versions) > MaxSoftware {
		return Errorf("software", "%d entries: must be at most %d", len(versions), MaxSoftware)
	}
	return nil
}

// Validate checks conditions that the tags of a block's fields cannot express. clients is the
// number of clients of its cell.
func (b Block) Validate(clients int) error {
	rounds := len(b.Round)
	if rounds == 0 {
		return Errorf("round_ns", "no samples")
	}
	for _, times := range []struct {
		place string
		n     int
		apart bool // they begin in one process and end in another
	}{
		{"train_ns", len(b.Train), false}, {"rtt_ns", len(b.RTT), false},
		{"down_ns", len(b.Down), true}, {"up_ns", len(b.Up), true},
	} {
		switch n, all := times.n, rounds*clients; {
		case times.apart && !b.OneClock():
			if n > 0 {
				return Errorf(times.place, "%d samples: must be absent, because a process has other_clock", n)
			}
		case n != all && !isThinned(n, rounds, clients):
			return Errorf(times.place, "%d samples: must be %d for %d rounds of %d clients, "+
				"or fewer if only every k-th client is kept", n, all, rounds, clients)
		case n != len(b.Train): // one client's times have one index in all lists
			return Errorf(times.place, "%d samples: must be %d, as many as train_ns", n, len(b.Train))
		}
	}
	for name := range b.Phases {
		if !slices.ContainsFunc(phase.Phases(), func(p phase.Phase) bool { return p.String() == name }) {
			return Errorf("phases_ns."+Printable(name), "no such phase")
		}
	}
	if b.Timeline != nil {
		return At("timeline", b.Timeline.validate())
	}
	return nil
}

// isThinned reports whether keeping every k-th client gives this number of times, for any k,
// because builds choose k differently.
func isThinned(times, rounds, clients int) bool {
	n := times / rounds
	if n < 1 || n*rounds != times || n > clients {
		return false
	}
	k := (clients + n - 1) / n
	return (clients+k-1)/k == n
}

func (t *Timeline) validate() error {
	n := len(t.Start)
	for _, c := range []struct {
		place     string
		got, want int
	}{
		{"process", len(t.Process), n}, {"lane", len(t.Lane), n}, {"client", len(t.Client), n},
		{"phase", len(t.Phase), n}, {"end_ns", len(t.End), n},
		{"round_start_ns", len(t.RoundStart), len(t.Rounds)}, {"round_end_ns", len(t.RoundEnd), len(t.Rounds)},
	} {
		if c.got != c.want {
			return Errorf(c.place, "%d entries: must be %d, one per span or round", c.got, c.want)
		}
	}
	for i := range n {
		if t.Process[i] < 0 || t.Process[i] >= len(t.Processes) {
			return Errorf(index("process", i), "%d: must be the index of one of %d processes", t.Process[i], len(t.Processes))
		}
		if t.End[i] < t.Start[i] {
			return Errorf(index("end_ns", i), "%d: the span begins at %d", t.End[i], t.Start[i])
		}
	}
	for i := range t.Rounds {
		if t.RoundEnd[i] < t.RoundStart[i] {
			return Errorf(index("round_end_ns", i), "%d: the round begins at %d", t.RoundEnd[i], t.RoundStart[i])
		}
	}
	return nil
}
