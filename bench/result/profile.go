package result

// A Summary is what is shown of a profile. Values are nanoseconds or bytes.
type Summary struct {
	Delivered  int64   `json:"delivered_bytes"`                       // bytes of models and updates that these rounds delivered; 0 if unknown
	Unit       string  `json:"unit"`                                  // `s` if the values below are nanoseconds, `B` if they are bytes
	Total      int64   `json:"total" unit:"as unit says"`             // sum of all samples, in ns or bytes
	Transport  int64   `json:"transport_code" unit:"as unit says"`    // the part in a transport's own code and what it calls
	Attributed int64   `json:"attributed" unit:"as unit says"`        // the part of `transport_code` that belongs to a phase
	Memmove    int64   `json:"memmove,omitempty" unit:"as unit says"` // the part in copying memory
	Phases     []Split `json:"phases"`                                // by phase, the heaviest first

	Functions []Function `json:"functions"` // by function over all phases, the heaviest first
}

// A Split is a phase's part of a profile.
type Split struct {
	Name      string     `json:"name"`                       // name of the phase, or of what belongs to none
	Rest      bool       `json:"rest,omitempty"`             // it is no phase, but garbage collection or the like
	Flat      int64      `json:"flat" unit:"as unit says"`   // in the phase itself, in ns or bytes
	Cum       int64      `json:"cum" unit:"as unit says"`    // with the phases inside of it
	Server    int64      `json:"server" unit:"as unit says"` // the part of `flat` in the server process
	Functions []Function `json:"functions"`                  // its functions, the heaviest first
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
	Name string `json:"name"`                     // name of the function
	Flat int64  `json:"flat" unit:"as unit says"` // in the function itself, in ns or bytes
	Cum  int64  `json:"cum" unit:"as unit says"`  // with the functions that it calls
}

// Share returns value's share of all.
func (s *Summary) Share(value int64) float64 {
	if s.Total == 0 {
		return 0
	}
	return float64(value) / float64(s.Total)
}
