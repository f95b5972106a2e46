"""gRPC with generated stubs and one unary call each way, as in OpenFL and Flower.

A worker asks for its next job and gets the model in the same message: a tensor is its name, data
type, shape and bytes. The update is sent in another message. array.tobytes() copies, and so does
serializing the message. OPTIONS removes gRPC's default limit of 4 MiB per message.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

from concurrent import futures

import grpc
import numpy as np

import common
import exchange_pb2 as pb
import exchange_pb2_grpc as pb_grpc

OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def to_message(name, array):
    dtype, shape = str(array.dtype), array.shape
    return pb.NamedTensor(name=name, dtype=dtype, shape=shape, data=array.tobytes())


def to_messages(model):
    return [to_message(name, array) for name, array in model.items()]


def to_model(messages):
    return {t.name: np.frombuffer(t.data, t.dtype).reshape(t.shape) for t in messages}


class Server(common.Asked, pb_grpc.ExchangeServicer):
    def __init__(self, session):
        super().__init__(session)
        self.grpc = grpc.server(futures.ThreadPoolExecutor(2 * session.workers), options=OPTIONS)
        pb_grpc.add_ExchangeServicer_to_server(self, self.grpc)
        self.port = self.grpc.add_insecure_port("127.0.0.1:0")
        self.grpc.start()

    def arguments(self, n):
        return self.port, self.names[n]

    def GetModel(self, request, context):
        job = self.take(request.worker)
        return pb.Job(round=job.round, client=job.client, model=to_messages(self.model))

    def SendUpdate(self, request, context):
        self.give(request.worker, to_model(request.tensors))
        return pb.Accepted()


def connect(port):
    return pb_grpc.ExchangeStub(grpc.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS))


def work(worker, port, name):
    stub = connect(port)
    while True:
        job = stub.GetModel(pb.JobRequest(worker=name))
        update = worker.train(common.Job(job.round, job.client), to_model(job.model))
        stub.SendUpdate(pb.Update(worker=name, tensors=to_messages(update)))


if __name__ == "__main__":
    common.main(Server, work)
