"""Code that all reference rows share: the processes of a block, and the exchange with ipcbench.

A row is another file in this folder: a server and a worker's loop, written as its project writes
them. This module reads an order from stdin, starts the workers, has rounds.py measure a block,
and answers on stdout; docs/reference/peer.md defines all three. It takes no part in the measured
exchange: between rounds it talks to the workers through pipes of its own.

    class Server(common.Server):
        def arguments(self, n):        returns the arguments of work in worker n's process
        def publish(self, model):      is called once per round with a dict of arrays by name
        def dispatch(self, n, job):    sends worker n a job, which trains the published model
        def collect(self):             waits for any worker, and returns (n, update)
        def finish(self):              is called at the end of a round; may be absent
        def refusal(work, cell):       is the row's own reason not to run a cell; may be absent
    def work(worker, *arguments):      is a worker's loop: worker.train(job, model) is an update
    if __name__ == "__main__":
        common.main(Server, work, shards="32")  # settings and their defaults, if any

Every process that multiprocessing starts ends with the one that started it. Third processes that
the server starts in __init__ are watched as the workers are: if one ends, the answer is an error.

A worker can start a process of its own for an order: in_new_process.
"""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import traceback
from multiprocessing import connection, util
from typing import Callable, NamedTuple, NoReturn, Optional

sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import numpy as np

from ipcbench_worker import arithmetic
from ipcbench_worker.functions import burn
from ipcbench_worker.layout import Layout, Package, layout_of
from ipcbench_worker.meter import Meter, usage
from ipcbench_worker.recorder import Recorder
from ipcbench_worker.software import software

VERSION = 2  # of orders and answers
RULES = 4  # version of the rules by which rounds.py measures a block
# The keys of an order that rows know. Any other key may ask for a different measurement.
WORK = {"model", "down", "up", "update", "clients"}
CELL = {"work", "variant", "workers", "lanes_per_process", "depth", "train_ms"}
BLOCK = {"seed", "rounds", "least_rounds", "time_ns", "warmup", "warm_ns", "verify", "spans",
         "round_limit_ns", "pin"}

CANARY = float(os.environ.get("IPCBENCH_CANARY", 0))  # share of a round to burn in each round

now = time.monotonic_ns  # one clock for all processes
Model = dict[str, np.ndarray]


class Job(NamedTuple):
    round: int
    client: int


def lacks(name: str) -> None:
    """Notes a part of the original that this interpreter lacks, so that ipcbench marks the row."""
    _lacking.append(name)


_lacking: list[str] = []


class Server:
    """The base class of a row's server."""

    starts_workers = False  # set it if the server itself starts the worker processes

    def __init__(self, session: Session):
        self.session, self.count = session, session.recorder.count
        self.log: list[tuple] = []  # likewise, the log of these workers
        self.peaks = [0] * session.workers  # and their peak memory

    @staticmethod
    def refusal(work: dict, cell: dict) -> str:
        """The row's own reason not to run a cell of an order, empty if it can."""
        return ""

    def publish(self, model: Model) -> None:
        self.model = model

    def ready(self) -> None:
        """Is called when all workers run."""

    def finish(self) -> None:
        """Is called at the end of a round."""


class Piped(Server):
    """A server with a pipe to each worker."""

    def __init__(self, session: Session):
        super().__init__(session)
        self.pipes, self.theirs = zip(*(multiprocessing.Pipe() for _ in range(session.workers)))

    def arguments(self, n: int) -> tuple:
        return (self.theirs[n],)

    def waiting(self) -> int:
        """Waits for a message from any worker, and returns the worker's number."""
        return self.pipes.index(connection.wait(self.pipes)[0])


class Asked(Server):
    """A server whose workers ask for their jobs, each with a name that no other worker has."""

    def __init__(self, session: Session):
        super().__init__(session)
        self.names = [session.name() for _ in range(session.workers)]
        self.jobs = {name: queue.SimpleQueue() for name in self.names}
        self.updates = queue.SimpleQueue()

    def dispatch(self, n: int, job: Job) -> None:
        self.jobs[self.names[n]].put(job)

    def collect(self) -> tuple[int, Model]:
        update = self.updates.get()
        if isinstance(update, Exception):  # of a thread that serves a worker
            raise update
        return update

    def take(self, name: str) -> Job:
        """Waits for the next job of the worker with this name."""
        return self.jobs[name].get()

    def give(self, name: str, update: Model) -> None:
        self.updates.put((self.names.index(name), update))


