package bench

// A retired key is one that older builds wrote and nothing needs any more. A file that has
// it stays readable: the value is dropped, whatever it holds, and never written. All
// retired keys are in this file; every other unknown key is refused.
type retired struct{}

func (*retired) UnmarshalJSON([]byte) error { return nil }

// IsZero has omitzero leave the key out.
func (retired) IsZero() bool { return true }

type retiredPlan struct {
	Budget retired `json:"budget_ns,omitzero"`
}
