"""Collects the samples and counters of a worker process. Package phase defines their names."""

from __future__ import annotations

import threading

ALL = 1 << 63


class Recorder:
    """Any thread may record. The clock is time.monotonic_ns, which all processes share."""

    def __init__(self, lane: int, capacity: int):
        self.lane, self.capacity = lane, capacity
        self.samples: list[tuple] = []
        self.counts: dict[str, int] = {}
        self.lost = 0
        self._first, self._end = 0, ALL  # the rounds whose samples are kept
        self._lock = threading.Lock()

    def add(self, phase: str, start_ns: int, end_ns: int, job=None, summed: bool = False) -> None:
        """Records a span, of a job or of no job. A summed span is the sum of several laps, with
        laps of other phases in between."""
        round, client = (job.round, job.client) if job else (-1, -1)
        if round >= self._end or 0 <= round < self._first or round < 0 and self._end != ALL:
            return
        if len(self.samples) < self.capacity:
            self.samples.append((phase, self.lane, round, client, start_ns, end_ns, summed))
        else:
            self.lost += 1

    def count(self, name: str, n: int) -> None:
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + n

    def first(self, round: int) -> None:
        """Keeps samples of this and later rounds, and samples of no round."""
        self._first, self._end = round, ALL

    def end(self, round: int) -> None:
        """Drops samples of this and later rounds, and samples of no round."""
        self._end = round

    def moves(self) -> int:
        """A number that grows with every sample and count."""
        with self._lock:
            return len(self.samples) + sum(self.counts.values())

    def full(self, share: float) -> bool:
        return len(self.samples) > share * self.capacity

    def columns(self) -> dict:
        """All samples in the form of the report: a list per field."""
        phases = sorted({s[0] for s in self.samples})
        index = {p: i for i, p in enumerate(phases)}
        names = ("phase", "lane", "round", "client", "start_ns", "end_ns", "summed")
        all = dict(zip(names, zip(*self.samples)))
        return {**all, "phases": phases, "phase": [index[s[0]] for s in self.samples]}
