package batched

import (
	"ipcbench/phase"
	pb "ipcbench/transports/batched/federationpb"
)

// methods holds a counter for each method. A call counts when its answer is in,
// so that a request that parks across rounds belongs to the round of its job;
// the results count when they are out, since then the round may be over.
type methods struct {
	ping, join, leave, tasks, tensor, batch, stream, results *phase.Counter
}

func newMethods(rec *phase.Recorder, prefix string) methods {
	count := func(full string) *phase.Counter {
		return rec.Counter(prefix + full[len("/"+pb.Federation_ServiceDesc.ServiceName+"/"):])
	}
	return methods{
		ping:    count(pb.Federation_Ping_FullMethodName),
		join:    count(pb.Federation_Join_FullMethodName),
		leave:   count(pb.Federation_Leave_FullMethodName),
		tasks:   count(pb.Federation_GetTasks_FullMethodName),
		tensor:  count(pb.Federation_GetAggregatedTensor_FullMethodName),
		batch:   count(pb.Federation_GetAggregatedTensors_FullMethodName),
		stream:  count(pb.Federation_StreamAggregatedTensors_FullMethodName),
		results: count(pb.Federation_SendLocalTaskResults_FullMethodName),
	}
}

// bodies counts received tensors.
type bodies struct{ tensors, bytes, copied *phase.Counter }

func newBodies(rec *phase.Recorder) bodies {
	return bodies{rec.Counter(phase.BodyTensors), rec.Counter(phase.BodyBytes), rec.Counter(phase.Copied)}
}

// add counts tensors that are complete and bytes that were put in place.
func (b bodies) add(tensors, bytes int) {
	b.tensors.Add(tensors)
	b.bytes.Add(bytes)
	b.copied.Add(bytes)
}
