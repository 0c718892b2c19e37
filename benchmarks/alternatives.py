"""The stores Python programs pick otherwise, on the same messages, in the same run.

Owns their environment (``.bench/venv``, made once from constraints.txt) and their table. What the
package index does not have is said in the table, not left out.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import Sizes
from benchmarks.measure import Run, Samples, measure_in_turns
from benchmarks.world import World

NAME = "alternatives"
CONSTRAINTS = Path(__file__).with_name("constraints.txt")
DRIVER = Path(__file__).with_name("alternatives_driver.py")
STORES = {
    "agents": ("OpenAI Agents SDK `SQLiteSession`", "openai-agents"),
    "langgraph": ("LangGraph `SqliteSaver`", "langgraph-checkpoint-sqlite"),
    "json": ("`json.dumps` + append", None),
}
SIMDJSON = "pysimdjson"
MIN_FREE_BYTES = 30_000_000_000
"""LangGraph writes the whole state at every step: 5,000 messages need gigabytes for a moment."""


def ensure_interpreter(world: World) -> tuple[Path, dict[str, str]]:
    """The interpreter of the separate environment, and why a package is not in it."""
    wanted = [name for _, name in STORES.values() if name] + [SIMDJSON]
    return make_interpreter(world.root / "venv", wanted, CONSTRAINTS)


def make_interpreter(
    folder: Path, wanted: Sequence[str], constraints: Path
) -> tuple[Path, dict[str, str]]:
    """The interpreter of an environment with these packages, and why one is not in it."""
    python = folder / "bin" / "python"
    lacking: dict[str, str] = {}
    if not python.exists():
        print(f"benchmarks: making {folder} for the alternatives", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True)
    for package in wanted:
        name = package.partition("[")[0]
        if _run([str(python), "-m", "pip", "show", "-q", name]).returncode == 0:
            continue
        options = ["-q", "--disable-pip-version-check", "-c", str(constraints)]
        done = _run([str(python), "-m", "pip", "install", *options, package])
        if done.returncode != 0:
            lacking[package] = _last_error(done.stderr)
    return python, lacking


def command(python: Path, op: str, **args: Any) -> list[str]:
    return [
        str(python),
        str(DRIVER),
        op,
        json.dumps({k: str(v) for k, v in args.items()} | _ints(args)),
    ]


def measure(world: World, sizes: Sizes, repetitions: int) -> tuple[str, list[str]]:
    """The table of appends and loads, as Markdown; it has no target to miss."""
    python, lacking = ensure_interpreter(world)
    count = sizes.alternatives
    messages = world.corpus.messages(count, small=True)
    base = world.root / "alternatives"
    ours = {
        "us": _our_append(world, messages, count, base / "us", "flush"),
        'us, `durability="entry"`': _our_append(world, messages, count, base / "us-entry", "entry"),
    }
    env = world.us("open", {}).env
    appends: dict[str, Run] = dict(ours)
    loads: dict[str, Run] = {}
    left_out = dict(lacking)
    for key, (_, package) in STORES.items():
        if package in lacking:
            continue
        if key == "langgraph" and _free_bytes(world) < MIN_FREE_BYTES and count > 1_000:
            left_out[package or key] = "too little free disk for what it writes"
            continue
        given = {"messages": messages, "count": count, "folder": base / key}
        appends[key] = Run(command(python, f"{key}-append", **given), env)
        loads[key] = Run(command(python, f"{key}-load", **given), env)
    appended = measure_in_turns(appends, repetitions)
    files = sorted((base / "us").glob("*.jsonl"))
    if files:
        loads = {"us": world.us("context", {"file": files[-1]}), **loads}
    loaded = measure_in_turns(loads, repetitions)
    shutil.rmtree(base, ignore_errors=True)
    return _table(count, appended, loaded, left_out), []


def _our_append(world: World, messages: Path, count: int, folder: Path, durability: str) -> Run:
    def clear() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    args = {"messages": messages, "count": count, "scratch": folder, "durability": durability}
    run = world.us("append", args)
    return Run(run.command, run.env, before=clear, cwd=run.cwd)


def _table(
    count: int, appended: dict[str, Samples], loaded: dict[str, Samples], left_out: dict[str, str]
) -> str:
    lines = [
        f"What Python programs use instead: {count:,} small messages appended one by one, then",
        "loaded by a fresh process; the ratio is theirs to ours.",
        "",
        "| store | append ms | µs each | ratio | load ms | ratio | MB on disk |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    base = appended["us"].median_ms, (loaded["us"].median_ms if "us" in loaded else None)
    for key, samples in appended.items():
        title = STORES[key][0] if key in STORES else key
        load = loaded[key] if key in loaded else Samples()
        lines.append(_line(title, count, samples, load, base))
    lines += [f"| {package} | not measured: {why} | | | | | |" for package, why in left_out.items()]
    return "\n".join(lines) + "\n"


def _line(
    title: str,
    count: int,
    appended: Samples,
    loaded: Samples,
    base: tuple[float | None, float | None],
) -> str:
    ms, load_ms = appended.median_ms, loaded.median_ms
    if ms is None:
        return f"| {title} | failed: {appended.error} | | | | | |"
    size = appended.info.get("bytes")
    cells = [
        title,
        f"{ms:,.0f}",
        f"{ms / count * 1_000:,.0f}",
        _ratio(ms, base[0]),
        "" if load_ms is None else f"{load_ms:,.1f}",
        _ratio(load_ms, base[1]),
        "" if size is None else f"{size / 1e6:,.1f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _ratio(ms: float | None, ours: float | None) -> str:
    return "" if ms is None or not ours else f"{ms / ours:,.1f}"


def _free_bytes(world: World) -> int:
    return shutil.disk_usage(world.root).free


def _ints(args: dict[str, Any]) -> dict[str, int]:
    return {k: v for k, v in args.items() if isinstance(v, int)}


def _run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False)


def _last_error(text: str) -> str:
    errors = [line for line in text.splitlines() if line.startswith("ERROR")]
    return (errors or ["the package index does not have it"])[-1].removeprefix("ERROR: ")[:120]
