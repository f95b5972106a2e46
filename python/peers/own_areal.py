"""AReaL 2.0.0 (July 2026): its own code, base64 in JSON, 32 tensors per POST.

It imports the package areal that this Python has, or a checkout in PYTHONPATH. Read at commit
cbff54d6 (August 2026). What runs of it: RTensor.remotize stores tensors in the memory of server
and workers; the handler of POST /data/batch (infra/rpc/guard/data_blueprint.py) serves them from
there as base64 in JSON, by Flask and werkzeug in threads; RTensor.localize fetches them by
aiohttp, with a session and a connection per call, 32 tensors per POST.

Left out: a pipe takes the place of AReaL's RPC, which carries the handles of tensors, and the
other calls of the blueprint are not served. RTensor carries batches; AReaL's weights go through
NCCL or a disk. Of areal, areal.infra, areal.utils and rpc.guard, only the modules on this path
are imported, since their __init__ files import trainers, ray and CUDA.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import importlib.util
import logging
import os
import sys
import threading
import types

import numpy as np

import common

found = importlib.util.find_spec("areal")
for name in ("areal", "areal.infra", "areal.infra.utils", "areal.infra.rpc",
             "areal.infra.rpc.guard", "areal.utils"):
    package = types.ModuleType(name)  # without running its __init__
    parts = name.split(".")[1:]
    package.__path__ = [os.path.join(p, *parts) for p in found.submodule_search_locations]
    sys.modules[name] = package

import torch
from areal.infra.rpc import rtensor
from areal.infra.rpc.guard import data_blueprint
from flask import Flask
from werkzeug.serving import make_server

logging.disable(logging.WARNING)


def serve():
    """Serves this process's tensors, whose names no one can guess, and returns the address."""
    app = Flask("areal")
    fetch = data_blueprint.retrieve_batch_data_many
    app.add_url_rule("/data/batch", view_func=fetch, methods=["POST"])
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def remote(model, address):
    """Stores a model, and returns the handles with which readers fetch it."""
    tensors = {}
    for name, a in model.items():
        t = torch.from_numpy(a.view(np.int16) if a.dtype == np.uint16 else a)
        tensors[name] = t.view(torch.bfloat16) if a.dtype == np.uint16 else t
    return rtensor.RTensor.remotize(tensors, node_addr=address)


def local(remotes):
    model = {}
    for name, t in rtensor.RTensor.localize(remotes).items():
        bits = t.view(torch.int16) if t.dtype == torch.bfloat16 else t
        a = bits.numpy()
        model[name] = a.view(np.uint16) if t.dtype == torch.bfloat16 else a
    return model


def forget(remotes):
    """Drops tensors from this process's store, and all from its buffer of fetched ones."""
    for r in remotes.values():
        rtensor.remove(r.shard.shard_id)
    rtensor.clear_fetch_buffer()


class Server(common.Piped):
    def __init__(self, session):
        super().__init__(session)
        self.address, self.kept = serve(), {}

    def publish(self, model):
        forget(self.kept)
        self.kept = remote(model, self.address)

    def dispatch(self, n, job):
        self.pipes[n].send((job, self.kept))

    def collect(self):
        n = self.waiting()
        return n, local(self.pipes[n].recv())

    def finish(self):
        rtensor.clear_fetch_buffer()


def work(worker, pipe):
    address, kept = serve(), {}
    while True:
        job, remotes = pipe.recv()
        forget(kept)
        kept = remote(worker.train(job, local(remotes)), address)
        pipe.send(kept)


if __name__ == "__main__":
    common.main(Server, work)
