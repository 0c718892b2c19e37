"""How far we are from the floor: the same file with nothing done, beside our operations on it."""

from __future__ import annotations

from benchmarks import alternatives
from benchmarks.cases import Sizes
from benchmarks.measure import Run, measure_in_turns
from benchmarks.world import World

NAME = "floors"
CAT = ["/bin/sh", "-c", 'cat "$1" > /dev/null', "cat"]


def measure(world: World, sizes: Sizes, repetitions: int) -> tuple[str, list[str]]:
    """The table of floors, as Markdown; it has no target to miss."""
    size = sizes.bytes[-1]
    talk = world.corpus.conversation(size)
    floor = {
        "`cat` to /dev/null, whole process": Run([*CAT, str(talk)], {}, whole=True),
        "read in 64 KB pieces": world.floor("read", talk),
        "read + find lines": world.floor("find_lines", talk),
        "read + simdjson checks every line": _simdjson(world, size),
        "read + msgspec checks every line": world.floor("check_json", talk),
        "read + msgspec builds every object": world.floor("build_objects", talk),
        "copy in the kernel": world.floor("copy", talk),
    }
    ours = {
        "our open": world.us("open", {"file": talk}),
        "our open + context": world.us("context", {"file": talk}),
        "our open + context, compacted": world.us(
            "context", {"file": world.corpus.compacted(size)}
        ),
        "our fork": world.us("fork", {"file": talk}),
    }
    taken = measure_in_turns({**floor, **ours}, repetitions)
    read = taken["read in 64 KB pieces"].median_ms
    lines = [
        f"Floors, {size / 1e6:g} MB:",
        "",
        "| what | ms | times a bare read | MB |",
        "|---|--:|--:|--:|",
    ]
    for name, samples in taken.items():
        ms, peak = samples.median_ms, samples.median_peak_mb
        if ms is None:
            lines.append(f"| {name} | {samples.error} | | |")
            continue
        times = f"{ms / read:.1f}" if read else ""
        lines.append(f"| {name} | {ms:,.0f} | {times} | {'' if peak is None else f'{peak:,.0f}'} |")
    return "\n".join(lines) + "\n", []


def _simdjson(world: World, size: int) -> Run:
    python, _ = alternatives.ensure_interpreter(world)
    folder = world.root / "simdjson"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "session.jsonl"
    link.unlink(missing_ok=True)
    link.symlink_to(world.corpus.conversation(size))
    return Run(alternatives.command(python, "simdjson-check", folder=folder), {})
