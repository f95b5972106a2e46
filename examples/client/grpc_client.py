"""A client of ipcbench serve --transport grpc-stream: grpc_client.py CONTACT [LANE].

It needs grpcio, and federation_pb2.py somewhere in PYTHONPATH:

    protoc --python_out=. --proto_path=transports/batched federation.proto
"""

import hashlib
import random

import grpc
import federation_pb2 as pb

import worker

session = worker.join()
target = session["where"] if session["network"] == "tcp" else "unix:" + session["where"]
channel = grpc.insecure_channel(target, [("grpc.max_receive_message_length", -1)])
header = pb.MessageHeader(
    sender=f"lane-{session['lane']}", receiver="aggregator",
    federation_id=hashlib.sha256(session["secret"].encode()).hexdigest()[:16],
)


def call(make, name, response, request):
    path = "/ipcbench.federation.v1.Federation/" + name
    method = make(path, lambda m: m.SerializeToString(), response.FromString)
    return method(request, metadata=[("authorization", "Bearer " + session["secret"])])


def fetch(task):
    """Returns the global model."""
    model = {t["name"]: b"" for t in session["tensors"]}
    specs = [pb.TensorSpec(name=name, round=task.round, tags=["model"]) for name in model]
    request = pb.GetAggregatedTensorsRequest(header=header, client=task.client, specs=specs)
    for chunk in call(channel.unary_stream, "StreamAggregatedTensors", pb.TensorChunk, request):
        for piece in chunk.tensors:
            model[piece.name] += piece.data
    return list(model.values())


def results(task, update):
    """Yields the update in pieces of 1 MiB."""
    yield pb.TensorChunk(header=header, results=pb.TaskResults(
        task_id=task.id, round=task.round, client=task.client, report=1, reports=1))
    for t, data in zip(session["tensors"], update):
        dtype = pb.DType.Value("DTYPE_" + t["dtype"].upper())
        for at in range(0, max(len(data), 1), 1 << 20):
            yield pb.TensorChunk(tensors=[pb.NamedTensor(
                name=t["name"], dtype=dtype, shape=t["shape"], round=task.round, tags=["trained"],
                lossless=True, offset=at, data=data[at:at + (1 << 20)])])


def run():
    digest = int(session["digest"], 16)
    request = pb.JoinRequest(header=header, model_digest=digest, update_digest=digest,
                             worker=random.getrandbits(64))
    call(channel.unary_unary, "Join", pb.JoinResponse, request)
    try:
        while True:
            request = pb.GetTasksRequest(header=header)
            answer = call(channel.unary_unary, "GetTasks", pb.GetTasksResponse, request)
            if answer.quit:
                return
            task = answer.task
            update = worker.train(fetch(task), session, task.round, task.client)
            call(channel.stream_unary, "SendLocalTaskResults", pb.SendLocalTaskResultsResponse,
                 results(task, update))
    except Exception as error:
        request = pb.LeaveRequest(header=header, cause=repr(error)[:1000])
        call(channel.unary_unary, "Leave", pb.LeaveResponse, request)
        raise


try:
    run()
except grpc.RpcError as refusal:
    raise SystemExit(f"{refusal.code().name}: {refusal.details()}")
