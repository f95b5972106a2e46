package store

import (
	"bytes"
	"fmt"

	"ipcbench/transports/http/exchange"
)

// Limits on ids. A request beyond one is rejected before any of it is stored.
const (
	MaxIDs  = 1 << 16 // ids in one batch
	maxID   = 128     // bytes in one id
	maxBody = MaxIDs * (maxID + 1)
)

// CheckID returns an error unless id is valid. Characters with a meaning in paths or in
// HTTP are not allowed, although ids are never used as paths.
func CheckID(id []byte) error {
	if len(id) == 0 || len(id) > maxID || id[0] == '.' ||
		bytes.ContainsFunc(id, func(r rune) bool { return !isIDRune(r) }) {
		return fmt.Errorf("id %.*q: must be 1 to %d letters, digits, _, - or ., not starting with a dot", maxID, id, maxID)
	}
	return nil
}

func isIDRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.'
}

// batchRequest is the JSON form of a list of ids. The plain form has one id per line.
type batchRequest struct {
	IDs []string `json:"shard_ids"`
}

// parseIDs appends the ids in body to ids, in order. They are slices of body unless
// isJSON is set.
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
		return ids, fmt.Errorf("a batch must have at most %d ids", MaxIDs)
	}
	for _, id := range ids {
		if err := CheckID(id); err != nil {
			if !isJSON && bytes.HasPrefix(id, []byte("{")) {
				err = fmt.Errorf("%w; a JSON body needs the header field Content-Type: %s", err, exchange.TypeJSON)
			}
			return ids, err
		}
	}
	return ids, nil
}
