package bench

import (
	"fmt"
	"slices"

	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
)

// Who changes the model: Spec.Scenario is Sync, or empty for FedAvg.
const (
	FedAvg = "fedavg" // clients do, and the server averages that
	Sync   = "sync"   // the server does, and clients read all of it and answer something
)

// What the first values are: Spec.Values is one of the first two, or empty for those of
// the model's file and, if it has none, uniform ones.
const (
	Uniform = "uniform"
	Normal  = "normal"
	InFile  = "file"
)

// ValuesOf returns what Spec.Values is where a user asks for values of a model by name.
func ValuesOf(m *models.Model, name string) (string, error) {
	switch name {
	case "", Normal:
		return name, nil
	case Uniform:
		if m.File() == "" {
			return "", nil
		}
		return Uniform, nil
	case InFile:
		if m.File() == "" {
			return "", fmt.Errorf("file: model %s comes from no file: want uniform or normal, or the path of a .safetensors file as a model", m.Name)
		}
		return "", nil
	}
	return "", fmt.Errorf("%q: want uniform, normal or file", name)
}

// init writes the first values to p.
func (s Spec) init(p *tensor.Package, seed uint64) error {
	switch s.Values {
	case Normal:
		tensor.FillNormal(p, seed)
	case Uniform:
		tensor.Fill(p, seed)
	default:
		return s.Model.Init(p, seed)
	}
	return nil
}

// change returns what a result says of Spec.Change.
func (s Spec) change() string {
	if s.Change == (tensor.Change{}) {
		return ""
	}
	return s.Change.String()
}

// A work is what is computed in a round, however it is moved.
type work struct {
	model, up        *models.Model
	clients          int
	change           tensor.Change
	values, scenario string
}

func (s Spec) work() work {
	return work{s.Model, s.up(), s.Clients, s.Change, s.Values, s.Scenario}
}

// A chainKey tells reference chains apart. A codec that loses nothing makes no
// difference.
type chainKey struct {
	work
	codec string
	alone bool // no model is encoded as what differs from the one before
}

func (s Spec) chainKey() chainKey {
	k := chainKey{work: s.work()}
	if c := s.Variant.Codec(); c.Lossy() {
		k.codec, k.alone = c.String(), s.respawns()
	}
	return k
}

// fold returns how the server makes the next model.
func (s Spec) fold() *trainer.Fold {
	f := trainer.NewFold(s.Model.Layout, s.up().Layout)
	f.Change, f.Sync = s.Change, s.Scenario == Sync
	return f
}

// A Workload is a work as results name it, with how long its training takes: cells of the
// same are compared with each other.
type Workload struct {
	Model                    Model
	Change, Values, Scenario string // as in Cell
	TrainMS                  int    // likewise
	Nested                   bool   // likewise
}

func (c Cell) Workload() Workload {
	return Workload{c.Model, c.Change, c.Values, c.Scenario, c.TrainMS, c.Nested}
}

// floor returns f as one that bounds the cells of the workload only.
func (w Workload) floor(f Floor) *Floor {
	f.Model, f.Up, f.Change, f.Values, f.Scenario, f.TrainMS, f.Nested = w.Model.Name, w.Model.Up, w.Change, w.Values, w.Scenario, w.TrainMS, w.Nested
	return &f
}

// Of reports whether a floor bounds the cells of a workload only.
func (f *Floor) Of(w Workload) bool {
	return f.Model == w.Model.Name && f.Up == w.Model.Up && f.Change == w.Change && f.Values == w.Values && f.Scenario == w.Scenario &&
		f.TrainMS == w.TrainMS && f.Nested == w.Nested
}

// validateWorkload checks the texts of a cell that say what it works on.
func (c Cell) validateWorkload() error {
	if c.Change != "" {
		if change, err := tensor.ParseChange(c.Change); err != nil || change.String() != c.Change || change == (tensor.Change{}) {
			return field("change", "%q: want a part of the words, such as 2%% or 2%%/rows", c.Change)
		}
	}
	if !slices.Contains([]string{"", Uniform, Normal}, c.Values) {
		return field("values", "%q: want uniform or normal", c.Values)
	}
	if c.Scenario != "" && c.Scenario != Sync {
		return field("scenario", "%q: want sync", c.Scenario)
	}
	return nil
}
