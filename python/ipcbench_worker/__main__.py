"""A worker process of a session, in Python; trainer/worker.go is the one in Go.

Descriptor 3 is the control socket. One thread reads it, and ends the process at its end; the main
thread runs the lane. While a round is timed the socket is silent, so that the lane has the
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

from ipcbench_worker import pages  # noqa: E402
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

UNMEASURED = 10  # empty calls before the measured ones: the first ones open connections
LONGEST = 64 << 10  # most bytes of a failure's text
FRAMES = 8  # most frames of a traceback


class Failed(Exception):
    """A failure, with its lane and its job, if any."""

    def __init__(self, text: str, lane: int = -1, job: Optional[Job] = None):
        round, client = (job.round, job.client) if job else (-1, -1)
        text = text.encode(errors="replace")[:LONGEST].decode(errors="ignore")
        self.body = {"lane": lane, "round": round, "client": client, "text": text}


def describe(e: BaseException) -> str:
    """The text of an exception, with a traceback unless its type explains itself."""
    if isinstance(e, (Fault, Protocol, OSError, EOFError)):
        return str(e)
    text = "".join(traceback.format_exception_only(type(e), e)).strip()
    frames = "".join(traceback.format_tb(e.__traceback__)[-FRAMES:]).rstrip()
    return f"{text}\n{frames}"


class Worker:
    """The process, with its only lane and its measurements."""

    def __init__(self, control: Control, a: dict):
        self.control, self.a, self.lane = control, a, a["lanes"][0]
        for what, name, known in (("transport", a["transport"], LANES),
                                  ("worker function", a["func"], FUNCS)):
            if name not in known:
                raise Fault(f"Python workers have no {what} {name!r}, only {', '.join(known)}")
        if a.get("pages") not in (None, "small", "huge"):
            raise Fault(f"pages of size {a['pages']!r}")
        pages.size = a.get("pages") or ""
        self.recorder = Recorder(self.lane, a["samples"])
        self.meter = Meter(self.recorder, a["window"])
        down = Layout.of(a["down"])
        self.session = Session(
            transport=a["transport"], settings=a.get("settings") or {}, lane=self.lane,
            depth=a["depth"], address=a["addr"], secret=a["secret"],
            down=down, up=layout_of(a["up"], down), recorder=self.recorder)
        self.doing, self.job = "connecting", None
        self.quiet = threading.Event()  # set once all workers are connected
        self._lock = threading.Lock()  # guards _busy and _mark
        self._busy = False  # in the middle of a job
        self._mark: Optional[dict] = None  # a mark to carry out at the job's end

    def obey(self) -> None:
        """Carries out the server's messages until the control socket ends, then exits."""
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
            pass  # the server is gone or has finished, so the lane's work is no longer needed
        except BaseException as e:
            print("control socket:", describe(e), file=sys.stderr)
            status = 1
        finally:
            os._exit(status)

    def news(self) -> dict:
        job = self.job
        return {"moves": self.recorder.moves(), "lanes": [{
            "lane": self.lane, "doing": self.doing,
            "round": job.round if job else -1, "client": job.client if job else -1}]}

    def _marked(self) -> None:
        """Begins a pending mark's window, unless a job is running: the server can have the update
        before the lane has recorded the job. The caller holds the lock."""
        if self._mark is None or self._busy:
            return
        self.meter.mark(self._mark["window"], self._mark["round"])
        if not self.meter.window:
            self.meter.survey()
        self._mark = None
        self.control.send("marked", {"full": self.recorder.full(0.5)})

    def _failed(self, act: str, e: BaseException, job: Optional[Job] = None) -> Failed:
        """An error of the lane, worded as in Go's packages trainer and transports."""
        if act == "train":
            return Failed(f"worker function {self.a['func']}: {describe(e)}", self.lane, job)
        of = f": round {job.round}, client {job.client}" if job else ""
        where = f"{self.session.transport}: lane {self.lane}: {act}{of}"
        return Failed(f"{where}: {describe(e)}", self.lane, job)

    def run(self) -> None:
        """Connects the lane, runs its jobs until there are no more, and closes it."""
        act, process = "train", os.getpid()
        try:
            train = FUNCS[self.a["func"]](b64decode(self.a.get("func_config") or ""), self.session)
            act = "dial"
            lane = importlib.import_module("ipcbench_worker." + LANES[self.session.transport]).Lane(self.session)
            imported = time.monotonic_ns() - BEGAN
            lane.dial()
            self.kept = lane  # until the process ends, because freeing a gRPC channel can take 10 s
        except BaseException as e:
            raise self._failed(act, e) from None
        gc.collect()
        gc.freeze()  # collections during rounds then skip all objects that exist now
        self.control.send("ready", {"handshakes": 0, "handshake_ns": 0, "cipher": "",
                                    "software": software(), "import_ns": imported})
        try:
            if self.a["pings"] and self.lane == 0:
                self._ping(lane)
            while self._turn(lane, train):
                pass
        except Failed as e:
            if os.getpid() == process:  # a process that a function has forked has no lane
                lane.close(e.body["text"].split("\n")[0])  # main sends all of the text
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
        """Runs one job, then records its times. Returns False if there are no more."""
        now, act, job = time.monotonic_ns, "receive", None
        self.doing = "receiving"
        try:
            asked = now()
            got = lane.receive()
            if got is None:
                return False
            job, model = got
            self.job, self._busy = job, True  # without the lock: no mark arrives while a job is out
            received = now()
            act = "reserve"
            update = lane.reserve()
            act, self.doing = "train", "training"
            # The server cannot compute a user's function. In rounds of no window, this process
            # therefore reports hashes of the received model and the sent update.
            proves = hasattr(train, "begin") and self.meter.window == ""
            model_hash = train.begin(model, update) if proves else ""
            reserved = now()
            train(job, model, update)
            trained = now()
            if proves:
                self.control.send("proof", {"lane": self.lane, "round": job.round, "client": job.client,
                                            "model": model_hash, "update": train.end(update)})
            act, self.doing = "submit", "submitting"
            lane.submit(update)
            submitted = now()
        except BaseException as e:  # also SystemExit: sys.exit in a worker function is a failure
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C
    os.environ.pop("_IPCBENCH_WORKER", None)  # a worker function's processes are not workers
    try:
        control = Control(os.environ.get("_IPCBENCH_BUILD", ""))
        kind, assignment = control.receive()
        if kind != "assign":
            raise Protocol(f"{kind} instead of an assignment")
    except (Protocol, OSError, EOFError) as e:
        sys.exit(f"waiting for an assignment: {describe(e)}")
    try:
        worker = Worker(control, assignment)
        listening = threading.Thread(target=worker.obey, daemon=True)
        listening.start()
        worker.run()
        worker.report()
    except Exception as e:
        failed = e if isinstance(e, Failed) else Failed(describe(e))
        try:
            control.send("failure", failed.body)
        finally:
            os._exit(1)  # even if a worker function has started threads
    listening.join()  # the server closes the socket when it has read the report


if __name__ == "__main__":
    main()
