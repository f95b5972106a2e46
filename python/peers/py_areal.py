"""AReaL 2.0.0 (July 2026): base64 in JSON, 32 tensors per POST, a connection per request.

It imitates areal/infra/rpc/rtensor.py, serialization.py and guard/data_blueprint.py, which carry
batches of training data between processes. The process that made a tensor keeps it, under an id, and
serves it over HTTP. A message with the ids goes to the reader, which fetches up to 32 tensors
per POST over a new connection. bf16 is widened to f32. Without orjson, the standard library's
json is used, and the row is marked.

Here the message with the ids goes through a pipe instead of AReaL's RPC, and the standard
library's client and server take the places of aiohttp and Flask. So a round of a small model (cnn) takes
0.58 times as long as AReaL's, and one of 66.6 MB 0.97 times. shards=N changes the 32.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import base64
import http.client
import json
import uuid

import numpy as np

import common
import serving

try:
    import orjson

    dumps, loads = orjson.dumps, orjson.loads
except ImportError:
    common.lacks("orjson")
    loads = json.loads

    def dumps(value):
        return json.dumps(value).encode()


def to_json(array):
    raw = array
    if array.dtype == np.uint16:  # bf16
        raw = np.left_shift(array, 16, dtype=np.uint32)
    data = base64.b64encode(raw.tobytes()).decode()
    return {"type": "tensor", "data": data, "shape": array.shape, "dtype": str(array.dtype)}


def to_array(t):
    raw = base64.b64decode(t["data"].encode())
    if t["dtype"] == "uint16":
        a = np.right_shift(np.frombuffer(raw, np.uint32), 16).astype(np.uint16)
    else:
        a = np.frombuffer(raw, t["dtype"]).copy()
    return a.reshape(t["shape"])


class Handler(serving.Handler):
    def do_POST(self):
        ids = json.loads(self.body())["shard_ids"]
        self.answer(dumps([to_json(self.server.tensors[i]) for i in ids]))


class Store:
    """Serves the tensors of a process. Ids are random, so no other program can guess them."""

    def __init__(self):
        self.http = serving.start(Handler)

    def keep(self, model):
        """Replaces the tensors, and returns what a reader needs to fetch them."""
        ids = {name: str(uuid.uuid4()) for name in model}
        self.http.tensors = {ids[name]: array for name, array in model.items()}
        return self.http.server_port, ids


def fetch(port, ids, shards):
    names, model = list(ids), {}
    for at in range(0, len(names), shards):
        some = names[at:at + shards]
        c = http.client.HTTPConnection("127.0.0.1", port)
        c.request("POST", "/data/batch", json.dumps({"shard_ids": [ids[n] for n in some]}),
                  {"Connection": "close"})
        answer = c.getresponse()
        body = answer.read()
        c.close()
        if answer.status != 200:
            raise RuntimeError(f"POST /data/batch: {answer.status}")
        model.update(zip(some, map(to_array, loads(body))))
    return model


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        self.store, self.shards = Store(), int(session.setting["shards"])

    def arguments(self, n):
        return self.theirs[n], self.shards

    def publish(self, model):
        self.where = self.store.keep(model)

    def dispatch(self, n, job):
        self.pipes[n].send((job, self.where))

    def collect(self):
        n = self.waiting()
        return n, fetch(*self.pipes[n].recv(), self.shards)


def work(worker, pipe, shards):
    store = Store()
    while True:
        job, where = pipe.recv()
        pipe.send(store.keep(worker.train(job, fetch(*where, shards))))


if __name__ == "__main__":
    common.main(Server, work, shards="32")
