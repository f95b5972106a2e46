"""Hosts lanes of sessions, each in a thread, and says what became of them: see lanes.go."""

import json
import sys
import threading
import traceback
from collections import Counter
from importlib import import_module

sys.path.insert(0, sys.argv[1])

from ipcbench_worker import arithmetic  # noqa: E402
from ipcbench_worker.__main__ import LANES  # noqa: E402
from ipcbench_worker.layout import Layout, layout_of  # noqa: E402
from ipcbench_worker.recorder import Recorder  # noqa: E402
from ipcbench_worker.session import Fault, Session  # noqa: E402

SEED = 42
training = threading.Lock()  # one thread of a process computes


def live(a, outcome, dialled):
    recorder, down = Recorder(a["lane"], 1 << 16), Layout.of(a.pop("down"))
    up, pings = layout_of(a.pop("up"), down), a.pop("pings")
    session = Session(**a, depth=2, down=down, up=up, recorder=recorder)
    lane = import_module("ipcbench_worker." + LANES[session.transport]).Lane(session)
    try:
        try:
            lane.dial()
        finally:
            dialled.set()
        if pings and lane.calls:
            lane.ping()
        rounds(lane)
        lane.close(None)
    except Exception as e:
        outcome["error"] = str(e) if isinstance(e, Fault) else traceback.format_exc()
        lane.close(outcome["error"])
    outcome["counts"] = {k: n for k, n in recorder.counts.items() if n}
    outcome["spans"] = Counter(phase for phase, *_ in recorder.samples)


def rounds(lane):
    while (got := lane.receive()) is not None:
        job, model = got
        update = lane.reserve()
        with training:
            arithmetic.train(model, update, SEED, job.round, job.client)
        update.receipt = f"{job} got {model.receipt}".encode()
        lane.submit(update)


lanes = [(a, {}, threading.Event()) for a in json.load(sys.stdin)]
threads = [threading.Thread(target=live, args=lane, daemon=True) for lane in lanes]
for thread in threads:
    thread.start()
for _, _, dialled in lanes:
    dialled.wait()
print("dialled", flush=True)
for thread in threads:
    thread.join()
json.dump([outcome for _, outcome, _ in lanes], sys.stdout)
