"""Resource usage of this process per window, as packages phase/usage and trainer count it in Go."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable

from .pages import observe
from .recorder import ALL, Recorder

IO = {"rchar": "read_bytes", "wchar": "written_bytes",
      "syscr": "read_calls", "syscw": "write_calls"}


def usage(apart: Iterable[int] = ()) -> dict[str, int]:
    """The process's usage since it started, without values that the kernel does not report. Its CPU
    time includes the processes that it has started, except those with the ids in apart."""
    r = resource.getrusage(resource.RUSAGE_SELF)
    user, system = inherited(apart)
    u = {"user_ns": round(r.ru_utime * 1e9 + user), "system_ns": round(r.ru_stime * 1e9 + system),
         "minor_faults": r.ru_minflt, "major_faults": r.ru_majflt,
         "voluntary_switches": r.ru_nvcsw, "involuntary_switches": r.ru_nivcsw}
    for thread in os.listdir("/proc/self/task"):  # /proc/self/schedstat has only the first thread
        try:
            with open(f"/proc/self/task/{thread}/schedstat", "rb") as f:
                u["queue.wait_ns"] = u.get("queue.wait_ns", 0) + int(f.read().split()[1])
        except OSError:  # the thread has ended, or the kernel does not count waiting
            pass
    try:
        for key, value in fields("/proc/self/io"):
            if key in IO:
                u["io." + IO[key]] = int(value)
    except OSError:
        pass
    return u


def inherited(apart: Iterable[int]) -> list[float]:
    """The user and system time, in ns, of this process's children and their own, by kernel counters:
    of those that have ended and were waited for, and in steps of 10 ms of those that live."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = [ended.ru_utime * 1e9, ended.ru_stime * 1e9]
    tasks = children(os.getpid()) - set(apart)
    while tasks:
        pid = tasks.pop()
        try:
            with open(f"/proc/{pid}/stat") as f:
                ticks = [int(n) for n in f.read().rpartition(")")[2].split()[11:15]]
        except OSError:
            continue  # it has ended, so its parent has its time
        for i, n in enumerate(ticks):  # its own, and of its children that have ended
            spent[i % 2] += n * 1e9 / os.sysconf("SC_CLK_TCK")
        tasks |= children(pid)
    return spent


def children(pid: int) -> set[int]:
    """The processes that a process has started, and that have not ended."""
    found: set[int] = set()
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as f:
                found.update(map(int, f.read().split()))
    except OSError:  # the process or the thread has ended
        pass
    return found


def since(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    # Not below 0: when a thread ends, its waiting is no longer part of the sum.
    return {k: max(0, n - before.get(k, 0)) for k, n in now.items()}


def nested(flat: dict[str, int]) -> dict:
    """Turns {"io.read_bytes": 1} into {"io": {"read_bytes": 1}}."""
    out: dict = {}
    for key, n in flat.items():
        at, _, name = key.rpartition(".")
        (out.setdefault(at, {}) if at else out)[name] = n
    return out


def fields(path: str) -> list[tuple[str, str]]:
    with open(path) as f:
        return [(key, value.strip()) for key, _, value in (line.partition(":") for line in f)]


def memory() -> dict[str, int]:
    """The process's resident memory. Reading it is slow if much memory is mapped."""
    kib = {k: int(v.split()[0]) << 10 for k, v in fields("/proc/self/status") if v.endswith("kB")}
    m = {"peak_rss_bytes": kib["VmHWM"], "rss_bytes": kib["VmRSS"],
         "rss_anon_bytes": kib["RssAnon"], "rss_file_bytes": kib["RssFile"],
         "rss_shmem_bytes": kib["RssShmem"]}
    try:
        pss = dict(fields("/proc/self/smaps_rollup"))["Pss"]
        m["pss_bytes"] = int(pss.split()[0]) << 10
    except (OSError, KeyError):
        pass
    return {**m, **observe()}


class Meter:
    """Sums usage and counters by window. One thread at a time may call it."""

    def __init__(self, recorder: Recorder, window: str):
        self._recorder = recorder
        self.window = window  # the first one includes all usage since the process started
        self._usage: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._sums: dict[str, tuple[dict, dict]] = {}  # by window: usage and counts
        self._memory: dict[str, int] = {}

    def usage(self) -> dict[str, int]:
        return usage()

    def mark(self, window: str, round: int) -> None:
        """Ends the open window and begins another one with this round."""
        if window != self.window:
            now, counts = self.usage(), dict(self._recorder.counts)
            if self.window:
                spent, counted = self._sums.setdefault(self.window, ({}, {}))
                for total, part in ((spent, since(now, self._usage)), (counted, {
                        k: n - self._counts.get(k, 0) for k, n in counts.items()})):
                    for key, n in part.items():
                        total[key] = total.get(key, 0) + n
            if window == "timed":  # samples are only kept in this window
                self._recorder.first(round)
            else:
                self._recorder.end(round)
            self.window, self._usage, self._counts = window, now, counts

    def survey(self) -> None:
        """Reads the resident memory now, because at the end it is released."""
        self._memory = memory()

    def totals(self) -> dict:
        """The report without its samples."""
        self.mark("", ALL)
        end = memory()
        return {
            "lost": self._recorder.lost,
            "usage": {w: nested(spent) for w, (spent, _) in self._sums.items()},
            "counts": {w: {k: n for k, n in c.items() if n} for w, (_, c) in self._sums.items()},
            "memory": {**(self._memory or end), "peak_rss_bytes": end["peak_rss_bytes"]},
            "cpus": sorted(os.sched_getaffinity(os.getpid())),
        }
