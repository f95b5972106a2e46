"""Measures a block by the rules of docs/reference/peer.md, which bench/block.go follows as well."""

from __future__ import annotations

import threading
from typing import Optional

import numpy as np

from common import CANARY, Job, Session, now, package
from ipcbench_worker import arithmetic
from ipcbench_worker.functions import burn
from ipcbench_worker.layout import Package

MOST_ROUNDS, MOST_WARM = 100, 1000
PROVE_EVERY = {"last": 1 << 30, "sample": 8, "all": 2}
LONG_ROUND = 5_000_000_000  # ns


class Rounds:
    """The rounds of one session."""

    def __init__(self, session: Session, quit: threading.Event):
        self.session, self.block, self.quit = session, session.block, quit
        self.clients, down, up = session.clients, session.down, session.up
        self.total = sum(c["weight"] for c in self.clients)
        self.average = arithmetic.Average(up)
        self.model, self.next = Package.alloc(down), Package.alloc(down)
        self.mean = self.next if up == down else Package.alloc(up)
        self.scratch: Optional[Package] = None  # the expected update, in proofs
        self.proved = 0  # number of proved updates
        self.running: list[list[str]] = []  # per round: running hashes of the model it made
        self.timed: list[tuple] = []
        self.last = 0  # duration of the last round without a proof, in ns
        arithmetic.first(self.model, self.block["seed"])

    def run(self) -> dict:
        """Measures a block and returns the answer."""
        o, system = self.block, processors()
        cold = self.round("cold")
        took, warm = cold + self.round("", prove=o["verify"] != "last"), 0
        while not self.quit.is_set() and (warm < o["warmup"] or not o["rounds"]
                                          and took < o["warm_ns"] and warm < MOST_WARM):
            took += self.round("")
            warm += 1
        spent = 0
        while not self.quit.is_set() and not self.enough(spent):
            n = len(self.running)
            if n % PROVE_EVERY[o["verify"]] == 0:
                self.round("", prove=True)
            else:
                spent += self.round("timed")
        self.session.mark("")
        system = [max(0, b - a) for a, b in zip(system, processors())]
        if self.timed:
            self.round("", prove=True)
        self.session.meter.survey()
        return self.answer(cold, dict(zip(("busy_ns", "idle_ns", "steal_ns"), system)))

    def enough(self, spent: int) -> bool:
        o, rounds = self.block, len(self.timed)
        if o["rounds"]:
            return rounds >= o["rounds"]
        least = o.get("least_rounds") or 4
        if rounds and spent > rounds * LONG_ROUND:
            least = 1
        return rounds >= least and spent >= o["time_ns"] or rounds >= MOST_ROUNDS

    def round(self, window: str, prove: bool = False) -> int:
        """Runs a round and returns its duration in ns, without hashing the new model. If prove
        is set, the duration includes comparing all updates, and is not reported."""
        session, server, clients = self.session, self.session.server, self.clients
        n, meter = len(self.running), session.meter
        session.mark(window)
        arrived: dict[int, Package] = {}  # updates that wait for earlier clients' updates
        busy: dict[int, int] = {}  # index of the current client, by worker
        sent, back, folds = [], [0] * len(clients), []

        def dispatch(worker: int) -> None:
            busy[worker] = len(sent)
            sent.append(now())
            server.dispatch(worker, Job(n, clients[busy[worker]]["id"]))

        meter.mark(window, 0)
        began = now()
        server.publish(self.model.views)
        published = now()
        self.average.begin(self.mean, self.total)
        for worker in range(min(session.workers, len(clients))):
            dispatch(worker)
        folded = 0
        while folded < len(clients):
            worker, update = server.collect()
            client = busy.pop(worker)
            back[client] = now()
            if len(sent) < len(clients):
                dispatch(worker)
            arrived[client] = package(session.up, update)
            while folded in arrived:
                start, update = now(), arrived.pop(folded)
                if prove:
                    self.prove(update, n, clients[folded]["id"])
                self.average.fold(update, clients[folded]["weight"])
                folds.append((start, now()))
                folded += 1
        start = now()
        self.average.finish()
        if self.mean is not self.next:
            arithmetic.advance(self.next, self.model, self.mean)
        folds.append((start, now()))
        server.finish()
        finished = now()
        if CANARY:
            burn(CANARY * self.last / 1e6)
        took = now() - began
        meter.mark("", 0)
        if not prove:
            self.last = finished - began  # without what was burnt

        if window == "timed":
            spans = [(began, published), *zip(sent, back), *folds]
            phases = {"publish": published - began, "fold": sum(b - a for a, b in folds)}
            self.timed.append((n, took, uncovered(began, took, spans), sent, back, phases))
        if window == "cold":
            session.mark("")
        self.model, self.next = self.next, self.model
        if session.up == session.down:
            self.mean = self.next
        self.running.append([f"{h:016x}" for h in arithmetic.hashes(self.model)])
        return took

    def prove(self, update: Package, round: int, client: int) -> None:
        """Checks every byte of an update."""
        if self.scratch is None:
            self.scratch = Package.alloc(self.session.up)
        arithmetic.train(self.model, self.scratch, self.block["seed"], round, client)
        for spec, got, want in zip(self.session.up.specs, update.data, self.scratch.data):
            if not np.array_equal(got, want):
                raise ValueError(f"round {round}, client {client}: tensor {spec.name!r} of the "
                                 "update differs from the expected one")
        self.proved += 1

    def answer(self, cold: int, system: dict) -> dict:
        reports, server = self.session.ask("report"), self.session.server
        logs = [server.log, *(log for _, log in reports)]
        jobs = {row[:2]: row[2:] for log in logs for row in log}
        block: dict = {name + "_ns": [] for name in ("round", "train", "rtt", "down", "up")}
        unattributed, phases = 0, {name: 0 for name in ("publish", "train", "fold")}
        for n, took, rest, sent, back, phase in self.timed:
            block["round_ns"].append(took)
            unattributed += rest
            phase["train"] = 0
            for start, end, client in zip(sent, back, self.clients):
                received, began, done = jobs[n, client["id"]]
                phase["train"] += done - began
                for name, ns in (("train", done - began), ("rtt", end - start),
                                 ("down", received - start), ("up", end - received)):
                    block[name + "_ns"].append(ns)
            for name, ns in phase.items():
                phases[name] += ns
        totals = [self.session.meter.totals(), *(t for t, _ in reports)]
        first = [t["usage"].get("cold", {}) for t in totals]
        usage, *processes = (
            {"usage": t["usage"].get("timed", {}), "memory": t["memory"], "cpus": t["cpus"],
             "counts": t["counts"].get("timed", {}), "import_ns": imported}
            for t, imported in zip(totals, [self.session.imported, *self.session.imports]))
        if server.starts_workers:  # their usage is a part of the server's
            processes = [{"memory": {"peak_rss_bytes": peak}} for peak in server.peaks]
        block.update(
            spawn_ns=self.session.spawn, unattributed_ns=unattributed, phases_ns=phases,
            server=usage, processes=processes, system=system,
            cold={"round_ns": cold, "server": first[0], "processes": first[1:]},
            proof={"rounds": self.proved // len(self.clients), "updates": self.proved})
        hashes = [h[-1] if h else "0" * 16 for h in self.running]
        return {"block": block, "hashes": hashes, "running": self.running}


def uncovered(began: int, took: int, spans: list[tuple[int, int]]) -> int:
    """The time of a round that no span covers."""
    rest, until = 0, began
    for start, end in sorted(spans):
        rest, until = rest + max(0, start - until), max(until, end)
    return rest + max(0, began + took - until)


def processors() -> list[int]:
    """Busy, idle and stolen time of the machine, in ns."""
    with open("/proc/stat") as f:
        t = [int(n) * 10_000_000 for n in f.readline().split()[1:9]]
    return [t[0] + t[1] + t[2] + t[5] + t[6], t[3] + t[4], t[7]]
