package models

import (
	"encoding/json"
	"fmt"

	"ipcbench/internal/test/check"
	"ipcbench/tensor"
)

// fileOf returns p as a safetensors file that lists the tensors in their order.
func fileOf(t check.TB, p *tensor.Package) []byte {
	t.Helper()
	names := map[tensor.DType]string{}
	for name, d := range fileTypes {
		names[d] = name
	}
	header, data := []byte{'{'}, []byte{}
	for i, spec := range p.Layout().Specs() {
		entry := check.Value(json.Marshal(map[string]any{
			"dtype": names[spec.DType], "shape": append([]int{}, spec.Shape...), "data_offsets": []int{len(data), len(data) + len(p.View(i))},
		}))(t)
		name := check.Value(json.Marshal(spec.Name))(t)
		if i > 0 {
			header = append(header, ',')
		}
		header = fmt.Appendf(header, "%s:%s", name, entry)
		data = append(data, p.View(i)...)
	}
	header = append(header, '}')
	for len(header)%8 != 0 { // so that the data is aligned, as the format recommends
		header = append(header, ' ')
	}
	return encode(string(header), string(data))
}
