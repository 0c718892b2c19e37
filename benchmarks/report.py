"""Results as rows, and rows as Markdown and JSON.

Owns the arithmetic of ratios and verdicts and how they are shown; runs nothing.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import peers
from benchmarks.cases import Case, Contest
from benchmarks.measure import Samples, growth_exponent

MAX_EXPONENT = 1.1
_CLOSE = 1.4
"""What the noise of a shared machine may turn a ratio of five runs by."""
_COLUMNS = (
    "operation", "us", "pi", "omp", "ratio", "max", "runs", "MB", "pi MB", "omp MB", "max MB",
    "growth", "",
)  # fmt: skip


@dataclass
class Row:
    """One measured case."""

    name: str
    ms: dict[str, float | None]
    peak_mb: dict[str, float | None]
    target: float | None = None
    ratio: float | None = None
    memory_limit_mb: float | None = None
    exponent: float | None = None
    growth_ms: dict[str, float] = field(default_factory=dict)
    info: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    repetitions: int = 0
    """How often we were run."""
    failures: list[str] = field(default_factory=list)
    note: str = ""


def make_row(
    case: Case, contest: Contest, taken: Mapping[str, Samples], grown: Mapping[str, Samples]
) -> Row:
    """What was measured, compared with what was asked for."""
    row = Row(
        case.name,
        ms={name: samples.median_ms for name, samples in taken.items()},
        peak_mb={name: samples.median_peak_mb for name, samples in taken.items()},
        target=case.target,
        info={name: samples.info for name, samples in taken.items() if samples.info},
        errors={name: samples.error for name, samples in taken.items() if samples.error},
        repetitions=len(taken["us"].ms),
        note=case.note,
    )
    ours = row.ms.get("us")
    theirs = row.ms.get(find_better(case, row) or "")
    if ours is not None and theirs is not None:
        row.ratio = ours / theirs
    row.memory_limit_mb = _memory_limit(case, row)
    sizes = {size: grown[f"{size:g}"] for size in contest.growth} | {contest.size: taken["us"]}
    points = {size: ms for size, samples in sizes.items() if (ms := samples.best_ms) is not None}
    if grown and points:
        row.growth_ms = {f"{size:g}": ms for size, ms in sorted(points.items())}
        row.exponent = growth_exponent(list(points), list(points.values()))
    row.failures = _failures(row, contest)
    return row


def is_close(row: Row) -> bool:
    """Whether noise may have decided on which side of a limit the row is."""
    if row.exponent is not None and abs(row.exponent - MAX_EXPONENT) < 0.15:
        return True
    if row.ratio is None or row.target is None:
        return False
    return row.target / _CLOSE < row.ratio < row.target * _CLOSE


def find_better(case: Case, row: Row) -> str | None:
    """Whose time the ratio is taken to."""
    found = {name: ms for name in case.against if (ms := row.ms.get(name)) is not None}
    return min(found, key=lambda name: found[name], default=None)


def _memory_limit(case: Case, row: Row) -> float | None:
    if case.memory_share is None:
        return case.memory_mb
    others = [mb for name in case.against if (mb := row.peak_mb.get(name)) is not None]
    return case.memory_share * min(others) if others else None


def _failures(row: Row, contest: Contest) -> list[str]:
    failures = []
    if "us" in row.errors:
        failures.append(f"failed: {row.errors['us']}")
    if row.ratio is not None and row.target is not None and row.ratio > row.target:
        failures.append("ratio")
    peak = row.peak_mb.get("us")
    if peak is not None and row.memory_limit_mb is not None and peak > row.memory_limit_mb:
        failures.append("memory")
    if row.exponent is not None and row.exponent > MAX_EXPONENT:
        failures.append("growth")
    answer = row.info.get("us", {})
    failures.extend(
        f"{key} is {answer.get(key)!r}, not {value!r}"
        for key, value in contest.expect.items()
        if answer and answer.get(key) != value
    )
    return failures


def to_markdown(rows: Iterable[Row], command: str) -> str:
    """The table, with the machine and the command that made it."""
    lines = [
        f"Made by `{command}` on {_machine()}, {_peers()}.",
        "Times in ms (median), memory at its peak in MB, ratio to the better peer; growth is the",
        "exponent of our best times over three sizes; runs, how often we and the better peer ran.",
        "",
        "| " + " | ".join(_COLUMNS) + " |",
        "|---|" + "--:|" * (len(_COLUMNS) - 2) + "---|",
    ]
    lines += [_line(row) for row in rows]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    cells = [row.name]
    cells += [_time(row, name) for name in ("us", "pi", "omp")]
    cells += [_number(row.ratio, 3), _number(row.target, 2), str(row.repetitions)]
    cells += [_number(row.peak_mb.get(name), 0) for name in ("us", "pi", "omp")]
    cells += [_number(row.memory_limit_mb, 0), _number(row.exponent, 2), _remarks(row)]
    return "| " + " | ".join(cells) + " |"


def _remarks(row: Row) -> str:
    has_limit = row.target is not None or row.memory_limit_mb is not None
    parts = ["**missed:** " + ", ".join(row.failures)] if row.failures else []
    if has_limit and not row.failures:
        parts.append("ok")
    others = {k: v for k, v in row.ms.items() if k not in ("us", "pi", "omp") and v is not None}
    parts += [f"{name} {ms:.0f}" for name, ms in others.items()]
    if (p99 := row.info.get("us", {}).get("p99_us")) is not None:
        parts.append(f"p99 {p99} µs")
    parts += [f"{name}: {text}" for name, text in row.errors.items() if name != "us"]
    for key in ("hits", "messages"):
        answers = {name: info[key] for name, info in row.info.items() if key in info}
        if len(set(answers.values())) > 1:
            parts.append(f"{key}: " + ", ".join(f"{n} {a:,}" for n, a in answers.items()))
    parts += [row.note] if row.note else []
    return "; ".join(parts).replace("|", "\\|")


def _time(row: Row, name: str) -> str:
    if name in row.errors:
        return "fails"
    ms = row.ms.get(name)
    return "–" if ms is None else f"{ms:,.0f}" if ms >= 10 else f"{ms:.2f}"


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def made_by(command: str) -> str:
    """The command that made a table, and the machine."""
    return f"Made by `{command}` on {_machine()}."


def to_json(rows: Sequence[Row], command: str) -> dict[str, Any]:
    machine = f"{_machine()}, {_peers()}" if rows else _machine()
    return {"command": command, "machine": machine, "rows": [asdict(row) for row in rows]}


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores ({_processor()}), {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


def _peers() -> str:
    node = _output([peers.node_path(), "--version"])
    return f"node {node.lstrip('v')}, bun {peers.BUN[1]}, pi {peers.OLD_PI[1]}, omp {peers.OMP[1]}"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else "unknown"


def _output(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
