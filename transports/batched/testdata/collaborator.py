"""A collaborator in Python: what federation.proto says and nothing else.

It fetches the model over all three methods, compares, and sends every tensor
back with its bytes reversed. Arguments: the directory of federation_pb2.py, and
JSON that says where the aggregator is and what the tensors are called.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])

import grpc
import federation_pb2 as pb

arguments = json.loads(sys.argv[2])
SERVICE = "/ipcbench.federation.v1.Federation/"
TIMEOUT = 20


def method(make, name, response):
    return make(
        SERVICE + name,
        request_serializer=lambda m: m.SerializeToString(),
        response_deserializer=response.FromString,
    )


channel = grpc.insecure_channel(
    arguments["target"], options=[("grpc.max_receive_message_length", 1 << 30)]
)
get_tasks = method(channel.unary_unary, "GetTasks", pb.GetTasksResponse)
get_tensor = method(channel.unary_unary, "GetAggregatedTensor", pb.GetAggregatedTensorResponse)
get_tensors = method(channel.unary_unary, "GetAggregatedTensors", pb.GetAggregatedTensorsResponse)
stream_tensors = method(channel.unary_stream, "StreamAggregatedTensors", pb.TensorChunk)
send_results = method(channel.stream_unary, "SendLocalTaskResults", pb.SendLocalTaskResultsResponse)

header = pb.MessageHeader(
    sender="worker-0", receiver="aggregator", federation_id=arguments["federation"]
)
task = get_tasks(pb.GetTasksRequest(header=header), timeout=TIMEOUT).task
specs = [
    pb.TensorSpec(name=name, round=task.round, tags=[arguments["model_tag"]], require_lossless=True)
    for name in arguments["tensors"]
]

singles = [
    get_tensor(
        pb.GetAggregatedTensorRequest(header=header, client=task.client, spec=spec), timeout=TIMEOUT
    ).tensor
    for spec in specs
]
many = pb.GetAggregatedTensorsRequest(header=header, client=task.client, specs=specs)
batch = list(get_tensors(many, timeout=TIMEOUT).tensors)

streamed = []
for chunk in stream_tensors(many, timeout=TIMEOUT):
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
        tensor.tags[:] = [arguments["update_tag"]]
        tensor.data = tensor.data[::-1]
        yield pb.TensorChunk(tensors=[tensor])


reply = send_results(chunks(), timeout=TIMEOUT)
assert reply.header.receiver == "worker-0" and reply.header.federation_id == header.federation_id
channel.close()
