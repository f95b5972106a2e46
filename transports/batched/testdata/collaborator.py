"""A collaborator in Python: what federation.proto says and nothing else.

It fetches the model over all three methods, compares, and sends every tensor
back with its bytes reversed. Arguments: the directory of federation_pb2.py, and
JSON that says which file has the aggregator's address, what the tensors are called,
and, where the session has TLS, which files have the authority's certificate ("ca") and
its own with its key ("certificate", "key"), if it has one.
"""

import hashlib
import json
import sys

sys.path.insert(0, sys.argv[1])

import grpc
import federation_pb2 as pb

arguments = json.loads(sys.argv[2])
# Where the aggregator is and the session's secret, as its file says it.
with open(arguments["address"]) as file:
    target, secret = file.read().strip().split("#")
federation = hashlib.sha256(secret.encode()).hexdigest()[:16]
target = target.removeprefix("tcp:")  # grpcio knows unix:PATH and HOST:PORT
SERVICE = "/ipcbench.federation.v1.Federation/"


def method(make, name, response):
    call = make(
        SERVICE + name,
        request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=response.FromString,
    )
    return lambda request: call(request, timeout=20, metadata=[("authorization", "Bearer " + secret)])




def read(name):
    if name not in arguments:
        return None
    with open(arguments[name], "rb") as file:
        return file.read()


options = [("grpc.max_receive_message_length", 1 << 30)]
if "ca" in arguments:
    options.append(("grpc.ssl_target_name_override", "aggregator"))  # wherever it listens
    identity = grpc.ssl_channel_credentials(read("ca"), read("key"), read("certificate"))
    channel = grpc.secure_channel(target, identity, options)
else:
    channel = grpc.insecure_channel(target, options)
get_tasks = method(channel.unary_unary, "GetTasks", pb.GetTasksResponse)
get_tensor = method(channel.unary_unary, "GetAggregatedTensor", pb.GetAggregatedTensorResponse)
get_tensors = method(channel.unary_unary, "GetAggregatedTensors", pb.GetAggregatedTensorsResponse)
stream_tensors = method(channel.unary_stream, "StreamAggregatedTensors", pb.TensorChunk)
send_results = method(channel.stream_unary, "SendLocalTaskResults", pb.SendLocalTaskResultsResponse)

header = pb.MessageHeader(sender="lane-0", receiver="aggregator", federation_id=federation)
try:
    task = get_tasks(pb.GetTasksRequest(header=header)).task
except grpc.RpcError as refusal:
    sys.exit(f"{refusal.code().name}: {refusal.details()} {refusal.trailing_metadata()}")
specs = [
    pb.TensorSpec(name=name, round=task.round, tags=["model"], require_lossless=True)
    for name in arguments["tensors"]
]

singles = [
    get_tensor(pb.GetAggregatedTensorRequest(header=header, client=task.client, spec=spec)).tensor
    for spec in specs
]
many = pb.GetAggregatedTensorsRequest(header=header, client=task.client, specs=specs)
batch = list(get_tensors(many).tensors)

streamed = []
for chunk in stream_tensors(many):
    for piece in chunk.tensors:
        if piece.offset == 0:
            streamed.append(piece)
        else:
            assert piece.name == streamed[-1].name and piece.offset == len(streamed[-1].data)
            streamed[-1].data += piece.data

assert [t.name for t in batch] == arguments["tensors"]
assert batch == singles, "one call a tensor and one call for all differ"
assert batch == streamed, "one call for all and a stream of chunks differ"


def chunks():
    yield pb.TensorChunk(
        header=header,
        results=pb.TaskResults(
            task_id=task.id, round=task.round, client=task.client, report=1, reports=1, receipt=b"from python"
        ),
    )
    for tensor in batch:
        tensor.tags[:] = ["trained"]
        tensor.data = tensor.data[::-1]
        yield pb.TensorChunk(tensors=[tensor])


reply = send_results(chunks())
assert reply.header.receiver == "lane-0" and reply.header.federation_id == header.federation_id
channel.close()
