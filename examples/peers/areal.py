"""AReaL's own RTensor as a peer, from your installation of AReaL 2, or a checkout named by AREAL.

    AREAL=../AReaL ipcbench run --transport http,py-areal --peer areal='python3 examples/peers/areal.py'

Server and workers store tensors with RTensor.remotize, serve them from AReaL's own blueprint, and
fetch them with RTensor.localize. RTensor carries batches; weights go through NCCL or a disk. A pipe
takes the place of AReaL's RPC. Of the packages areal, areal.infra and its rpc.guard, only the
modules on this path are imported, since their __init__ files import trainers, ray and CUDA.
"""

import importlib.util
import logging
import os
import sys
import threading
import types

# instead of the folder of this file, in which import areal would find this file
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python/peers")
sys.path.append(os.environ.get("AREAL", ""))

import numpy as np

import common

try:
    spec = importlib.util.find_spec("areal")
    if spec is None:
        raise ImportError("no module areal")
    for name in ("areal", "areal.infra", "areal.infra.utils", "areal.infra.rpc",
                 "areal.infra.rpc.guard", "areal.utils"):
        package = types.ModuleType(name)  # without running its __init__
        parts = name.split(".")[1:]
        package.__path__ = [os.path.join(p, *parts) for p in spec.submodule_search_locations]
        sys.modules[name] = package
    import torch
    from areal.infra.rpc import rtensor
    from areal.infra.rpc.guard import data_blueprint
    from flask import Flask
    from werkzeug.serving import make_server
except ImportError as e:
    sys.exit(f"areal.py needs AReaL 2 with torch, aiohttp, orjson, pydantic 2 and flask "
             f"(install it, or set AREAL to a checkout): {e}")

logging.disable(logging.WARNING)


def serve():
    """Serves this process's tensors, and returns the address."""
    app = Flask("areal")
    app.register_blueprint(data_blueprint.data_bp)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


def remote(model, address):
    """Stores a model, and returns the handle with which readers fetch it."""
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
    """Drops tensors from this process's store, or from its buffer of fetched ones."""
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
