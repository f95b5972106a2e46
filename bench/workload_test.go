package bench_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"ipcbench/bench"
	"ipcbench/bench/program"
	"ipcbench/bench/result"
	"ipcbench/bench/session"
	"ipcbench/internal/test/check"
	"ipcbench/internal/test/skip"
	"ipcbench/tensor"
	"ipcbench/tensor/models"
)

// TestWorkloads: cells are proved against their own reference, whatever share of the model changes, by clients or by
// the server. The result has the share of f32 elements that differ from the version before: 1 - (1-P)^K within 0.2
// percentage points (guards 3, 23).
func TestWorkloads(t *testing.T) {
	changed := map[string][2]float64{ // densities of the model and of its updates
		"": {1, 1}, " change=2%": {1 - math.Pow(0.98, 4), 0.02}, " change=2%/rows": {1 - math.Pow(0.98, 4), 0.02},
		" change=2% scenario=sync": {0.02, 0}, " change=10% values=normal": {1 - math.Pow(0.9, 4), 0.1},
	}
	var cells []string
	for _, variant := range []string{"pickle", "shm-slab"} {
		for unusual := range changed {
			up := ""
			if variant == "pickle" && strings.HasSuffix(unusual, "sync") {
				up = " up=uniform:64KiB/1"
			}
			cells = append(cells, variant+" uniform:1MiB/3"+up+" workers=2 clients=4"+unusual)
		}
	}
	r := run(t, options(t, short(t, 6, 1), cells...), "futex")
	check.Need(t, len(r.Cells) == 16, "%d cells, want ten and six controls", len(r.Cells))
	for _, c := range r.Cells {
		check.That(t, c.Proved(), "%s: not proved", c.ID())
		_, unusual, _ := strings.Cut(c.ID(), " clients=4")
		want, k := changed[unusual], c.Coding
		if c.Scenario == session.Sync && c.Model.Up == "" { // the server then changes the model to such an update
			want[1] = want[0]
		}
		check.That(t, (k == nil) == (unusual == "") && slices.Contains(append(cells, cells[0]), c.ID()) || c.Variant == "inproc",
			"there is a cell %s, with %+v", c.ID(), k)
		check.That(t, k == nil || math.Abs(k.DensityDown-want[0]) <= 0.002 && math.Abs(k.DensityUp-want[1]) <= 0.0005,
			"%s: %+v of model and updates differ, want %v", c.ID(), k, want)
		bounded := 0
		for _, f := range r.Floors {
			if f.Model != "" && f.Of(&c) {
				bounded++
			}
		}
		check.That(t, bounded == 2, "%s: %d floors of its work, want futex and work", c.ID(), bounded)
	}
}

// TestCodecsAreProved: the reference includes a codec's losses in each direction, so cells are proved bit for bit. The
// result has the errors, which are within the codec's bound (guards 3, 23; O17). A lossless codec has the same
// reference as none. All of this also holds if another build runs the blocks, and with fresh workers for every round.
func TestCodecsAreProved(t *testing.T) {
	skip.Long(t)
	codecs := []string{"none", "int8", "topk=1%", "sparse", "bf16", "kc=8", "stc=1%", "skc", "bf16+sparse"}
	for _, how := range []string{"", " scenario=sync", " respawn", "against"} {
		var cells []string
		for i, codec := range codecs {
			if i < 3 || how == "" || how == " scenario=sync" { // the first three cover codecs with and without a base
				cells = append(cells, "pickle:codec="+codec+" cnn workers=2 clients=3 change=2% values=normal"+strings.TrimPrefix(how, "against"))
			}
		}
		o := options(t, short(t, 5, 1), cells...)
		if how == "against" {
			o.Builds = program.Builds([]string{self(t)}, nil)
		}
		r, works := run(t, o), 0
		for _, f := range r.Floors {
			if f.Name == "work" {
				works++
			}
		}
		check.That(t, works == 1, "%d floors of work, want one: what codecs take is no part of it", works)
		for _, c := range r.Cells {
			check.That(t, c.Proved(), "%s: not proved", c.ID())
			k := c.Coding
			lossy := c.Variant != "inproc" && c.Variant != "pickle" && !strings.HasSuffix(c.Variant, "=sparse")
			check.That(t, (k.ErrorDown != nil) == lossy && (k.ErrorUp != nil) == lossy, "%s: errors %+v and %+v", c.ID(), k.ErrorDown, k.ErrorUp)
			if lossy {
				promises := strings.Contains(c.Variant, "bf16") || strings.Contains(c.Variant, "int8")
				check.That(t, promises == (k.Bound > 0) && (!promises || max(*k.ErrorDown.Max, *k.ErrorUp.Max) <= k.Bound && *k.ErrorUp.RMS != 0),
					"%s: errors %+v and %+v, bound %v", c.ID(), *k.ErrorDown, *k.ErrorUp, k.Bound)
			}
		}
	}
}

