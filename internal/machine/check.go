package machine

// A Status says what a check means for a run.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // times are longer or noisier than need be, or something is missing
	Fail Status = "fail" // a part of what was asked for cannot be measured, or no number means anything
)

// A Check is what was found out about one property of the machine.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status" check:"warn|fail"`
	What   string `json:"what"`          // was found, with figures
	Why    string `json:"why"`           // it matters
	Fix    string `json:"fix,omitempty"` // what to do about it; absent if all is well
}
