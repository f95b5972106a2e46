"""The worker functions. A maker makes the function of a lane before the first round."""

from __future__ import annotations

import json
import time
from typing import Callable

from . import arithmetic
from .layout import Package
from .session import Job, Session

Train = Callable[[Job, Package, Package], None]  # reads the model and writes all of the update


def stock(config: bytes, session: Session) -> Train:
    """The stock worker function, defined in docs/reference/arithmetic.md, and --train-ms."""
    c = json.loads(config)
    seed, burnt = c["seed"], c["train_ms"]

    def train(job: Job, model: Package, update: Package) -> None:
        arithmetic.train(model, update, seed, job.round, job.client)
        if burnt:
            burn(burnt, lambda: session.stopped(job))

    return train


def burn(ms: float, stopped: Callable[[], bool] = lambda: False) -> None:
    """Uses ms of CPU time, which takes longer by the clock on a shared core."""
    end = time.thread_time_ns() + ms * 1_000_000
    while time.thread_time_ns() < end and not stopped():
        for _ in range(1000):
            pass


def own(config: bytes, session: Session) -> Train:
    """A user's own function."""
    from .function import Function

    return Function(config.decode(), session)


# Makers by the function's name in an assignment.
FUNCS: dict[str, Callable[[bytes, Session], Train]] = {"stock": stock, "train": own}