class Worker:
    """A worker in its process."""

    def __init__(self, n: int, down: Layout, up: Layout, seed: int, train_ms: int):
        self.n, self.down, self.up, self._seed, self._train_ms = n, down, up, seed, train_ms
        self._update = Package.alloc(up)
        self.recorder = Recorder(n, 0)
        self.count = self.recorder.count
        self.log: list[tuple] = []  # per job: round, client, times of arrival, begin and end

    def train(self, job: Job, model: Model, update: Optional[Model] = None) -> Model:
        """Trains a client: reads every byte of model, and writes and returns update. Without
        update, it uses memory of the worker."""
        received = now()
        trained = package(self.down, model)
        to = self._update if update is None else package(self.up, update)
        began = now()
        arithmetic.train(trained, to, self._seed, job.round, job.client)
        if self._train_ms:
            burn(self._train_ms)
        self.log.append((job.round, job.client, received, began, now()))
        return to.views if update is None else update


def package(layout: Layout, model: Model) -> Package:
    p = Package.of(layout, [model[s.name] for s in layout.specs])
    if [len(d) for d in p.data] != layout.sizes:
        raise ValueError("the size of a tensor does not match its shape and type")
    return p


def serve(work: Callable, control: connection.Connection, settings: tuple, rest: tuple,
          started: int) -> None:
    """The main function of a worker's process."""
    imported = now() - started
    os.environ["no_proxy"] = "127.0.0.1"  # the servers' address
    worker = Worker(*settings)
    meter = Meter(worker.recorder, "")

    def obey() -> None:
        try:
            while True:
                what, *how = control.recv()
                if what == "mark":
                    meter.mark(*how)
                    if not meter.window:
                        meter.survey()
                    control.send(None)
                elif what == "report":
                    control.send((meter.totals(), worker.log))
                else:
                    leave()
        except (EOFError, OSError):
            pass  # the server is gone: see follow

    control.send(imported)
    threading.Thread(target=obey, daemon=True).start()
    try:
        work(worker, *rest)
    except BaseException as e:
        traceback.print_exc()
        control.send(e if isinstance(e, EOFError) else RuntimeError(f"{type(e).__name__}: {e}"))
        os._exit(1)


def end_after(read: Callable) -> NoReturn:
    """Waits for the end of a pipe from this process's parent, and ends this process."""
    try:
        read()
    finally:
        os._exit(0)


