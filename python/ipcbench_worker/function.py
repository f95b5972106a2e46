"""A user's own training: a function of the user's module, called with views of the tensors.

    def train(model, update, job): ...

model and update map names of tensors to numpy arrays over the memory that the transport lends.
docs/python.md describes the function's arguments and duties.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Optional

import numpy as np

from . import arithmetic
from .layout import Package
from .session import Fault, Job, Session


class Views(Mapping):
    """The tensors of a package by name, as arrays over its memory; bf16 as uint16."""

    def __init__(self, package: Package, writable: bool):
        self._arrays, self._writable = package.views, writable

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._arrays:
            some = ", ".join([*list(self._arrays)[:8], *["…"] * (len(self._arrays) > 8)])
            raise KeyError(f"no tensor {name!r}: must be one of {some}")
        array = self._arrays[name].view()  # a new array, with flags of its own
        array.flags.writeable = self._writable
        return array

    def __setitem__(self, name: str, values: Any) -> None:
        """Writes values into the tensor: its memory stays where it is."""
        self[name][...] = values

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)


class Turn:
    """One client's turn in one round, as a user's function sees it."""

    def __init__(self, job: Job, session: Session):
        self.round: int = job.round
        self.client: int = job.client
        self.weight: float = job.weight  # the update's weight in the average
        self.device: str = job.device
        self.lane: int = session.lane
        self._job, self._session = job, session

    def stopped(self) -> bool:
        """Whether the session asks the function to end early, with the update it has so far."""
        return self._session.stopped(self._job)


class Function:
    """The function MODULE:FUNCTION, imported and checked."""

    def __init__(self, name: str, session: Session):
        self._name, self._session = name, session
        self._call = load(name)

    def __call__(self, job: Job, model: Package, update: Package) -> None:
        """Calls the user's function, which writes the update of a job."""
        views, process = (Views(model, False), Views(update, True)), os.getpid()
        try:
            returned = self._call(*views, Turn(job, self._session))
        except BaseException as error:  # also SystemExit, which would end the process silently
            raise self._fault(f": {describe(error)}") from None
        if os.getpid() != process:  # the original process goes on with the job
            raise self._fault(" has returned in a process that it has forked:"
                              " end such a process with os._exit")
        if returned is not None:
            raise self._fault(f" returned a {type(returned).__name__}: it must return None"
                              " and write all of update")

    def begin(self, model: Package, update: Package) -> str:
        """Begins a job of a proved round: marks the update, and returns the model's hash."""
        mark(update)
        return f"{arithmetic.hash(model):016x}"

    def end(self, update: Package) -> str:
        """Ends a proved job: returns the update's hash, or raises a Fault if part is unwritten."""
        for spec, data in zip(update.layout.specs, update.data):
            what = unwritten(spec.dtype, data)
            if what:
                raise self._fault(f" {what} of tensor {spec.name}:"
                                  " write all of update, whose first values are arbitrary")
        return f"{arithmetic.hash(update):016x}"

    def _fault(self, text: str) -> Fault:
        return Fault(f"lane {self._session.lane}: {self._name}{text}")


# In a proved round, updates are first filled with marks. The mark of floats is a signalling NaN,
# which no computation returns: computing with one returns the same NaN as a quiet one.
_WORDS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}
_MARKS = {"f16": 0x7DA5, "bf16": 0x7FA5, "f32": 0x7FA5A5A5, "f64": 0x7FF5A5A5A5A5A5A5}
_QUIET = {"f16": 1 << 9, "bf16": 1 << 6, "f32": 1 << 22, "f64": 1 << 51}
_OTHER = 0xA5  # the mark in each byte of other types
_BLOCK = 1 << 16  # elements that are checked at a time


def mark(update: Package) -> None:
    """Fills an update with marks, so that unwritten can find unwritten parts."""
    for spec, data in zip(update.layout.specs, update.data):
        if spec.dtype in _MARKS:
            data.view(_WORDS[spec.dtype])[:] = _MARKS[spec.dtype]
        else:
            data[:] = _OTHER


def unwritten(dtype: str, data: np.ndarray) -> Optional[str]:
    """Describes the mistake if a mark is left in a tensor, and otherwise returns None. If the
    type is not a float, only a whole unwritten tensor of at least 8 bytes is found."""
    if dtype not in _MARKS:
        left_out = data.nbytes >= 8 and bool((data == _OTHER).all())
        return "has written nothing" if left_out else None
    words, mark, quiet = data.view(_WORDS[dtype]), _MARKS[dtype], _WORDS[dtype](_QUIET[dtype])
    for start in range(0, len(words), _BLOCK):
        block = words[start:start + _BLOCK]
        found = np.flatnonzero((block | quiet) == (mark | int(quiet)))
        if len(found):
            act = "has not written" if block[found[0]] == mark else "has computed with"
            return f"{act} element {start + int(found[0])}"
    return None


def load(name: str) -> Callable[..., Any]:
    """Imports a user's function, like `python -m` from the current directory first."""
    where, _, what = name.partition(":")
    os.dup2(2, 1)  # its output goes to stderr, since programs may read ipcbench's stdout
    sys.stdout.reconfigure(line_buffering=True)  # shows all output even if the run fails
    sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(where)
    except BaseException as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name
        if missing and f"{where}.".startswith(f"{missing}."):  # not a module that it imports
            raise Fault(f"{name}: no module {missing} in {os.getcwd()}"
                        f" or the path of {sys.executable}") from None
        raise Fault(f"{name}: import {where}: {describe(error)}") from None
    module = found
    for part in what.split("."):
        if not hasattr(found, part):
            raise Fault(f"{name}: no {what} in {getattr(module, '__file__', where)}")
        found = getattr(found, part)
    if not callable(found):
        raise Fault(f"{name} must be a function, not of type {type(found).__name__}")
    try:
        inspect.signature(found).bind(None, None, None)
    except TypeError as error:
        raise Fault(f"{name} cannot be called as {what}(model, update, job): {error}") from None
    except ValueError:
        pass  # its parameters are unknown, as for some functions in C
    return found


_LINES, _COLUMNS = 12, 300  # most lines of a traceback, and most characters per line


def describe(error: BaseException) -> str:
    """The error and the last lines of its traceback, without frames of this file and of
    importlib."""
    last = traceback.format_exception_only(type(error), error)[-1].strip()
    if isinstance(error, SyntaxError):  # its traceback has no frame of the faulty file
        last += f" ({error.filename}, line {error.lineno})"
    own = (__file__, importlib.__file__, "<frozen importlib._bootstrap>",
           "<frozen importlib._bootstrap_external>")
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename not in own]
    lines = "".join(traceback.format_list(frames)).rstrip().splitlines()[-_LINES:]
    return "\n".join(line[:_COLUMNS] for line in [last, *lines])
