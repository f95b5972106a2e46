package batched

import (
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// methods holds a counter for each method, by its full name. A call counts when its
// answer is in, so that a request that parks across rounds belongs to the round of its
// job; the results count when they are out, since then the round may be over.
type methods map[string]*phase.Counter

func newMethods(rec *phase.Recorder, prefix string) methods {
	m, d := methods{}, pb.Federation_ServiceDesc
	count := func(name string) { m["/"+d.ServiceName+"/"+name] = rec.Counter(prefix + name) }
	for _, method := range d.Methods {
		count(method.MethodName)
	}
	for _, stream := range d.Streams {
		count(stream.StreamName)
	}
	return m
}