def in_new_process(file: str, order: tuple):
    """Starts a row's file in a new process, which calls the function that its main gives for
    orders, and returns the result. CPU time of the process counts as its parent's."""
    command = [sys.executable, file, "order"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            pickle.dump(order, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (BrokenPipeError, EOFError):
            code = process.wait()
            raise RuntimeError(f"the process of a message has ended: exit code {code}") from None


def carry_out(function: Callable) -> NoReturn:
    """The main function of such a process."""
    order = pickle.load(sys.stdin.buffer)
    threading.Thread(target=end_after, args=(lambda: os.read(0, 1),), daemon=True).start()
    with os.fdopen(os.dup(1), "wb") as answer:
        os.dup2(2, 1)  # libraries may print
        pickle.dump(function(*order), answer)
    os._exit(0)


def leave() -> NoReturn:
    """Runs exit functions and ends this process, without waiting for threads, which may wait for
    another process. Exit functions may wait for a lock that a killed process held."""
    patience = threading.Timer(3, os._exit, [0])
    patience.daemon = True
    patience.start()
    atexit._run_exitfuncs()
    os._exit(0)


def follow(_: Callable) -> None:
    """Makes this process end with the one that started it, whatever it waits for."""
    def until_end() -> None:
        multiprocessing.parent_process().join()
        leave()

    threading.Thread(target=until_end, daemon=True).start()


# In each process that multiprocessing starts. A spawned one calls no registered functions.
util.register_after_fork(follow, follow)
multiprocessing.context.SpawnProcess._after_fork = staticmethod(lambda: follow(follow))


def members(pool: multiprocessing.pool.Pool) -> Callable[[], None]:
    """Returns a function that fails if a process of the pool was killed. The pool replaces it, and
    its job never ends."""
    first = [p.pid for p in pool._pool]

    def complete() -> None:
        alive = [p.pid for p in list(pool._pool) if p.exitcode is None]
        for n, pid in enumerate(first):
            if pid not in alive:
                raise RuntimeError(f"the process of worker {n} has ended")

    return complete


class ServerMeter(Meter):
    """The usage of the server, and of all processes that it has started but the workers."""

    def __init__(self, session: Session):
        self._session = session
        super().__init__(session.recorder, "")

    def usage(self) -> dict[str, int]:
        return usage({p.pid for p in self._session.processes})


class Session:
    """The server, and new processes for its workers."""

    def __init__(self, order: dict, defaults: dict[str, str]):
        self.began, self.imported, self.block = now(), age(), order["block"]
        cell = order["cells"][0]
        work = order["works"][cell["work"]]
        self.workers, self.clients = cell["workers"], work["clients"]
        self.train_ms = cell.get("train_ms", 0)
        self.down = Layout.of(work["down"])
        self.up = layout_of(work.get("up"), self.down)
        self.recorder = Recorder(-1, 0)
        self.processes, self.controls = [], []
        self.watched: list = []  # the workers' processes, and third ones
        self.meter = ServerMeter(self)
        given = (pair.partition("=") for pair in cell["variant"].split(":")[1:])
        self.setting = {**defaults, **{key: value for key, _, value in given}}
        self.watcher: Optional[threading.Thread] = None
        self.window, self.ending = "", False

    def name(self) -> str:
        """A name that no other program can guess."""
        return os.urandom(8).hex()

    def settings(self, n: int) -> tuple:
        """The arguments of worker n."""
        return n, self.down, self.up, self.block["seed"], self.train_ms

    def start(self, row: type[Server], work: Callable) -> None:
        cpus = sorted(os.sched_getaffinity(0))
        server, workers = place(cpus, self.workers) if self.block.get("pin") else (cpus, [cpus])
        os.sched_setaffinity(0, server)
        self.server = row(self)
        context = multiprocessing.get_context("spawn")
        for n in range(0 if row.starts_workers else self.workers):
            mine, theirs = context.Pipe()
            arguments = (work, theirs, self.settings(n), self.server.arguments(n), now())
            p = context.Process(target=serve, args=arguments, daemon=True)
            os.sched_setaffinity(0, workers[n % len(workers)])  # which the process inherits
            p.start()
            os.sched_setaffinity(0, server)
            theirs.close()
            self.processes.append(p)
            self.controls.append(mine)
        self.watched = self.processes + [
            p for p in multiprocessing.active_children() if p not in self.processes]
        if self.watched:
            self.watcher = threading.Thread(target=self.watch, daemon=True)
            self.watcher.start()
        self.imports = [c.recv() for c in self.controls]
        self.server.ready()
        self.spawn = now() - self.began

    def watch(self) -> None:
        """If a watched process ends too early, answers instead of the main thread."""
        sentinels = [p.sentinel for p in self.watched]
        n = sentinels.index(connection.wait(sentinels)[0])
        if self.ending:
            return
        self.watched[n].join()
        which, why = self.watched[n].name, f"exit code {self.watched[n].exitcode}"
        control = self.controls[n] if n < len(self.controls) else None
        if control:
            which = f"of worker {n}"
        try:
            while control and control.poll():
                last = control.recv()
                if isinstance(last, Exception):  # not an answer that was not read
                    why = last
        except (EOFError, OSError):
            pass
        self.end({"error": f"the process {which} has ended: {why}"})

    def defer(self) -> None:
        """If a watched process has ended, or ends within a second, leaves the answer to watch:
        the error here is then only a consequence, and watch knows the cause."""
        sentinels = [p.sentinel for p in self.watched]
        if self.watcher and connection.wait(sentinels, 1):
            self.watcher.join()  # it ends this process

    def ask(self, *message) -> list:
        """Sends a message to all workers, and returns their answers."""
        for c in self.controls:
            c.send(message)
        return [c.recv() for c in self.controls]

    def mark(self, window: str) -> None:
        """Makes all workers begin another window, unless they are in it."""
        if window != self.window:
            self.window = window
            self.ask("mark", window, 0)

    def end(self, answer: dict) -> None:
        """Ends the workers' processes, sends the answer, and ends this process."""
        self.ending = True
        for c in self.controls:
            try:
                c.send(("end",))
            except OSError:
                pass  # it has ended
        for p in self.processes:
            p.join(1)
            p.kill()
        reply(answer)
        leave()


def place(cpus: list[int], processes: int) -> tuple[list[int], list[list[int]]]:
    """Divides the processors: equally many adjacent ones for each worker, the rest for the
    server. If there are too few, each gets one, in turn."""
    share = len(cpus) // (processes + 1)
    if share == 0:
        return cpus[:1], [[cpus[(i + 1) % len(cpus)]] for i in range(processes)]
    mine = len(cpus) - share * processes
    return cpus[:mine], [cpus[mine + i * share:mine + (i + 1) * share] for i in range(processes)]


def age() -> int:
    """The time since this process began, in ns, in steps of 10 ms."""
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    began = ticks * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began


def refusal(row: type[Server], order: dict, cell: dict) -> str:
    """The reason that a row cannot run a cell; empty if it can."""
    try:
        work = order["works"][cell["work"]]
        if cell.get("values") == "uniform":  # rows generate these values
            cell = {k: v for k, v in cell.items() if k != "values"}
        for key in [*sorted(set(cell) - CELL), *sorted(set(work) - WORK)]:
            instead = ": choose --values uniform" if key in ("values", "file") else ""
            return f'it has "{key}", which reference rows do not support{instead}'
        if cell["lanes_per_process"] != 1:
            return "a process of a reference row has one worker: choose --lanes-per-process 1"
        for tensors in (work["down"], work.get("up") or []):
            if len({t["name"] for t in tensors}) != len(tensors):
                return "two tensors have one name"
            Layout.of(tensors)
        return row.refusal(work, cell)
    except (LookupError, TypeError, ValueError) as e:
        return f"{type(e).__name__}: {e}"


def read_order() -> dict:
    """Reads one JSON text. The end of stdin may come with it, or later."""
    text = b""
    while True:
        part = os.read(0, 1 << 20)
        text += part
        try:
            return json.loads(text)
        except ValueError as e:
            if not part:
                raise SystemExit(f"order: {e}: see docs/reference/peer.md for how to start a peer")


_stdout, _replied = -1, threading.Lock()


def reply(answer: dict) -> None:
    if _replied.acquire(blocking=False):
        lacking = {"lacks": ", ".join(_lacking)} if _lacking else {}
        head = {"version": VERSION, "rules": RULES, "software": {**software(), **lacking}}
        with os.fdopen(_stdout, "w") as f:
            f.write(json.dumps({**head, **answer}) + "\n")


def main(row: type[Server], work: Callable, function: Optional[Callable] = None,
         **settings: str) -> None:
    """Carries out one order of ipcbench. The settings have default values; a process of
    in_new_process calls function."""
    from rounds import Rounds

    if sys.argv[1:] == ["order"]:
        carry_out(function)
    global _stdout
    _stdout = os.dup(1)  # only for the answer, since libraries may print
    os.dup2(2, 1)
    order = read_order()
    quit = threading.Event()

    def until_end() -> None:
        while os.read(0, 1 << 16):
            pass
        quit.set()  # ipcbench asks for an early end, after the current round

    threading.Thread(target=until_end, daemon=True).start()
    if order.get("version") != VERSION:
        return reply({"error": f"an order of version {order.get('version')}, but this peer reads {VERSION}: see docs/reference/peer.md"})
    refused = [refusal(row, order, cell) for cell in order["cells"]]
    if "block" not in order:
        return reply({"refused": refused, **({"canary": CANARY} if CANARY else {})})
    if len(order["cells"]) != 1 or refused[0]:
        return reply({"error": f"order: must have one cell that is not refused: {refused}"})
    for key in sorted(set(order["block"]) - BLOCK):
        return reply({"error": f'order: block: it has "{key}", which reference rows do not support'})
    session = Session(order, settings)
    try:
        session.start(row, work)
        answer = Rounds(session, quit).run()
    except Exception as e:
        session.defer()
        traceback.print_exc()
        answer = {"error": f"{type(e).__name__}: {e}"}
    session.end(answer)
