"""Code that the lanes over gRPC and HTTP share."""

from __future__ import annotations

import time
from typing import Optional

from .recorder import Recorder
from .session import Job

UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "B": 1}

RECEIPT = 64 << 20  # most bytes of a receipt

now = time.monotonic_ns


def size(setting: str) -> int:
    """The number of bytes in a setting such as 2MiB."""
    for unit, n in UNITS.items():
        if setting.endswith(unit):
            return int(setting[: -len(unit)]) * n
    return int(setting)


class Tally:
    """Times phases that alternate in a loop. Because there may be thousands of laps, it records
    one sample per phase, the sum of its laps."""

    def __init__(self, recorder: Recorder):
        self._recorder, self._start = recorder, now()
        self._spent: dict[str, list[int]] = {}  # first lap's start, laps, nanoseconds

    def lap(self, phase: str, start: int) -> None:
        """Ends a lap that began at start."""
        spent = self._spent.setdefault(phase, [start, 0, 0])
        spent[1] += 1
        spent[2] += now() - start

    def record(self, job: Optional[Job]) -> None:
        for phase, (first, laps, ns) in self._spent.items():
            start = first if laps == 1 else self._start
            self._recorder.add(phase, start, start + ns, job, summed=laps > 1)
