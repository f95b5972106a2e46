package batched

import (
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// methods maps the full name of each method to a counter. A call is counted when its
// response arrives, so that a request that waits across rounds belongs to its job's
// round. An upload of results is counted when it has been sent, because the round may
// be over before the response.
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
