"""Measuring: fresh processes, taken in turns, so that a noisy moment hits every contender.

Owns running and counting; knows neither what the operations are nor how results are shown.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SLOW_MS = 8_000.0
"""A contender this slow is run twice only: it is not the better peer, and its noise is small."""
RUN_TIMEOUT_S = 900


@dataclass(frozen=True)
class Run:
    """One way to do an operation: a command that prints ``{ms, hwm_kb, info}``."""

    command: Sequence[str]
    env: Mapping[str, str]
    whole: bool = False
    """Count the whole process instead of what it prints."""
    scratch: Path | None = None
    """A folder that is emptied before each run."""
    before: Callable[[], None] | None = None
    """Untimed preparation of each run."""
    cwd: Path | None = None


@dataclass
class Samples:
    """What the repetitions of one run gave."""

    ms: list[float] = field(default_factory=list)
    peak_mb: list[float] = field(default_factory=list)
    info: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def median_ms(self) -> float | None:
        return statistics.median(self.ms) if self.ms else None

    @property
    def best_ms(self) -> float | None:
        """The time with the least noise in it."""
        return min(self.ms, default=None)

    @property
    def median_peak_mb(self) -> float | None:
        return statistics.median(self.peak_mb) if self.peak_mb else None


def measure_in_turns(runs: Mapping[str, Run], repetitions: int) -> dict[str, Samples]:
    """Each run this many times, one of each at a time."""
    taken = {name: Samples() for name in runs}
    measure_more(runs, repetitions, taken)
    return taken


def measure_more(runs: Mapping[str, Run], repetitions: int, taken: Mapping[str, Samples]) -> None:
    """Go on measuring: add to the samples that were taken."""
    for _ in range(repetitions):
        for name, run in runs.items():
            samples = taken[name]
            if samples.error is None and not _is_slow(samples):
                _take(run, samples)


@dataclass(frozen=True)
class Trial:
    """One unmeasured run: what it printed, and the most memory it took."""

    output: bytes = b""
    peak_mb: float | None = None
    error: str | None = None


_WATCH = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""


def try_once(run: Run) -> Trial:
    """Run once, for the answer and the memory."""
    if run.before is not None:
        run.before()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _WATCH, *run.command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(run.env),
            cwd=run.cwd,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Trial(error=str(error))
    told, _, peak = done.stderr.rstrip().rpartition(b"\n")
    if done.returncode != 0:
        return Trial(done.stdout, error=_last_words(told or done.stdout))
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Trial(done.stdout, int(peak) / unit)


def growth_exponent(sizes: Sequence[float], times_ms: Sequence[float]) -> float | None:
    """The slope of time over size on logarithmic scales: 1 is linear, 2 is quadratic."""
    if len(sizes) < 2 or min(times_ms) <= 0:
        return None
    xs = [math.log(size) for size in sizes]
    ys = [math.log(ms) for ms in times_ms]
    return statistics.linear_regression(xs, ys).slope


def _is_slow(samples: Samples) -> bool:
    return len(samples.ms) >= 2 and min(samples.ms) > SLOW_MS


def _take(run: Run, samples: Samples) -> None:
    if run.scratch is not None:
        shutil.rmtree(run.scratch, ignore_errors=True)
        run.scratch.mkdir(parents=True)
    if run.before is not None:
        run.before()
    started = time.perf_counter()
    process = subprocess.Popen(
        run.command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(run.env),
        cwd=run.cwd,
    )
    try:
        out, err = process.communicate(timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        samples.error = f"no answer in {RUN_TIMEOUT_S} s"
        return
    finally:
        if run.scratch is not None:
            shutil.rmtree(run.scratch, ignore_errors=True)
    wall_ms = (time.perf_counter() - started) * 1_000
    if os.environ.get("BENCH_PROFILE"):
        sys.stderr.write(err.decode("utf-8", "replace"))
    if process.returncode != 0:
        samples.error = _last_words(err or out)
        return
    if run.whole:
        samples.ms.append(wall_ms)
        return
    answer = json.loads(out.decode().strip().splitlines()[-1])
    samples.ms.append(answer["ms"])
    samples.peak_mb.append(answer["hwm_kb"] / 1_024)
    samples.info = answer["info"]


def _last_words(text: bytes) -> str:
    lines = [line for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    return (errors or lines or ["no output"])[-1].strip()[:160]
