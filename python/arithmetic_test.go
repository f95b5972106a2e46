package python_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/python"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
	"ipcbench/trainer"
)

// rounds is the input of computations in Go and Python.
type rounds struct {
	Down    []tensor.Spec `json:"down"`
	Up      []tensor.Spec `json:"up"` // nil if updates have the model's layout
	Seed    uint64        `json:"seed"`
	Weights []float64     `json:"weights"`
	Rounds  int           `json:"rounds"`
}

// hashes returns the running hashes of the first model and of each round's model.
func (r rounds) hashes(t *testing.T) (all [][]string) {
	t.Helper()
	layout := func(specs []tensor.Spec) *tensor.Layout {
		return check.Value(tensor.NewLayout(specs))(t)
	}
	down := layout(r.Down)
	up := down
	if r.Up != nil {
		up = layout(r.Up)
	}
	ref := trainer.NewReference(down, up, r.Seed)
	tensor.Fill(ref.Model, r.Seed)
	var clients []trainer.Client
	for id, weight := range r.Weights {
		clients = append(clients, trainer.Client{ID: id, Weight: weight})
	}
	all = append(all, running(ref.Model))
	for range r.Rounds {
		check.Must(t, ref.Round(t.Context(), clients))
		all = append(all, running(ref.Model))
	}
	return all
}

func running(p *tensor.Package) (all []string) {
	for _, h := range p.Hashes() {
		all = append(all, fmt.Sprintf("%016x", h))
	}
	return all
}

// mixed has scalars of all data types, and tensors with sizes around the steps of all loops.
func mixed() (specs []tensor.Spec) {
	for _, d := range tensor.DTypes() {
		specs = append(specs, tensor.Spec{Name: "one " + d.String(), DType: d})
		for _, n := range []int{0, 1, 7, 8, 9, 33, 1025, 1<<18/d.Size() + 3} { // the last exceeds a block
			specs = append(specs, tensor.Spec{Name: fmt.Sprint("ä", d, n), DType: d, Shape: []int{n, 1}})
		}
	}
	return specs
}

// TestArithmetic: Python computes the same models as Go, bit for bit, in C and in numpy.
func TestArithmetic(t *testing.T) {
	interpreter, err := python.Find(t.Context(), "", python.Numpy(), python.Xxhash())
	if err != nil {
		skip.Missing(t, "%v", err)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		skip.Missing(t, "cc: %v", err)
	}
	dir := t.TempDir()
	check.Must(t, python.Unpack(t.Context(), dir))
	cnn := check.Value(models.Parse("cnn"))(t)
	small := []tensor.Spec{{Name: "a", DType: tensor.F16, Shape: []int{3, 5}}, {Name: "n", DType: tensor.I64}, {Name: "e", DType: tensor.F32, Shape: []int{0}}}
	cases := []rounds{
		{cnn.Layout.Specs(), nil, 7, []float64{1, 2, 3, 1}, 3},
		{mixed(), nil, 1<<64 - 1, []float64{600, 601, 602, 599, 3}, 3},
		{mixed(), nil, 1, []float64{2.5}, 1},
		{mixed(), small, 3, []float64{1, 2}, 2},
		{small, mixed(), 4, []float64{1, 2}, 2},
	}
	var want [][][]string
	var digests []string
	for _, c := range cases {
		want = append(want, c.hashes(t))
		l := check.Value(tensor.NewLayout(c.Down))(t)
		digests = append(digests, fmt.Sprintf("%016x", l.Digest()))
	}
	text := check.Value(json.Marshal(cases))(t)
	script := check.Value(filepath.Abs(filepath.Join("testdata", "rounds.py")))(t)
	for _, kernel := range []string{"C", "numpy"} {
		if kernel == "numpy" {
			check.Must(t, os.Remove(filepath.Join(python.Worker(dir), "kernel.so")))
		}
		cmd := exec.CommandContext(t.Context(), interpreter.Path, "-B", script)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+dir)
		cmd.Stdin = bytes.NewReader(text)
		cmd.Stderr = os.Stderr
		out := check.Value(cmd.Output())(t)
		var got struct {
			Kernel  string       `json:"kernel"`
			Hashes  [][][]string `json:"hashes"`
			Digests []string     `json:"digests"`
		}
		check.Must(t, json.Unmarshal(out, &got))
		check.Equal(t, got.Kernel, kernel, "the kernel is")
		diff := cmp.Diff(want, got.Hashes)
		check.That(t, diff == "", "%s: hashes of models: %s", kernel, diff)
		diff = cmp.Diff(digests, got.Digests)
		check.That(t, diff == "", "%s: digests of layouts: %s", kernel, diff)
	}
}
