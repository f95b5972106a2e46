package models

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ipcbench/tensor"
)

// Names that only Update reads, and the ranks of adapters.
const (
	sameUpdate  = "model"
	loraUpdate  = "lora"
	defaultRank = 8
	maxRank     = 4096
)

// Update returns the model of m's updates that text names: "model" is m itself, and
// "lora" or "lora:RANK" are adapters of m. Any other name is read by [Parse]. If its
// layout equals m's, Update returns m, so that callers can compare pointers.
func Update(text string, m *Model) (*Model, error) {
	if text == sameUpdate {
		return m, nil
	}
	u, err := (*Model)(nil), error(nil)
	if of, rank, ranked := strings.Cut(text, ":"); of == loraUpdate {
		u, err = adapters(m, rank, ranked)
	} else {
		u, err = Parse(text)
	}
	if err == nil && u.Layout.Digest() == m.Layout.Digest() {
		return m, nil
	}
	return u, err
}

// Updates describes the names that Update accepts in addition to models, in the order of
// help.
func Updates() []Info {
	return []Info{
		{Name: sameUpdate, About: "tensors like the model's"},
		{Name: loraUpdate + "[:RANK]", About: fmt.Sprintf("LoRA adapters of that rank, or %d, for each matrix of floats", defaultRank)},
	}
}

// adapters returns the tensors that are sent when m is fine-tuned by low-rank adaptation
// (Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", 2021): for each
// matrix of floats in m, two thin ones of the same type, whose product is added to it.
// They have the peft library's names. Convolutions, vectors and counters are not adapted.
func adapters(m *Model, rank string, ranked bool) (*Model, error) {
	name, r := loraUpdate, defaultRank
	if ranked {
		var err error
		if r, err = strconv.Atoi(rank); err != nil || r < 1 || r > maxRank {
			return nil, fmt.Errorf("update %q: the rank must be 1 to %d, not %q", loraUpdate+":"+rank, maxRank, rank)
		}
		if r != defaultRank {
			name += ":" + strconv.Itoa(r)
		}
	}
	var d dict
	for _, s := range m.Layout.Specs() {
		if len(s.Shape) != 2 || !slices.Contains([]tensor.DType{tensor.F16, tensor.BF16, tensor.F32, tensor.F64}, s.DType) {
			continue
		}
		of := strings.TrimSuffix(s.Name, ".weight")
		d.add(s.DType, of+".lora_A.weight", r, s.Shape[1])
		d.add(s.DType, of+".lora_B.weight", s.Shape[0], r)
	}
	if d == nil {
		return nil, fmt.Errorf("update %q: model %s has no matrix of floats to adapt", name, m.Name)
	}
	return generated(name, d)
}
