package driver

// Needs are the resources other than memory that a session needs on its machine. A
// zero field means no more than every session needs.
type Needs struct {
	Dir         string // directory of its files
	Bytes       int64  // peak size of these files
	Mappings    int64  // memory mappings of the process with the most
	Descriptors int64  // open descriptors of the process with the most
}
