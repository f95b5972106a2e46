package bench

import (
	"encoding/json"
	"maps"
)

// upgrade makes a cell of today's schema from one of schema 1, which held the sums
// of phases for each round.
func upgrade(text []byte) ([]byte, error) {
	var cell map[string]json.RawMessage
	if err := json.Unmarshal(text, &cell); err != nil {
		return nil, err
	}
	var blocks []map[string]json.RawMessage
	if err := json.Unmarshal(cell["blocks"], &blocks); err != nil {
		return nil, err
	}
	for _, b := range blocks {
		var old struct {
			Round        []int64            `json:"round_ns"`
			Unattributed []int64            `json:"unattributed_ns"`
			Phases       map[string][]int64 `json:"phases_ns"`
		}
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &old); err != nil {
			return nil, err
		}
		unattributed, phases, err := sums(old.Unattributed, old.Phases, len(old.Round))
		if err != nil {
			return nil, err
		}
		if text, err = json.Marshal(map[string]any{"unattributed_ns": unattributed, "phases_ns": phases}); err != nil {
			return nil, err
		}
		var sums map[string]json.RawMessage
		if err := json.Unmarshal(text, &sums); err != nil {
			return nil, err
		}
		maps.Copy(b, sums)
	}
	text, err := json.Marshal(blocks)
	if err != nil {
		return nil, err
	}
	cell["blocks"] = text
	return json.Marshal(cell)
}
