package python

// A Release is one of a project: the one that rows imitate, or the newest whose wire was read.
type Release struct{ Version, Date string }

// Releases returns a release of each project by its name. Rows, their docstrings and README's table have them from
// here, and a test compares them. A date is the tag's or the package's.
func Releases() map[string]Release {
	return map[string]Release{
		"BlazeFL":   {"3.0.0", "April 2026"},
		"Flower":    {"1.43", "November 2026"},
		"OpenFL":    {"1.6", "October 2024"},
		"AReaL":     {"2.0.0", "July 2026"},
		"NVFlare":   {"2.9.0", "September 2026"},
		"verl":      {"0.9.1", "September 2026"},
		"APPFL":     {"1.12.0", "October 2026"},
		"FedML":     {"0.9.6", "February 2025"},
		"PySyft":    {"0.10.0", "August 2026"},
		"syft-flwr": {"0.5.3", "July 2026"},
	}
}

// String returns the release as README's table has it.
func (r Release) String() string { return r.Version + ", " + r.Date }
