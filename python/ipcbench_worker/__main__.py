"""A worker process of a session, in Python: what trainer/worker.go is in Go.

Descriptor 3 is the control socket. One thread reads it, and ends the process when it ends; the
first one is the lane's. While a round is timed the socket is silent, so that the lane has the
interpreter to itself.
"""

import time

BEGAN = time.monotonic_ns()

import gc  # noqa: E402
import importlib  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import traceback  # noqa: E402
from base64 import b64decode  # noqa: E402
from typing import Optional  # noqa: E402

if not __package__:  # an interpreter was given this folder
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from ipcbench_worker.control import Control, Protocol  # noqa: E402
from ipcbench_worker.functions import FUNCS  # noqa: E402
from ipcbench_worker.layout import layout_of, Layout  # noqa: E402
from ipcbench_worker.meter import Meter  # noqa: E402
from ipcbench_worker.recorder import Recorder  # noqa: E402
from ipcbench_worker.session import Fault, Job, Session  # noqa: E402
from ipcbench_worker.software import software  # noqa: E402

# The module with the lane of each transport, imported by the worker that needs it.
LANES = {
    "shm-slab": "slab",
    "grpc-tensor": "grpc_lane", "grpc-batch": "grpc_lane", "grpc-stream": "grpc_lane",
    "http": "http_lane", "http-shm": "http_lane",
}

UNMEASURED = 10  # empty calls before those that count: the first ones open connections
LONGEST = 64 << 10  # of a failure's text
FRAMES = 8  # of a traceback


class Failed(Exception):
    """A failure, and whose it is."""

    def __init__(self, text: str, lane: int = -1, job: Optional[Job] = None):
        round, client = (job.round, job.client) if job else (-1, -1)
        text = text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
        self.body = {"lane": lane, "round": round, "client": client, "text": text}


def told(e: BaseException) -> str:
    """What an exception says: where it was raised, too, unless it is one that explains itself."""
    if isinstance(e, (Fault, Protocol, OSError, EOFError)):
        return str(e)
    text = "".join(traceback.format_exception_only(type(e), e)).strip()
    frames = "".join(traceback.format_tb(e.__traceback__)[-FRAMES:]).rstrip()
    return f"{text}\n{frames}"


