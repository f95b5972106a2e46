"""OpenFL 1.6 (October 2024): gRPC, a call and a channel per tensor.

It imitates openfl/component/collaborator/collaborator.py and transport/grpc/aggregator_client.py.
A collaborator asks for its task, then for each of the model's tensors by name, and opens a
channel for each call. It sends its results as one message, cut into pieces of 2 MiB.

Here are no TensorDB, compression pipeline or files, and a worker waits for its task instead of
sleeping 10 s. calls=batched fetches all tensors in one call, as OpenFL 1.8 does. OpenFL ended in
October 2025 (flower#5975).

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

from concurrent import futures

import grpc
import numpy as np

import common
import exchange_pb2 as pb
import exchange_pb2_grpc as pb_grpc

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
PIECE = 2 << 20


def to_message(name, array):
    dtype, shape = str(array.dtype), array.shape
    return pb.NamedTensor(name=name, dtype=dtype, shape=shape, data=array.tobytes())


def to_messages(model):
    return [to_message(name, array) for name, array in model.items()]


def to_model(messages):
    return {t.name: np.frombuffer(t.data, t.dtype).reshape(t.shape) for t in messages}


def to_pieces(message):
    data = message.SerializeToString()
    for at in range(0, len(data), PIECE):
        yield pb.Piece(data=data[at:at + PIECE])


class Server(common.Asked, pb_grpc.ExchangeServicer):
    def __init__(self, session):
        super().__init__(session)
        self.grpc = grpc.server(futures.ThreadPoolExecutor(2 * session.workers), options=OPTIONS)
        pb_grpc.add_ExchangeServicer_to_server(self, self.grpc)
        self.port = self.grpc.add_insecure_port("127.0.0.1:0")
        self.grpc.start()

    def arguments(self, n):
        return self.port, self.names[n], self.session.setting["calls"]

    def GetJob(self, request, context):
        job = self.take(request.worker)
        return pb.Job(round=job.round, client=job.client, names=list(self.model))

    def GetTensors(self, request, context):
        self.names.index(request.worker)  # no other program can guess it
        return pb.Tensors(tensors=[to_message(n, self.model[n]) for n in request.names])

    def SendUpdate(self, pieces, context):
        update = pb.Update.FromString(b"".join(p.data for p in pieces))
        self.give(update.worker, to_model(update.tensors))
        return pb.Accepted()


def work(worker, port, name, calls):
    def call(method, request):
        with grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
            return getattr(pb_grpc.ExchangeStub(channel), method)(request)

    while True:
        job = call("GetJob", pb.JobRequest(worker=name))
        groups = [job.names] if calls == "batched" else [[n] for n in job.names]
        model = {}
        for names in groups:
            answer = call("GetTensors", pb.TensorsRequest(worker=name, names=names))
            model.update(to_model(answer.tensors))
        update = worker.train(common.Job(job.round, job.client), model)
        call("SendUpdate", to_pieces(pb.Update(worker=name, tensors=to_messages(update))))


if __name__ == "__main__":
    common.main(Server, work, calls="each")
