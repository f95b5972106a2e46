package models

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"ipcbench/tensor"
)

// writeSafetensors writes p to w as a safetensors file that lists the tensors in
// their order.
func writeSafetensors(w io.Writer, p *tensor.Package) error {
	names := map[tensor.DType]string{}
	for name, d := range fileTypes {
		names[d] = name
	}
	type value struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, seen, at := []byte{'{'}, map[string]bool{metadataKey: true}, 0
	for i := range p.Len() {
		spec, n := p.Layout().Spec(i), len(p.View(i))
		if seen[spec.Name] || !utf8.ValidString(spec.Name) {
			return fmt.Errorf("model: write safetensors: tensor %q: the name stands twice, is reserved or is not UTF-8", spec.Name)
		}
		seen[spec.Name] = true
		name, err := json.Marshal(spec.Name)
		if err != nil {
			return fmt.Errorf("model: write safetensors: %w", err)
		}
		entry, err := json.Marshal(value{names[spec.DType], append([]int{}, spec.Shape...), [2]int{at, at + n}})
		if err != nil {
			return fmt.Errorf("model: write safetensors: %w", err)
		}
		if i > 0 {
			header = append(header, ',')
		}
		header = append(append(append(header, name...), ':'), entry...)
		at += n
	}
	header = append(header, '}')
	for len(header)%8 != 0 { // so that the data is aligned, as the format recommends
		header = append(header, ' ')
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))); err != nil {
		return fmt.Errorf("model: write safetensors: %w", err)
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("model: write safetensors: %w", err)
	}
	for i := range p.Len() {
		if _, err := w.Write(p.View(i)); err != nil {
			return fmt.Errorf("model: write safetensors: %w", err)
		}
	}
	return nil
}
