package driver

// Needs are what a session takes of its machine besides memory. What is zero is no
// more than any session takes.
type Needs struct {
	Dir         string // in which it keeps files
	Bytes       int64  // that these have at most
	Mappings    int64  // of the process that has most of them
	Descriptors int64  // likewise, open at the same time
	Calls       int    // that a client makes in a round, where they grow with the number of tensors
}

// A Needy is a Transport that needs more than memory. Its Check compares these
// numbers with what there is.
type Needy interface {
	Needs(o Options) (Needs, error)
}
