package models

import (
	"fmt"
	"strconv"
	"strings"
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
	if family, rank, ranked := strings.Cut(text, ":"); family == loraUpdate {
		if !ranked {
			rank = strconv.Itoa(defaultRank)
		}
		u, err = adapters(m, rank)
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
func adapters(m *Model, rank string) (*Model, error) {
	name := loraUpdate
	r, err := strconv.Atoi(rank)
	if err != nil || r < 1 || r > maxRank {
		return nil, fmt.Errorf("update %q: the rank must be 1 to %d, not %q", loraUpdate+":"+rank, maxRank, rank)
	}
	if r != defaultRank {
		name += ":" + strconv.Itoa(r)
	}
	var d dict
	for _, s := range m.Layout.Specs() {
		if len(s.Shape) != 2 || !s.DType.Float() {
			continue
		}
		layer := strings.TrimSuffix(s.Name, ".weight")
		d.add(s.DType, layer+".lora_A.weight", r, s.Shape[1])
		d.add(s.DType, layer+".lora_B.weight", s.Shape[0], r)
	}
	if d == nil {
		return nil, fmt.Errorf("update %q: model %s has no matrix of floats to adapt", name, m.Name)
	}
	return generated(name, d)
}