class Worker:
    """The process: its one lane, and what it measures."""

    def __init__(self, control: Control, a: dict):
        self.control, self.a, self.lane = control, a, a["lanes"][0]
        for what, refused in (("profiles", a.get("profiling")), ("TLS", a.get("trust")),
                              ("several lanes in one process", len(a["lanes"]) > 1)):
            if refused:
                raise Fault(f"{what}: not in Python's workers")
        for what, name, known in (("transport", a["transport"], LANES),
                                  ("worker function", a["func"], FUNCS)):
            if name not in known:
                raise Fault(f"no {what} {name!r} in Python: it has {', '.join(known)}")
        self.recorder = Recorder(self.lane, a["samples"])
        self.meter = Meter(self.recorder, a["window"])
        down = Layout.of(a["down"])
        self.session = Session(
            transport=a["transport"], settings=a.get("settings") or {}, lane=self.lane,
            depth=a["depth"], address=a["addr"], secret=a["secret"],
            down=down, up=layout_of(a["up"], down), recorder=self.recorder)
        self.doing, self.job = "connecting", None
        self.quiet = threading.Event()  # all workers are connected
        self._lock = threading.Lock()  # guards what follows
        self._busy = False  # in the middle of a job
        self._mark: Optional[dict] = None  # that waits for its end

    def obey(self) -> None:
        """Carries out the server's messages until the control socket ends, and the process."""
        status = 0
        try:
            while True:
                kind, body = self.control.receive()
                if kind == "mark":
                    with self._lock:
                        self._mark = body
                        self._marked()
                elif kind == "stop":
                    self.session.below = body["below"]
                elif kind == "ping" and not self.quiet.is_set():
                    self.quiet.set()
                elif kind == "poke":
                    self.control.send("news", self.news())
                else:
                    raise Protocol(kind)
        except (EOFError, OSError):
            pass  # the server is gone, or wants nothing more: nobody waits for what the lane does
        except BaseException as e:
            print("control socket:", told(e), file=sys.stderr)
            status = 1
        finally:
            os._exit(status)

    def news(self) -> dict:
        job = self.job
        return {"moves": self.recorder.moves(), "lanes": [{
            "lane": self.lane, "doing": self.doing,
            "round": job.round if job else -1, "client": job.client if job else -1}]}

    def _marked(self) -> None:
        """Moves to the window of the mark, once no job is in hand: the server has the update before
        the lane has recorded its end. The lock is held."""
        if self._mark is None or self._busy:
            return
        self.meter.mark(self._mark["window"], self._mark["round"])
        if not self.meter.window:
            self.meter.survey()
        self._mark = None
        self.control.send("marked", {"full": self.recorder.full(0.5)})

    def _failed(self, act: str, e: BaseException, job: Optional[Job] = None) -> Failed:
        """An error of the lane, told as Go's packages trainer and transports would."""
        if act == "train":
            return Failed(f"worker function {self.a['func']}: {told(e)}", self.lane, job)
        of = f": round {job.round}, client {job.client}" if job else ""
        where = f"{self.session.transport}: lane {self.lane}: {act}{of}"
        return Failed(f"{where}: {told(e)}", self.lane, job)

    def run(self) -> None:
        """The life of the lane, from the assignment to the report."""
        act = "train"
        try:
            train = FUNCS[self.a["func"]](b64decode(self.a.get("func_config") or ""), self.session)
            act = "dial"
            lane = importlib.import_module("ipcbench_worker." + LANES[self.session.transport]).Lane(self.session)
            imported = time.monotonic_ns() - BEGAN
            lane.dial()
            self.kept = lane  # until the process ends: freeing a channel of gRPC takes 10 s at times
        except BaseException as e:
            raise self._failed(act, e) from None
        gc.collect()
        gc.freeze()  # what is there now stays: no collection in a round looks at it
        self.control.send("ready", {"handshakes": 0, "handshake_ns": 0, "cipher": "",
                                    "software": software(), "import_ns": imported})
        try:
            if self.a["pings"] and self.lane == 0:
                self._ping(lane)
            while self._turn(lane, train):
                pass
        except Failed as e:
            lane.close(e.body["text"].split("\n")[0])  # the server has all of it
            raise
        lane.close(None)

    def _ping(self, lane) -> None:
        self.quiet.wait()
        samples = []
        for i in range(UNMEASURED + self.a["pings"] if lane.calls else 0):
            start = time.monotonic_ns()
            try:
                lane.ping()
            except Exception as e:
                raise self._failed("ping", e) from None
            samples.append(time.monotonic_ns() - start)
        self.control.send("pinged", {"samples_ns": samples[UNMEASURED:]})

    def _turn(self, lane, train) -> bool:
        """One job. False means that there are no more. What it took is recorded at its end."""
        now, act, job = time.monotonic_ns, "receive", None
        self.doing = "receiving"
        try:
            asked = now()
            got = lane.receive()
            if got is None:
                return False
            job, model = got
            self.job, self._busy = job, True  # no mark comes while a job is out
            received = now()
            act = "reserve"
            update = lane.reserve()
            act, self.doing = "train", "training"
            # What a user's function computes nobody can foresee: in rounds that are proved, and
            # not timed, this process says what came and what goes.
            proves = hasattr(train, "begin") and self.meter.window == ""
            came = train.begin(model, update) if proves else ""
            reserved = now()
            train(job, model, update)
            trained = now()
            if proves:
                self.control.send("proof", {"lane": self.lane, "round": job.round, "client": job.client,
                                            "model": came, "update": train.end(update)})
            act, self.doing = "submit", "submitting"
            lane.submit(update)
            submitted = now()
        except BaseException as e:  # also sys.exit in a worker function: it ends no worker
            raise self._failed(act, e, job) from None
        add = self.recorder.add
        add("receive", asked, received, job)
        add("reserve-update", received, reserved, job)
        add("train", reserved, trained, job)
        add("submit", trained, submitted, job)
        with self._lock:
            self._busy = False
            self._marked()
        return True

    def report(self) -> None:
        with self._lock:
            totals = self.meter.totals()
        self.control.send("report", {**totals, "samples": self.recorder.columns()})


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's affair
    os.environ.pop("_IPCBENCH_WORKER", None)  # what a worker function starts is no worker
    try:
        control = Control(os.environ.get("_IPCBENCH_BUILD", ""))
        kind, assignment = control.receive()
        if kind != "assign":
            raise Protocol(f"{kind} in place of an assignment")
    except (Protocol, OSError, EOFError) as e:
        sys.exit(f"waiting for an assignment: {told(e)}")
    try:
        worker = Worker(control, assignment)
        listening = threading.Thread(target=worker.obey, daemon=True)
        listening.start()
        worker.run()
        worker.report()
    except Exception as e:
        failed = e if isinstance(e, Failed) else Failed(told(e))
        try:
            control.send("failure", failed.body)
        finally:
            os._exit(1)  # whatever threads a worker function has started
    listening.join()  # the server closes the socket when it has read the report


if __name__ == "__main__":
    main()
