package result

// A Summary is the part of a profile that reports show. Values are nanoseconds or bytes.
type Summary struct {
	Delivered  int64   `json:"delivered_bytes"`                       // payload of the profiled rounds; 0 if unknown
	Unit       string  `json:"unit"`                                  // `s` if the values below are nanoseconds, `B` if they are bytes
	Total      int64   `json:"total" unit:"as unit says"`             // sum of all samples
	Transport  int64   `json:"transport_code" unit:"as unit says"`    // part of `total` in the transport's code and the functions that it calls
	Attributed int64   `json:"attributed" unit:"as unit says"`        // part of `transport_code` that belongs to a phase
	Memmove    int64   `json:"memmove,omitempty" unit:"as unit says"` // part of `total` spent in copying memory
	Phases     []Split `json:"phases"`                                // parts by phase, the largest first

	Functions []Function `json:"functions"` // parts by function, over all phases, the largest first
}

// A Split is the part of a profile that belongs to one phase, or to no phase.
type Split struct {
	Name      string     `json:"name"`                       // name of the phase; with `rest`, of work outside the phases
	Rest      bool       `json:"rest,omitempty"`             // not a phase, but garbage collection or similar work
	Flat      int64      `json:"flat" unit:"as unit says"`   // part in the phase itself
	Cum       int64      `json:"cum" unit:"as unit says"`    // part in the phase and the phases nested in it
	Server    int64      `json:"server" unit:"as unit says"` // part of `flat` in the server process
	Functions []Function `json:"functions"`                  // parts of `flat` by function, the largest first
}

// Title returns the name, in parentheses if it is not a phase.
func (s Split) Title() string {
	if s.Rest {
		return "(" + s.Name + ")"
	}
	return s.Name
}

// A Function is the part of a phase spent in one function. A function of the runtime or the
// system has the name "runtime.memmove in main.decode", with its caller. Its own name would not
// show which code to change.
type Function struct {
	Name string `json:"name"`                     // name of the function
	Flat int64  `json:"flat" unit:"as unit says"` // part in the function itself
	Cum  int64  `json:"cum" unit:"as unit says"`  // part in the function and those that it calls
}

// Share returns value divided by the total, or 0 if the total is 0.
func (s *Summary) Share(value int64) float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(value) / float64(s.Total)
}
