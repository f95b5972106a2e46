package pickle

import (
	"encoding/gob"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ipcbench/phase"
	"ipcbench/tensor"
)

// TestWrongField: with elems=on a piece counts only in the field of its type:
// as many bytes in another one leave the tensor as it was.
func TestWrongField(t *testing.T) {
	l := layout(t, tensor.F32, []int{3})
	for name, value := range map[string]numbers{
		"right":       {F32: []float32{1, 2, 3}},
		"bytes":       {Bytes: make([]uint8, 3)},
		"i32":         {I32: []int32{1, 2, 3}},
		"both":        {F32: []float32{1, 2, 3}, I8: []int8{1}},
		"too many":    {F32: []float32{1, 2, 3, 4}},
		"none":        {},
		"split":       {F32: []float32{1, 2}, I32: []int32{3}},
		"half floats": {Half: make([]uint16, 6)},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "message"))
		if err == nil {
			defer f.Close()
			err = gob.NewEncoder(f).Encode(value)
		}
		if err == nil {
			_, err = f.Seek(0, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := tensor.Alloc(l)
		err = (&packer{elems: true}).decode(newStream(f, nil), phase.Whole(0), header{Tensors: 1}, p)
		switch {
		case name == "right":
			if err != nil || tensor.Of[float32](p.View(0))[2] != 3 {
				t.Errorf("got %v, error %v", tensor.Of[float32](p.View(0)), err)
			}
		case err == nil || !strings.Contains(err.Error(), "the layout says"):
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
}
