package result

// A Summary is what is shown of a profile. Values are nanoseconds or bytes.
type Summary struct {
	// bytes of models and updates that these rounds delivered; 0 if unknown
	Delivered int64 `json:"delivered_bytes"`
	// `s` if the values below are nanoseconds, `B` if they are bytes
	Unit string `json:"unit"`
	// sum of all samples, in ns or bytes [as `unit` says]
	Total int64 `json:"total"`
	// Transport is the part of Total that lies in transport code, and Attributed
	// the part of that which has a phase.

	// the part in a transport's own code and what it calls [as `unit` says]
	Transport int64 `json:"transport_code"`
	// the part that belongs to a phase [as `unit` says]
	Attributed int64 `json:"attributed"`
	// the part in copying memory [as `unit` says]
	Memmove int64 `json:"memmove,omitempty"`
	// by phase, the heaviest first
	Phases []Split `json:"phases"`

	// by function over all phases, the heaviest first
	Functions []Function `json:"functions"`
}

// A Split is a phase's part of a profile.
type Split struct {
	// name of the phase, or of what belongs to none
	Name string `json:"name"`
	// it is no phase, but garbage collection or the like
	Rest bool `json:"rest,omitempty"`
	// in the phase itself, in ns or bytes [as `unit` says]
	Flat int64 `json:"flat"`
	// with the phases inside of it [as `unit` says]
	Cum int64 `json:"cum"`
	// the part of `flat` in the server process [as `unit` says]
	Server int64 `json:"server"`
	// its functions, the heaviest first
	Functions []Function `json:"functions"`
}

// Title is the name, in parentheses if it is no phase.
func (s Split) Title() string {
	if s.Rest {
		return "(" + s.Name + ")"
	}
	return s.Name
}

// A Function is one function's part of a phase. The cost of a function of the
// runtime or the system stands under its name and that of its caller: "40 % in
// memmove" does not say what to change, "runtime.memmove in main.decode" does.
type Function struct {
	// name of the function
	Name string `json:"name"`
	// in the function itself, in ns or bytes [as `unit` says]
	Flat int64 `json:"flat"`
	// with the functions that it calls [as `unit` says]
	Cum int64 `json:"cum"`
}

// Share returns value's share of all.
func (s *Summary) Share(value int64) float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(value) / float64(s.Total)
}
