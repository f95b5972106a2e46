package machine

// A Status is the severity of a check's result for a run.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // times are longer or noisier than necessary, or information is missing
	Fail Status = "fail" // a part of the run cannot be measured, or its numbers are meaningless
)

// A Check is the result of checking one property of the machine.
type Check struct {
	// name of the check, such as `descriptors`
	Name string `json:"name"`
	// `warn`: times may be longer or noisier; `fail`: a part of the run could not be measured
	Status Status `json:"status" check:"warn|fail"`
	// the finding, with numbers
	What string `json:"what"`
	// its effect on a run
	Why string `json:"why"`
	// how to fix it
	Fix string `json:"fix,omitempty"`
}
