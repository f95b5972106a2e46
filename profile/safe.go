package profile

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"ipcbench/internal/legible"
)

// mostFields is how many fields a profile has that is read. The largest one of
// ipcbench has a tenth of them. An empty sample takes two bytes in a file and
// hundreds in memory, so that a bound of the size alone is none.
const mostFields = 1 << 22

// safe returns an error if a profile would be too large in memory: if it, its
// samples and its places in the code have too many fields together; or if one of
// its texts must not go to a terminal or a page.
func safe(data []byte) error {
	const sample, location, texts = 2, 4, 6 // fields of perftools.profiles.Profile
	left := mostFields
	var count func(data []byte, inner bool) error
	count = func(data []byte, inner bool) error {
		for len(data) > 0 {
			if left--; left < 0 {
				return fmt.Errorf("more than %d entries: not a profile of ipcbench", mostFields)
			}
			field, kind, n := protowire.ConsumeTag(data)
			if n < 0 {
				return errors.New("not a profile: not a protocol buffer")
			}
			m := protowire.ConsumeFieldValue(field, kind, data[n:])
			if m < 0 {
				return errors.New("not a profile: not a protocol buffer")
			}
			if kind == protowire.BytesType && !inner {
				body, _ := protowire.ConsumeBytes(data[n:])
				switch field {
				case sample, location:
					if err := count(body, true); err != nil {
						return err
					}
				case texts:
					if err := legible.Check(string(body)); err != nil {
						return fmt.Errorf("%.200q: %w", body, err)
					}
				}
			}
			data = data[n+m:]
		}
		return nil
	}
	return count(data, false)
}
