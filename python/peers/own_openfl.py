"""OpenFL 1.6 (October 2024): its own code, gRPC, a call and a channel per tensor.

It imports openfl, as in securefederatedai/openfl 6aac83ae. These run, all with OpenFL's functions:

- The server: Aggregator, which keeps tensors in a TensorDB (pandas), behind AggregatorGRPCServer.
- A worker: Collaborator and AggregatorGRPCClient. It asks for its tasks, then for each tensor by
  name with a new channel, trains, and sends all results as one message in pieces of 2 MiB. Its
  TensorDB keeps a copy of everything.

Left out: sleeps of 10 s of a collaborator without a task, as a pipe says when a round begins; the
end of a round with its average, deltas and file of the model; TLS. The server averages instead.
OpenFL changes all tensors to f32: tensors of other types travel as the f32 of their bytes. It has
a collaborator per client, so the numbers of workers and clients must be equal.

The worker function is the stock one, by ipcbench_worker.arithmetic: C through ctypes, or numpy.
"""

import logging
import queue
import socket

import numpy as np
from openfl.component import Aggregator, Collaborator
from openfl.transport import AggregatorGRPCClient, AggregatorGRPCServer
from openfl.utilities import TaskResultKey, TensorKey

import common

logging.getLogger("openfl").setLevel(logging.CRITICAL)
TASK, MOST_ROUNDS = "step", 10_000


def to_floats(array):
    if array.dtype == np.float32:
        return array
    data = array.tobytes()
    return np.frombuffer(data + bytes(-len(data) % 4), np.float32)


def to_model(layout, arrays):
    model = {}
    for s, size in zip(layout.specs, layout.sizes):
        data = arrays[s.name].reshape(-1).view(np.uint8)[:size]
        model[s.name] = data.view(s.type.numpy).reshape(s.shape)
    return model


class Tasks:
    """OpenFL's assigner: each collaborator trains in each round."""

    def get_tasks_for_collaborator(self, name, round):
        return [TASK]


class Averaged(Aggregator):
    """An aggregator that passes updates, and exceptions of its calls, to a queue."""

    def __init__(self, updates, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.updates = updates

    def get_aggregated_tensor(self, *arguments):
        return self.passing(super().get_aggregated_tensor, *arguments)

    def send_local_task_results(self, name, round, *arguments):
        self.passing(super().send_local_task_results, name, round, *arguments)
        keys = self.collaborator_tasks_results.pop(TaskResultKey(TASK, name, round))
        self.updates.put((name, keys))

    def passing(self, call, *arguments):
        try:
            return call(*arguments)
        except Exception as e:  # which the client would try again for ever
            self.updates.put((e, ()))
            raise

    def _end_of_round_with_stragglers_check(self):
        """Leaves the end of the round to the server."""


class Server(common.Piped):
    @classmethod
    def refusal(cls, work, cell):
        if cell["workers"] == len(work["clients"]):
            return ""
        return "OpenFL has a collaborator per client: choose as many --workers as --clients"

    def __init__(self, session):
        super().__init__(session)
        self.updates, self.names = queue.SimpleQueue(), [session.name() for _ in self.pipes]
        identity = "aggregator-" + session.name(), session.name()  # which no program can guess
        self.aggregator = Averaged(
            self.updates, *identity, self.names, "", "", "", Tasks(),
            rounds_to_train=MOST_ROUNDS, initial_tensor_dict={})
        with socket.socket() as held:  # OpenFL's server does not return the port that it finds
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            held.bind(("127.0.0.1", 0))
            self.link = ("127.0.0.1", held.getsockname()[1], *identity)
            server = AggregatorGRPCServer(self.aggregator, 0, tls=False)
            server.uri = "%s:%d" % self.link[:2]  # instead of all interfaces
            server.get_server().start()
        self.aggregator.round_number = -1

    def arguments(self, n):
        return self.theirs[n], self.names[n], self.link

    def publish(self, model):
        self.aggregator.round_number += 1
        key = self.aggregator.uuid, self.aggregator.round_number, False, ("model",)
        self.aggregator.tensor_db.cache_tensor(
            {TensorKey(name, *key): to_floats(array) for name, array in model.items()})
        self.aggregator.tensor_db.clean_up(self.aggregator.db_store_rounds)

    def dispatch(self, n, job):
        self.pipes[n].send(job)

    def collect(self):
        name, keys = self.updates.get()
        if isinstance(name, Exception):
            raise name
        get = self.aggregator.tensor_db.get_tensor_from_cache
        arrays = {key.tensor_name: get(key) for key in keys}
        return self.names.index(name), to_model(self.session.up, arrays)


class Runner:
    """OpenFL's task runner: the function that trains."""

    def __init__(self, worker):
        self.worker = worker

    def set_optimizer_treatment(self, treatment):
        pass

    def get_required_tensorkeys_for_function(self, function):
        specs = self.worker.down.specs
        return [TensorKey(s.name, "GLOBAL", 0, False, ("model",)) for s in specs]

    def train(self, col_name, round_num, input_tensor_dict):
        model = to_model(self.worker.down, input_tensor_dict)
        update = self.worker.train(self.job, model)
        return {TensorKey(name, col_name, round_num, False, ("trained",)): to_floats(array)
                for name, array in update.items()}, {}


def work(worker, pipe, name, link):
    address, port, *identity = link
    runner = Runner(worker)
    client = AggregatorGRPCClient(address, port, True, None, None, None, False, *identity)
    tasks = {TASK: {"function": "train", "kwargs": {}}}
    collaborator = Collaborator(name, *identity, client, runner, tasks)
    while True:
        runner.job = pipe.recv()
        received, round, _, _ = collaborator.get_tasks()
        for task in received:
            collaborator.do_task(task, round)
        collaborator.tensor_db.clean_up(collaborator.db_store_rounds)


if __name__ == "__main__":
    common.main(Server, work)
