package bench

import "ipcbench/doctor"

// A retired key is one that older builds wrote and nothing needs any more. A file that has
// it stays readable: the value is dropped, whatever it holds, and never written. All
// retired keys are in this file; every other unknown key is refused.
type retired struct{}

func (*retired) UnmarshalJSON([]byte) error { return nil }

// IsZero has omitzero leave the key out.
func (retired) IsZero() bool { return true }

// checks are those of a result. Older builds also wrote the figures of each.
type checks []doctor.Check

func (c *checks) UnmarshalJSON(text []byte) error {
	var all []struct {
		doctor.Check
		Figures retired `json:"figures"`
	}
	if err := strict(text, &all); err != nil {
		return err
	}
	for _, x := range all {
		*c = append(*c, x.Check)
	}
	return nil
}