// TestUnlike: cells of one model and different updates are measured apart, each with its own control, reference and
// floors. The payload is the model plus the update (guard 5). Results with updates like the model have no keys about
// updates.
func TestUnlike(t *testing.T) {
	const size = " workers=2 clients=3"
	o := options(t, short(t, 4, 1), "pickle cnn up=model"+size, "pickle cnn up=lora"+size, "pickle cnn up=uniform:64KiB/1"+size)
	plan := check.Value(bench.Describe(t.Context(), o))(t)
	r := check.Value(bench.Run(t.Context(), o))(t)
	check.Must(t, r.Validate())
	bytes := map[string]int64{"": 2 * 248_024, "lora": 248_024 + 26_176, "uniform:64KiB/1": 248_024 + 64<<10}
	check.Need(t, len(r.Cells) == 6 && len(plan.Cells) == 6,
		"%d cells, %d planned, want three and their controls", len(r.Cells), len(plan.Cells))
	for i, c := range r.Cells {
		proved(t, c)
		check.Equal(t, c.Payload(), 3*bytes[c.Model.Up], c.ID(), "payload")
		check.That(t, (c.Model.Up != "") == strings.Contains(c.ID(), "cnn up="+c.Model.Up+size) && c.ID() == plan.Cells[i].Name,
			"a cell of updates %q is %s, planned as %s", c.Model.Up, c.ID(), plan.Cells[i].Name)
	}
	like, less := plan.Cells[1].Memory, plan.Cells[3].Memory
	check.That(t, less < like, "a cell of small updates is said to take %d bytes, one of large ones %d", less, like)
	floors := map[string]int{}
	for _, f := range r.Floors {
		floors[strings.TrimRight(f.Name+" "+f.Model+" "+f.Up, " ")]++
	}
	for _, want := range []string{
		"copy", "first-touch", "unix-pingpong", "work cnn", "work cnn lora", "work cnn uniform:64KiB/1",
		"futex cnn", "futex cnn lora", "futex cnn uniform:64KiB/1",
	} {
		check.That(t, floors[want] == 1, "floor %s is there %d times: %v", want, floors[want], floors)
	}
	for _, up := range []bool{false, true} {
		of := *r
		of.Skipped = []result.Skipped{(&session.Unfit{Spec: o.Cells[0], Err: context.Canceled}).Skipped()}
		of.Cells, of.Floors = r.Cells[:2], nil
		if up {
			of.Skipped, of.Cells = nil, r.Cells[2:4]
		}
		text := check.Value(json.Marshal(of))(t)
		for _, key := range []string{`"up":"lora"`, `"up_tensors":6`, `"up_bytes":26176`} {
			name, _, _ := strings.Cut(key, ":")
			check.That(t, strings.Contains(string(text), key) == up && strings.Contains(string(text), name+":") == up,
				"updates unlike the model %v: the key %s is in it: %v", up, key, !up)
		}
	}
}

// TestUnfit: settings that a transport or nested values do not support are rejected, and the error names the flag. A
// codec with a base needs a client for every worker; tensors without Go values cannot be nested.
func TestUnfit(t *testing.T) {
	rows := check.Value(tensor.NewLayout([]tensor.Spec{{Name: "rows", DType: tensor.F32, Shape: []int{4, 2}, Var: true}}))(t)
	const few = "choose --workers 1 or --clients 2"
	for text, want := range map[string]string{
		"pickle cnn workers=2": "", "pickle:codec=int8 cnn workers=2": "", "pickle:codec=sparse cnn workers=2": few,
		"pickle uniform:4KiB/1 nested": "--nested: tensors of varying length",
	} {
		s := options(t, short(t, 1, 1), text).Cells[0]
		if s.Model.Name != "cnn" {
			s.Model = &models.Model{Name: "mine", Layout: rows}
		}
		check.Ends(t, s.Check(), want, text)
	}
}

// TestValuesOf: the names of values become their form in a Spec, which is empty for uniform values, the default.
func TestValuesOf(t *testing.T) {
	cnn := check.Value(models.Parse("cnn"))(t)
	for name, want := range map[string]string{"": "", "uniform": "", "normal": "normal"} {
		got, err := session.ValuesOf(cnn, name)
		check.OK(t, err, name)
		check.Equal(t, got, want, name)
	}
	for name, want := range map[string]string{"file": "model cnn does not come from a file", "zeros": "must be uniform, normal or file"} {
		check.Fails(t, check.Err(session.ValuesOf(cnn, name)), want, name)
	}
}
