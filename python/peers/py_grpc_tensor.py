"""gRPC with one call per tensor of the model, as OpenFL fetches them.

A collaborator asks for its task, then for each of the model's tensors by name
(GetAggregatedTensor), and sends its results in one message. Otherwise this is py-grpc.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import common
import exchange_pb2 as pb
import py_grpc


class Server(py_grpc.Server):
    def GetJob(self, request, context):
        job = self.take(request.worker)
        names = [pb.NamedTensor(name=name) for name in self.model]
        return pb.Job(round=job.round, client=job.client, model=names)

    def GetTensor(self, request, context):
        return py_grpc.to_message(request.name, self.model[request.name])


def work(worker, port, name):
    stub = py_grpc.connect(port)
    while True:
        job = stub.GetJob(pb.JobRequest(worker=name))
        model = py_grpc.to_model(
            stub.GetTensor(pb.TensorRequest(worker=name, name=t.name)) for t in job.model)
        update = worker.train(common.Job(job.round, job.client), model)
        stub.SendUpdate(pb.Update(worker=name, tensors=py_grpc.to_messages(update)))


if __name__ == "__main__":
    common.main(Server, work)
