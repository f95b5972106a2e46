package models

import (
	"testing"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// TestUpdates: updates have the expected tensors; one with the model's own tensors is the model itself.
func TestUpdates(t *testing.T) {
	for _, c := range []struct {
		model, text, name string
		tensors, bytes    int
	}{
		{"cnn", "model", "", 0, 0},
		{"cnn", "cnn", "", 0, 0},
		{"uniform:64KiB/1", "uniform:65536B/1", "", 0, 0},
		{"cnn", "uniform:65536B/1", "uniform:64KiB/1", 1, 64 << 10},
		{"cnn", "histology", "histology", 20, 66_608_288},
		// LoRA of its three linear layers: 8 × (m + n) f32 elements for each m × n matrix.
		{"cnn", "lora", "lora", 6, 4 * 8 * (120 + 400 + 84 + 120 + 10 + 84)},
		{"cnn", "lora:8", "lora", 6, 4 * 8 * (120 + 400 + 84 + 120 + 10 + 84)},
		{"cnn", "lora:16", "lora:16", 6, 4 * 16 * (120 + 400 + 84 + 120 + 10 + 84)},
		{"gpt2", "lora", "lora", 102, 4 * 8 * (12*(768+2304+768+768+768+3072+3072+768) + 2*(50257+768) + 1024 + 768)},
		{"lora", "lora:4", "lora:4", 896, 2 * 4 * 32 * (7*(8+8) + 2*(4096+4096) + 2*(4096+1024) + 3*(4096+14336))},
	} {
		m := mustParse(t, c.model)
		u, err := Update(c.text, m)
		check.Must(t, err, c.text, "of", c.model)
		if c.name == "" {
			check.That(t, u == m, "%s of %s: got %s, want the model itself", c.text, c.model, u.Name)
			continue
		}
		check.That(t, u.Name == c.name && u.Layout.Len() == c.tensors && u.Layout.Payload() == c.bytes,
			"%s of %s: got %s with %d tensors, %d bytes, want %s, %d, %d", c.text, c.model, u.Name, u.Layout.Len(), u.Layout.Payload(), c.name, c.tensors, c.bytes)
		again, err := Update(u.Name, m)
		check.That(t, err == nil && again.Layout.Digest() == u.Layout.Digest(), "%s is not what its name says: %v", u.Name, err)
	}
	u := check.Value(Update("lora", mustParse(t, "cnn")))(t)
	check.Equal(t, u.Layout.Specs()[:2], []tensor.Spec{
		{Name: "fc1.lora_A.weight", DType: tensor.F32, Shape: []int{8, 400}}, {Name: "fc1.lora_B.weight", DType: tensor.F32, Shape: []int{120, 8}},
	})
}

func TestBadUpdates(t *testing.T) {
	for _, c := range []struct{ model, text, want string }{
		{"cnn", "", "unknown model"},
		{"cnn", "lorra", "did you mean lora?"},
		{"cnn", "lora:", `the rank must be 1 to 4096, not ""`},
		{"cnn", "lora:0", `the rank must be 1 to 4096, not "0"`},
		{"cnn", "lora:4097", `not "4097"`},
		{"cnn", "lora:8:8", `not "8:8"`},
		{"uniform:64KiB/1", "lora", "model uniform:64KiB/1 has no matrix of floats to adapt"},
	} {
		check.Fails(t, check.Err(Update(c.text, mustParse(t, c.model))), c.want, c.text, "of", c.model)
	}
	for _, i := range Updates() {
		check.That(t, i.Name != "" && i.About != "", "%+v says nothing", i)
	}
}
