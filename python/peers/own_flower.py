"""Flower's own code, 1.30 (April 2026): objects of 5 MiB over gRPC, three hops, new processes.

It imports flwr, as in flwrlabs/flower 77068b8497. These run, all with Flower's functions:

- The SuperLink, a process with its ServerAppIo and Fleet servers, in-memory state and objects.
- The server, as a ServerApp: Array serializes tensors, GrpcGrid pushes a message and its objects,
  pulls the reply, and inflates it.
- A SuperNode per worker, a process that pulls each message and stores its objects, and pushes
  the reply and its objects.
- A ClientApp, a new process per message, which pulls the message from the SuperNode, trains, and
  pushes the reply there. The worker starts it, as Flower's SuperExec does.

Node signatures, tokens and heartbeats are Flower's. Left out: sleeps of up to 3 s between two
looks for a message and waiting for objects, as pipes say when a message is complete; the FAB,
the archive that a ClientApp is loaded from; TLS. The server averages instead of a strategy.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import logging
import multiprocessing
import os
from collections import OrderedDict
from multiprocessing import connection

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_HOME"] = os.getcwd()  # the block's folder

import common

try:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
    from flwr.client.grpc_rere_client.connection import grpc_request_response
    from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, Status
    from flwr.common.grpc import create_channel
    from flwr.common.retry_invoker import make_simple_grpc_retry_invoker, wrap_stub
    from flwr.common.typing import Fab, Run, RunStatus
    from flwr.proto.clientappio_pb2_grpc import ClientAppIoStub
    from flwr.server.app import _run_fleet_api_grpc_rere
    from flwr.server.grid.grpc_grid import GrpcGrid
    from flwr.server.superlink.fleet.grpc_rere.node_auth_server_interceptor import (
        NodeAuthServerInterceptor)
    from flwr.server.superlink.linkstate import LinkStateFactory
    from flwr.server.superlink.serverappio.serverappio_grpc import run_serverappio_api_grpc
    from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION
    from flwr.supercore.interceptors import AppIoTokenClientInterceptor
    from flwr.supercore.object_store import ObjectStoreFactory
    from flwr.superlink.federation import NoOpFederationManager
    from flwr.supernode.nodestate import NodeStateFactory
    from flwr.supernode.runtime.run_clientapp import pull_appinputs, push_appoutputs
    from flwr.supernode.start_client_internal import (
        _pull_and_store_message, _push_messages, run_clientappio_api_grpc)

    problem = ""
except ImportError as e:  # a row that is refused is skipped
    problem = f"flwr is not 1.30 (pip install flwr==1.30.0): {e}"

logging.getLogger("flwr").setLevel(logging.ERROR)
ANY_PORT = "127.0.0.1:0"


def content(model, **job):
    arrays = ArrayRecord(OrderedDict((name, Array(a)) for name, a in model.items()))
    return RecordDict({"model": arrays, "job": ConfigRecord(job)})


def model_of(message):
    if message.has_error():
        raise RuntimeError(f"Flower: {message.error.reason}")
    return {name: array.numpy() for name, array in message.content["model"].items()}


def superlink(pipe):
    objects = ObjectStoreFactory()
    states = LinkStateFactory(FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), objects)
    app = run_serverappio_api_grpc(ANY_PORT, states, objects, None)
    fleet = _run_fleet_api_grpc_rere(
        ANY_PORT, states, objects, False, None, [NodeAuthServerInterceptor(states)])
    state = states.state()
    run = state.create_run("ipcbench/row", "1", "", {}, NOOP_FEDERATION, None, "", "")
    token = state.create_token(run)
    for status in (Status.STARTING, Status.RUNNING):
        state.update_run_status(run, RunStatus(status, "", ""))
    pipe.send((app.bound_address, fleet.bound_address, run, token))
    while not pipe.poll(HEARTBEAT_DEFAULT_INTERVAL / 3):
        state.acknowledge_app_heartbeat(token)
    common.end_after(pipe.recv)


def supernode(pipe, worker, fleet, run):
    """Carries out a message whenever the server says that one is complete."""
    objects = ObjectStoreFactory()
    states = NodeStateFactory(objectstore_factory=objects)
    app = run_clientappio_api_grpc(ANY_PORT, states, objects, None, None)
    state, store = states.state(), objects.store()
    with grpc_request_response(fleet, True, make_simple_grpc_retry_invoker()) as node:
        node_id, receive, send, get_run, get_fab, pull, push, confirm = node
        state.set_node_id(node_id)
        state.store_context(Context(run, node_id, {}, RecordDict(), {}))
        entry = Run.create_empty(run)
        entry.fab_hash = state.store_fab(Fab("", b"", {}))
        state.store_run(entry)
        pipe.send((node_id, app.bound_address))
        while wait(pipe):
            _pull_and_store_message(
                state, store, {}, receive, get_run, get_fab, pull, confirm, None)
            worker.send(state.create_token(run))
            wait(worker)
            _push_messages(state, store, send, push)
            pipe.send(None)


def wait(pipe):
    """Waits for a signal, and ends this process if the other process has ended."""
    try:
        pipe.recv()
    except EOFError:
        os._exit(0)
    return True


class Server(common.Server):
    @classmethod
    def refusal(cls, work, cell):
        return problem

    def __init__(self, session):
        super().__init__(session)
        self.theirs = []
        self.link, (app, self.fleet, self.run, token) = self.start("SuperLink", superlink)
        self.grid = GrpcGrid(app, insecure=True, token=token)
        self.grid.set_run(Run.create_empty(self.run))
        self.nodes, self.ids, self.sent = [], [], [""] * session.workers

    def start(self, name, process, *arguments):
        """Starts a process, and returns a pipe to it and its first message."""
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        context.Process(target=process, args=(theirs, *arguments), daemon=True, name=name).start()
        theirs.close()
        return pipe, pipe.recv()

    def arguments(self, n):
        ours, theirs = multiprocessing.Pipe()
        node, (node_id, address) = self.start("SuperNode", supernode, ours, self.fleet, self.run)
        ours.close()
        self.nodes.append(node)
        self.ids.append(node_id)
        self.theirs.append(theirs)
        return theirs, address, self.session.settings(n)

    def ready(self):
        for pipe in self.theirs:
            pipe.close()

    def publish(self, model):
        self.content = content(model)

    def dispatch(self, n, job):
        parts = {**self.content, "job": ConfigRecord({"round": job.round, "client": job.client})}
        message = Message(RecordDict(parts), self.ids[n], "train")
        self.sent[n], = self.grid.push_messages([message])
        self.nodes[n].send(None)

    def collect(self):
        n = self.nodes.index(connection.wait(self.nodes)[0])
        self.nodes[n].recv()
        replies = list(self.grid.pull_messages([self.sent[n]]))
        if len(replies) != 1:
            raise RuntimeError("Flower: the SuperLink has no reply")
        return n, model_of(replies[0])


def work(worker, pipe, address, settings):
    while True:
        token = pipe.recv()
        worker.log.append(common.in_new_process(__file__, (settings, address, token)))
        pipe.send(None)


def clientapp(settings, address, token):
    worker = common.Worker(*settings)
    channel = create_channel(address, True, interceptors=[AppIoTokenClientInterceptor(token)])
    stub = ClientAppIoStub(channel)
    wrap_stub(stub, make_simple_grpc_retry_invoker())
    message, context, _, _ = pull_appinputs(stub, token)
    job = common.Job(message.content["job"]["round"], message.content["job"]["client"])
    reply = Message(content(worker.train(job, model_of(message))), reply_to=message)
    push_appoutputs(stub, token, reply, context)
    return worker.log.pop()


if __name__ == "__main__":
    common.main(Server, work, clientapp)
