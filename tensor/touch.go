package tensor

// AllocTouched is Alloc with every page there already, so that first faults do not
// land in a round.
func AllocTouched(l *Layout) *Package {
	const page = 4096
	p := Alloc(l)
	for _, d := range p.data {
		for i := 0; i < len(d); i += page {
			d[i] = 0
		}
		if len(d) > 0 {
			d[len(d)-1] = 0
		}
	}
	return p
}
