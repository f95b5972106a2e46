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
	// what was looked at, such as `descriptors`; docs/doctor.md lists them
	Name string `json:"name"`
	// `warn`: times may be longer or noisier; `fail`: a part of the run could not be measured
	Status Status `json:"status" check:"warn|fail"`
	// what was found, with numbers
	What string `json:"what"`
	// why it matters
	Why string `json:"why"`
	// what to do about it
	Fix string `json:"fix,omitempty"`
}
