package session

import (
	"fmt"

	"ipcbench/bench/result"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
)

// Values of Spec.Scenario; empty means FedAvg.
const (
	FedAvg = "fedavg" // clients change the model, and the server averages their updates
	Sync   = "sync"   // the server changes the model; clients read all of it, and only a digest of their updates counts
)

// Initial values of a model. Spec.Values is Uniform, Normal or empty, which means the
// values in the model's file or, if it has no file, Uniform.
const (
	Uniform = "uniform"
	Normal  = "normal"
	InFile  = "file"
)

// ValuesOf returns the Spec.Values for the values of m that a user has named: "", normal,
// uniform or file.
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
			return "", fmt.Errorf("file: model %s does not come from a file: "+
				"choose uniform or normal, or a .safetensors file as the model", m.Name)
		}
		return "", nil
	}
	return "", fmt.Errorf("must be uniform, normal or file, not %q", name)
}

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

// A Key identifies a reference chain by the computation of a round. Transports and
// lossless codecs make no difference.
type Key struct {
	model, up *models.Model
	clients   int
	result.Setup
	codec string
	alone bool // no model is encoded against a base, because every round has fresh workers
}

// Key returns the key of the reference chain of s.
func (s Spec) Key() Key {
	k := Key{model: s.Model, up: s.Update(), clients: s.Clients, Setup: s.Only(result.Chains)}
	if c := s.Variant.Codec(); c.Lossy() {
		k.codec, k.alone = c.String(), s.Respawns()
	}
	return k
}

func (s Spec) fold() *trainer.Fold {
	f := trainer.NewFold(s.Model.Layout, s.Update().Layout)
	f.Change, f.Sync, f.Pages = s.Change, s.Scenario == Sync, s.Pages
	return f
}
