package store

import (
	"bytes"
	"fmt"

	"ipcbench/transports/http/exchange"
)

// Limits on ids. What is beyond one is refused before anything of it is stored.
const (
	MaxIDs  = 1 << 16 // in one batch
	maxID   = 128     // bytes of one
	maxBody = MaxIDs * (maxID + 1)
)

// CheckID checks what names a tensor in the store. It is never a path, and no
// character that means something in one, or in HTTP, is allowed in it.
func CheckID(id []byte) error {
	if len(id) == 0 || len(id) > maxID || id[0] == '.' ||
		bytes.ContainsFunc(id, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("id %.*q: want 1 to %d letters, digits and _ - . without a dot in front", maxID, id, maxID)
	}
	return nil
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
}

// batchRequest is the JSON form of a batch of ids. The plain form has one id a
// line.
type batchRequest struct {
	IDs []string `json:"shard_ids"`
}

// parseIDs appends the ids of a batch to ids, in order. They point into body.
func parseIDs(ids [][]byte, body []byte, isJSON bool) ([][]byte, error) {
	if isJSON {
		var q batchRequest
		if err := exchange.ParseJSON(body, &q); err != nil {
			return ids, err
		}
		for _, id := range q.IDs {
			ids = append(ids, []byte(id))
		}
	} else {
		for len(body) > 0 && len(ids) <= MaxIDs {
			var id []byte
			id, body, _ = bytes.Cut(body, []byte{'\n'})
			ids = append(ids, id)
		}
	}
	if len(ids) > MaxIDs {
		return ids, fmt.Errorf("batch of more than %d ids", MaxIDs)
	}
	for _, id := range ids {
		if err := CheckID(id); err != nil {
			if !isJSON && bytes.HasPrefix(id, []byte("{")) {
				err = fmt.Errorf("%w; a body in JSON needs the header field Content-Type: %s", err, exchange.TypeJSON)
			}
			return ids, err
		}
	}
	return ids, nil
}
