package bench

import (
	"fmt"

	"ipcbench/bench/result"
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

// A chainKey tells reference chains apart by what is computed in a round, however it is
// moved. A codec that loses nothing makes no difference.
type chainKey struct {
	model, up *models.Model
	clients   int
	Setup
	codec string
	alone bool // no model is encoded as what differs from the one before
}

func (s Spec) chainKey() chainKey {
	k := chainKey{model: s.Model, up: s.up(), clients: s.Clients, Setup: s.Only(result.Chains)}
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
