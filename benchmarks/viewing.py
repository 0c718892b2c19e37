"""What it costs to look: a session as a page, the viewer and the MCP server over 5,000 sessions.

Owns the rows, their limits and the table. The viewer and the MCP server are whole processes that a
client asks over their own protocol, so a time holds everything between question and answer.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from benchmarks.cases import Sizes
from benchmarks.corpus import DEEP_WORD, EPOCH_S, RARE_EVERY, RARE_FIRST, banks
from benchmarks.measure import Run, Samples, Trial, measure_in_turns, try_once
from benchmarks.rival_programs import CLAUDE_CODE_LOG, Rivals
from benchmarks.transcripts import Transcript
from benchmarks.world import World

NAME = "viewing"
MAX_PAGE_RATIO = 0.5
MAX_FIRST_PAGE_MS = 200.0
MAX_TYPED_MS = 30.0
MAX_MCP_MS = 50.0
MAX_VIEWER_MB = 150.0
_TYPED = (DEEP_WORD, "with", "this not")
"""A word of ten sessions, one of nearly all, and two of those; each is typed letter by letter."""
_ASKED = (DEEP_WORD, "with", '"is the"', f"with -{DEEP_WORD}")
_KEY_S = 0.1
_MOST_INDEXING_S = 600.0
_PROGRAM = str(Path(sys.executable).with_name("sessiontree"))


@dataclass
class Line:
    """One row: what was measured, and its limit."""

    name: str
    value: float | None
    limit: float
    unit: str
    beside: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def failures(self) -> list[str]:
        """What is wrong with it."""
        if self.value is None or self.value > self.limit:
            return [*self.problems, f"at most {self.limit:g} {self.unit}".strip()]
        return self.problems

    def __str__(self) -> str:
        digits = 2 if self.limit < 1 else 1 if self.limit < 100 else 0
        value = "fails" if self.value is None else f"{self.value:,.{digits}f} {self.unit}".strip()
        verdict = f"**missed:** {', '.join(self.failures)}" if self.failures else "ok"
        limit = f"{self.limit:g} {self.unit}".strip()
        remarks = "; ".join(filter(None, (verdict, self.beside)))
        return f"| {self.name} | {value} | {limit} | {remarks} |"


def measure(world: World, sizes: Sizes, repetitions: int) -> tuple[str, list[str]]:
    """The table as Markdown, and the rows that miss their limits."""
    lines: list[Line] = []
    for make in (_page, _viewer, _mcp):
        for line in make(world, sizes, repetitions):
            print(f"{NAME}: {line}", file=sys.stderr, flush=True)
            lines.append(line)
    head = [
        f"Looking at sessions: one of {sizes.page / 1e6:g} MB as a page, and {sizes.everywhere:,}",
        "in the viewer and over MCP. Times from question to answer (median); memory at its peak.",
        "",
        "| what | is | limit | |",
        "|---|--:|--:|---|",
    ]
    missed = [f"{line.name}: {failure}" for line in lines for failure in line.failures]
    return "\n".join([*head, *map(str, lines)]) + "\n", missed


# -- a session as a page -----------------------------------------------------------------------


def _page(world: World, sizes: Sizes, repetitions: int) -> Iterator[Line]:
    folder = world.root / "rivals"
    folder.mkdir(parents=True, exist_ok=True)
    rivals = Rivals.ensure(folder, (CLAUDE_CODE_LOG,))
    source = world.corpus.tree(f"transcript-{sizes.page}", partial(_write_transcript, sizes.page))
    transcript = next(source.rglob("*.jsonl"))
    out = world.root / "scratch" / NAME
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    env = world.clean_env() | {"HOME": str(source), "NO_COLOR": "1"}
    ours, theirs = out / "us.html", out / "theirs.html"
    words = [_PROGRAM, "export", str(transcript), "--force", "-o", str(ours)]
    runs = {"us": Run(words, env, whole=True, cwd=out)}
    if CLAUDE_CODE_LOG in rivals.commands:
        command = rivals.commands[CLAUDE_CODE_LOG]
        words = [command, str(transcript), "-o", str(theirs), "--no-cache"]
        runs[CLAUDE_CODE_LOG] = Run(words, env, whole=True, cwd=out)
    trials = {name: try_once(run) for name, run in runs.items()}
    taken = measure_in_turns(runs, repetitions)
    yield _page_line(sizes, trials, taken, [ours, theirs], rivals)


def _page_line(
    sizes: Sizes,
    trials: dict[str, Trial],
    taken: dict[str, Samples],
    pages: list[Path],
    rivals: Rivals,
) -> Line:
    us = taken["us"].median_ms
    theirs = taken[CLAUDE_CODE_LOG].median_ms if CLAUDE_CODE_LOG in taken else None
    name = f"{sizes.page / 1e6:g} MB as a page, beside {CLAUDE_CODE_LOG}, whole process"
    line = Line(name, us / theirs if us and theirs else None, MAX_PAGE_RATIO, "")
    line.problems += [f"{who}: {trial.error}" for who, trial in trials.items() if trial.error]
    line.problems += [f"{who} could not be had: {why}" for who, why in rivals.lacking.items()]
    if us and theirs:
        made = [f"{path.stat().st_size / 1e6:,.0f} MB" for path in pages]
        line.beside = (
            f"us {us:,.0f} ms, {made[0]}; {CLAUDE_CODE_LOG} {theirs:,.0f} ms, {made[1]}; "
            f"our peak {trials['us'].peak_mb or 0:,.0f} MB"
        )
    return line


def _write_transcript(size: int, root: Path) -> None:
    """A home folder with one Claude Code transcript of this size."""
    made = Transcript(23, str(root.with_suffix("") / "src"), EPOCH_S, banks())
    written = 0
    while written < size:
        before = len(made.lines)
        made.exchange()
        written += sum(len(line) + 1 for line in made.lines[before:])
    folder = root / ".claude" / "projects" / "-src"
    folder.mkdir(parents=True)
    (folder / f"{made.id}.jsonl").write_bytes(b"\n".join(made.lines) + b"\n")


# -- the viewer --------------------------------------------------------------------------------


class _Viewer:
    """A viewer that runs, and a browser's questions to it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        parts = urlsplit(url)
        self._root = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        self._headers: dict[str, str] = {}
        self._ask(f"/?{parts.query}")
        self._headers["cookie"] = self._cookie.partition(";")[0]

    def get(self, path: str) -> tuple[float, str]:
        """Milliseconds from question to answer, and the answer."""
        began = time.perf_counter()
        answer = self._ask(path)
        return (time.perf_counter() - began) * 1_000, answer

    def type(self, text: str) -> tuple[float, dict[str, Any]]:
        """The same for what the page asks while somebody types."""
        ms, answer = self.get(f"/rows?q={quote(text)}")
        return ms, json.loads(answer)

    def peak_mb(self) -> float:
        """The most memory that it ever held."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1_024
        return 0.0

    def _ask(self, path: str) -> str:
        headers = {**self._headers, "accept": "text/html", "sec-fetch-site": "same-origin"}
        self._connection.request("GET", self._root + path, headers=headers)
        answer = self._connection.getresponse()
        body = answer.read().decode()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {body[:200]}")
        self._cookie = answer.headers.get("set-cookie", "")
        return body


def _viewer(world: World, sizes: Sizes, repetitions: int) -> Iterator[Line]:
    with _viewing(world, sizes) as viewer:  # the first start reads and indexes everything
        _wait_for_index(viewer)
    first: list[float] = []
    again: list[float] = []
    typed: dict[str, list[float]] = {}
    problems: list[str] = []
    peak = 0.0
    for _ in range(repetitions):
        with _viewing(world, sizes) as viewer:
            ms, page = viewer.get("/")
            if f"{sizes.everywhere:,} sessions" not in page:
                problems = ["the first page does not show all sessions"]
            first.append(ms)
            time.sleep(2.5)  # the listing is then too old to be believed
            again.append(viewer.get("/")[0])
            problems += _type_all(viewer, typed, sizes)
            viewer.get("/usage")
            peak = max(peak, viewer.peak_mb())
    listed = Line(
        "viewer, first page after its start", statistics.median(first), MAX_FIRST_PAGE_MS, "ms"
    )
    listed.beside = f"later {statistics.median(again):,.0f} ms"
    listed.problems = problems[:1]
    yield listed
    yield _typed_line(typed)
    name = "viewer, memory after all this and the page of usage"
    yield Line(name, peak, MAX_VIEWER_MB, "MB")


def _type_all(viewer: _Viewer, typed: dict[str, list[float]], sizes: Sizes) -> list[str]:
    """Type each word letter by letter; what is wrong with the last answers."""
    problems = []
    viewer.type("x")
    for word in _TYPED:
        for end in range(1, len(word) + 1):
            time.sleep(_KEY_S)
            ms, found = viewer.type(word[:end])
            typed.setdefault(word[:end], []).append(ms)
        held = len(range(RARE_FIRST, sizes.everywhere, RARE_EVERY))
        if word == DEEP_WORD and not found["told"].startswith(f"{held} of"):
            problems.append(f"{word}: {found['told']}")
    return problems


def _typed_line(typed: dict[str, list[float]]) -> Line:
    medians = {text: statistics.median(times) for text, times in typed.items()}
    slowest = max(medians, key=lambda text: medians[text])
    line = Line("viewer, search as you type, the slowest key", medians[slowest], MAX_TYPED_MS, "ms")
    line.beside = (
        f"`{slowest}`; the median of {len(medians)} keys {statistics.median(medians.values()):.1f}"
    )
    return line


def _wait_for_index(viewer: _Viewer) -> None:
    deadline = time.monotonic() + _MOST_INDEXING_S
    while time.monotonic() < deadline:
        is_listed = "Reading your sessions" not in viewer.get("/")[1]
        if is_listed and not viewer.type(DEEP_WORD)[1]["isIndexing"]:
            return
        time.sleep(0.5)
    raise RuntimeError("the index is never complete")


@contextmanager
def _viewing(world: World, sizes: Sizes) -> Iterator[_Viewer]:
    with _started(world, sizes, "view", "--no-open") as process:
        assert process.stdout is not None
        told = process.stdout.readline()
        yield _Viewer(process, told.removeprefix("Sessions: ").strip())


# -- MCP ---------------------------------------------------------------------------------------


def _mcp(world: World, sizes: Sizes, repetitions: int) -> Iterator[Line]:
    taken: dict[str, list[float]] = {}
    problems: list[str] = []
    with _started(world, sizes, "mcp") as process:
        call = _connect(process)
        call("tools/call", name="list_sessions", arguments={})  # it is up, and has its listing
        for _ in range(repetitions):
            for query in _ASKED:
                began = time.perf_counter()
                answer = call("tools/call", name="search_sessions", arguments={"query": query})
                taken.setdefault(query, []).append((time.perf_counter() - began) * 1_000)
                hits = answer["structuredContent"]["hits"]
                if not hits or answer.get("isError"):
                    problems.append(f"{query}: nothing found")
    medians = {query: statistics.median(times) for query, times in taken.items()}
    slowest = max(medians, key=lambda query: medians[query])
    line = Line("MCP, the slowest of four searches", medians[slowest], MAX_MCP_MS, "ms")
    line.beside = f"`{slowest}`; the median {statistics.median(medians.values()):.1f}"
    line.problems = problems[:1]
    yield line


def _connect(process: subprocess.Popen[str]) -> Callable[..., dict[str, Any]]:
    """Shake hands; what calls a method and returns its result."""
    asked = iter(range(1, 1 << 30))

    def send(**message: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    def call(method: str, **params: Any) -> dict[str, Any]:
        assert process.stdout is not None
        number = next(asked)
        send(id=number, method=method, params=params)
        while line := process.stdout.readline():
            answer = json.loads(line)
            if answer.get("id") == number:
                result: dict[str, Any] = answer["result"]
                return result
        raise RuntimeError("the MCP server is gone")

    client = {"name": "benchmarks", "version": "1"}
    call("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
    send(method="notifications/initialized")
    return call


@contextmanager
def _started(world: World, sizes: Sizes, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A server of ours over the many sessions, with a home folder of its own."""
    home = world.root / "home" / f"{NAME}-{sizes.everywhere}"
    home.mkdir(parents=True, exist_ok=True)
    agent = world.corpus.many_projects(sizes.everywhere) / "agent"
    env = world.clean_env() | {
        "HOME": str(home),
        "SESSIONTREE_AGENT_DIR": str(agent),
        "NO_COLOR": "1",
    }
    process = subprocess.Popen(
        [_PROGRAM, *words],
        env=env,
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if words[0] == "view" else None,
        text=True,
    )
    try:
        yield process
    finally:
        os.kill(process.pid, signal.SIGINT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
