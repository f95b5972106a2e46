package result

// A Summary is what is shown of a profile. Values are nanoseconds or bytes.
type Summary struct {
	Delivered int64  `json:"delivered_bytes"` // payload of the profiled rounds
	Unit      string `json:"unit"`            // s or B: what values are of, in ns or bytes
	Total     int64  `json:"total"`           // of all samples
	// Transport is the part of Total that lies in transport code, and Attributed
	// the part of that which has a phase.
	Transport  int64   `json:"transport_code"`
	Attributed int64   `json:"attributed"`
	Memmove    int64   `json:"memmove,omitempty"` // in copying memory
	Phases     []Split `json:"phases"`            // the heaviest first

	Functions []Function `json:"functions"` // of all phases, the heaviest first
}

// A Split is a phase's part of a profile.
type Split struct {
	Name      string     `json:"name"`
	Rest      bool       `json:"rest,omitempty"` // no phase: garbage collection and the like
	Flat      int64      `json:"flat"`           // in the phase itself
	Cum       int64      `json:"cum"`            // with what is inside of it
	Server    int64      `json:"server"`         // the server's part of Flat
	Functions []Function `json:"functions"`      // the heaviest first
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
	Name string `json:"name"`
	Flat int64  `json:"flat"` // in the function itself
	Cum  int64  `json:"cum"`  // with what it calls
}

// Share returns value's share of all.
func (s *Summary) Share(value int64) float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(value) / float64(s.Total)
}
