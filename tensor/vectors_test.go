package tensor

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
)

// vectors is a round of two clients as in testdata/vectors.json: the inputs, and the results, tensor by tensor in hex.
type vectors struct {
	Seed       uint64      `json:"seed"`
	Round      int         `json:"round"`
	Weights    []float64   `json:"weights"`
	Down       [][3]any    `json:"down"`
	Up         [][3]any    `json:"up"`
	Model      []string    `json:"model"`
	Same       [2][]string `json:"updates_like_down"`
	Digest     string      `json:"digest_of_model"`
	Updates    [2][]string `json:"updates_like_up"`
	Average    []string    `json:"average_of_these"`
	AverageSum string      `json:"digest_of_average"`
	Next       []string    `json:"next_model"`
	Hash       string      `json:"hash_of_next_model"`

	Change   string      `json:"change"`
	Changed  [2][]string `json:"updates_with_change"`
	Folded   []string    `json:"next_model_with_change"`
	Advanced []string    `json:"next_model_by_the_server_with_change"`
	Rows     string      `json:"change_of_rows"`
	Chosen   []string    `json:"first_update_with_change_of_rows"`
	Normal   []string    `json:"normal_first_values"`
}

func vectorLayouts(t *testing.T) (down, up *Layout) {
	return mustLayout(t, []Spec{
			{Name: "w", DType: F32, Shape: []int{2, 3}}, {Name: "half", DType: BF16, Shape: []int{5}}, {Name: "none", DType: F64, Shape: []int{0}},
			{Name: "steps", DType: I64}, {Name: "flags", DType: Bool, Shape: []int{11}},
		}), mustLayout(t, []Spec{
			{Name: "w.lora_A", DType: F32, Shape: []int{1, 3}}, {Name: "w.lora_B", DType: F16, Shape: []int{2, 1}}, {Name: "wide", DType: F64, Shape: []int{2}},
			{Name: "bytes", DType: U8, Shape: []int{9}}, {Name: "short", DType: I16, Shape: []int{3}}, {Name: "int", DType: I32, Shape: []int{1}},
			{Name: "small", DType: I8, Shape: []int{3}}, {Name: "ok", DType: Bool, Shape: []int{3}},
		})
}

// compute fills in the results of the inputs.
func (v *vectors) compute(t *testing.T, down, up *Layout) {
	t.Helper()
	model, next, like, update, average := Alloc(down), Alloc(down), Alloc(down), Alloc(up), Alloc(up)
	Fill(model, v.Seed)
	a := NewAverage(up)
	check.Must(t, a.Begin(average, v.Weights[0]+v.Weights[1]))
	for client, weight := range v.Weights {
		key := Key{Seed: v.Seed, Round: v.Round, Client: client}
		check.Must(t, Train(like, model, key))
		check.Must(t, Train(update, model, key))
		check.Must(t, a.Fold(update, weight))
		v.Same[client], v.Updates[client] = hexOf(like), hexOf(update)
	}
	check.Must(t, a.Finish())
	check.Must(t, Advance(next, model, average, Change{}))
	c, rows, folded := mustChange(t, v.Change), mustChange(t, v.Rows), Alloc(down)
	for client := range v.Weights {
		check.Must(t, Train(like, model, Key{Seed: v.Seed, Round: v.Round, Client: client, Change: c}))
		v.Changed[client] = hexOf(like)
	}
	v.Folded = hexOf(round(t, model, Key{Seed: v.Seed, Round: v.Round, Change: c}, v.Weights...))
	check.Must(t, Train(like, model, Key{Seed: v.Seed, Round: v.Round, Change: rows}))
	v.Chosen = hexOf(like)
	check.Must(t, Advance(folded, model, average, c))
	v.Advanced = hexOf(folded)
	FillNormal(like, v.Seed)
	v.Normal = hexOf(like)
	v.Down, v.Up, v.Model, v.Average, v.Next = specsOf(down), specsOf(up), hexOf(model), hexOf(average), hexOf(next)
	v.Digest, v.AverageSum, v.Hash = fmt.Sprintf("%016x", digest(model)), fmt.Sprintf("%016x", digest(average)), fmt.Sprintf("%016x", next.Hash())
}

func hexOf(p *Package) (all []string) {
	for i := range p.Len() {
		all = append(all, hex.EncodeToString(p.View(i)))
	}
	return all
}

func specsOf(l *Layout) (all [][3]any) {
	for _, s := range l.Specs() {
		all = append(all, [3]any{s.Name, s.DType.String(), append([]int{}, s.Shape...)})
	}
	return all
}

// TestVectors: the code computes testdata/vectors.json.
func TestVectors(t *testing.T) {
	var v vectors
	page := json.NewDecoder(bytes.NewReader(check.Value(os.ReadFile("testdata/vectors.json"))(t)))
	page.DisallowUnknownFields()
	check.Must(t, page.Decode(&v))
	before := check.Value(json.MarshalIndent(v, "", "  "))(t)
	down, up := vectorLayouts(t)
	v.compute(t, down, up)
	made := check.Value(json.MarshalIndent(v, "", "  "))(t)
	check.That(t, string(before) == string(made), "the file has\n%s\nand the code makes\n%s", before, made)
}

// TestVectorsInPython: testdata/arithmetic.py computes the same results.
func TestVectorsInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		skip.Missing(t, "python3: %v", err)
	}
	cmd := exec.CommandContext(t.Context(), python, "arithmetic.py", "vectors.json")
	cmd.Dir = "testdata"
	var stderr strings.Builder // separate, because shells and interpreters may warn of a missing locale
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	check.That(t, err == nil && string(out) == "as expected\n", "got %q, error %v, and %s", out, err, stderr.String())
}
