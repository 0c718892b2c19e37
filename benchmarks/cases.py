"""The operations we are measured by, with the target each must reach.

Owns the list; sizes come from ``Sizes`` so that a quick run is the same list on less. A case makes
its corpus only when it is built, so that ``--only`` generates nothing in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.corpus import DEEP_WORD, RARE_EVERY, RARE_FIRST, session_files
from benchmarks.measure import Run
from benchmarks.world import World

PEERS = ("pi", "omp")


@dataclass(frozen=True)
class Sizes:
    """How much of everything; the last of three is what the targets speak of."""

    bytes: tuple[int, ...] = (6_250_000, 25_000_000, 100_000_000)
    huge: int = 600_000_000
    entries: tuple[int, ...] = (25_000, 50_000, 100_000)
    depth: tuple[int, ...] = (50_000, 400_000, 100_000)
    """The smallest is larger than a processor's cache, which makes few nodes cheaper than many."""
    children: tuple[int, ...] = (75_000, 600_000, 150_000)
    appends: tuple[int, ...] = (500, 1_000, 2_000)
    project: tuple[int, ...] = (250, 1_000, 5_000)
    everywhere: int = 5_000
    imports: tuple[int, ...] = (250, 500, 1_000)
    alternatives: int = 5_000
    agents: tuple[int, int, int] = (1_000, 300, 300)
    """Sessions of Claude Code, Codex and pi."""
    page: int = 20_000_000


QUICK = Sizes(
    bytes=(1_000_000, 2_000_000, 4_000_000),
    huge=16_000_000,
    entries=(2_500, 5_000, 10_000),
    depth=(5_000, 40_000, 10_000),
    children=(7_500, 60_000, 15_000),
    appends=(100, 200, 400),
    project=(50, 100, 200),
    everywhere=200,
    imports=(10, 20, 40),
    alternatives=300,
    agents=(100, 85, 85),
    page=1_000_000,
)


@dataclass(frozen=True)
class Contest:
    """What is run for a case, on files that exist."""

    runs: dict[str, Run]
    growth: dict[float, Run] = field(default_factory=dict)
    """The same by us at other sizes; ``size`` is that of ``runs``."""
    size: float = 0
    expect: dict[str, Any] = field(default_factory=dict)
    """What our answer must say, for speed without truth is worth nothing."""
    first: Run | None = None
    """What is done once, unmeasured, to make the case what its name says."""


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    name: str
    build: Callable[[], Contest]
    target: float | None = None
    against: tuple[str, ...] = PEERS
    """Whose better time the ratio is taken to."""
    memory_mb: float | None = None
    memory_share: float | None = None
    """At most this share of the leaner peer's memory."""
    note: str = ""


def all_cases(world: World, sizes: Sizes) -> Iterator[Case]:
    """Every case, in the order of the table."""
    for make in (
        single_sessions,
        trees,
        appends,
        listings,
        finding,
        copies,
        imports,
        programs,
        huge,
    ):
        yield from make(world, sizes)


def single_sessions(world: World, sizes: Sizes) -> Iterator[Case]:
    corpus = world.corpus
    size, entries = _mb(sizes.bytes[-1]), sizes.entries[-1]
    on_files = partial(_on_files, world)
    yield Case(
        f"open {size}",
        partial(on_files, "open", sizes.bytes, corpus.conversation),
        target=0.25,
        memory_mb=60,
    )
    yield Case(
        f"open + context {size}, compacted at 80 %",
        partial(on_files, "context", sizes.bytes, corpus.compacted),
        target=0.35,
        memory_mb=100,
    )
    yield Case(
        f"open + context {size}, no compaction",
        partial(on_files, "context", sizes.bytes, corpus.conversation),
        target=0.75,
        memory_share=0.5,
    )
    yield Case(
        f"open + context {entries:,} small entries",
        partial(on_files, "context", sizes.entries, corpus.chain),
        target=0.8,
    )
    yield Case(
        f"context again on {size}, nothing changed",
        partial(on_files, "context_again", sizes.bytes, corpus.conversation),
        target=0.5,
    )
    yield Case(
        f"context again on {size}, one message later",
        partial(_context_after_append, world, sizes.bytes[-1]),
        target=0.5,
        note="peers: nothing changed",
    )


def _context_after_append(world: World, size: int) -> Contest:
    file = world.corpus.conversation(size)
    copy = world.root / "scratch-files" / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(file.read_bytes())
    runs = _contest(world, "context_again", {"file": file})
    return Contest(runs | {"us": world.us("context_after_append", {"file": copy})})


def trees(world: World, sizes: Sizes) -> Iterator[Case]:
    corpus = world.corpus
    for shape, counts, make in (
        ("deep", sizes.depth, corpus.chain),
        ("children of one node", sizes.children, corpus.star),
    ):
        build = partial(_on_files, world, "tree", counts, make)
        yield Case(f"tree, {counts[-1]:,} {shape}", build, target=0.7)


def appends(world: World, sizes: Sizes) -> Iterator[Case]:
    count = sizes.appends[-1]
    yield Case(
        f"append {count:,} messages, locked",
        partial(_appending, world, sizes.appends),
        target=0.75,
        against=("pi",),
        note="pi takes no lock",
    )
    yield Case(
        f"append {count:,} small messages, 100 in each call",
        partial(_appending_many, world, count),
        target=0.25,
        against=("one by one",),
        note="beside the same by us, one in each call",
    )
    yield Case(
        f'append {count:,}, durability="entry"',
        partial(_appending_durably, world, count),
        against=("SQLite FULL",),
        note="beside one fdatasync a line, and SQLite (WAL, synchronous=FULL)",
    )


def _appending(world: World, counts: Sequence[int]) -> Contest:
    *fewer, count = counts
    file = world.corpus.messages(count)
    args = {"messages": file, "count": count}
    growth: dict[float, Run] = {n: world.us("append", {**args, "count": n}) for n in fewer}
    return Contest(_contest(world, "append", args), growth, count, {"lines": count + 1})


def _appending_many(world: World, count: int) -> Contest:
    args = {"messages": world.corpus.messages(count, small=True), "count": count}
    together, one_by_one = world.us("append", {**args, "batch": 100}), world.us("append", args)
    return Contest({"us": together, "one by one": one_by_one}, expect={"lines": count + 1})


def _appending_durably(world: World, count: int) -> Contest:
    file = world.corpus.messages(count)
    args = {"messages": file, "count": count, "durability": "entry"}
    floors = {
        "write + fdatasync": world.floor("append_synced", file),
        "SQLite FULL": world.floor("insert_synced", file),
    }
    return Contest({"us": world.us("append", args), **floors}, expect={"lines": count + 1})


def listings(world: World, sizes: Sizes) -> Iterator[Case]:
    few = sizes.project[1]
    truth = "ours counts every message; omp's counts come from a prefix"
    yield Case(
        f"first listing of {few:,} ever", partial(_first_listing, world, sizes.project), target=1.0
    )
    yield Case(
        f"list {few:,}, catalogue present",
        partial(_listing, world, sizes.project),
        target=0.15,
        note=truth,
    )
    yield Case(
        f"list all {sizes.everywhere:,}, catalogue present",
        partial(_listing_all, world, sizes.everywhere),
        target=0.15,
        note=truth,
    )


def _project_trees(world: World, counts: Sequence[int]) -> dict[int, Path]:
    largest = world.corpus.one_project(counts[-1])
    smaller = {count: world.corpus.newest_of(largest, count) for count in counts[:-1]}
    return {**smaller, counts[-1]: largest}


def _folder(tree: Path) -> dict[str, Any]:
    return {"dir": next(session_files(tree)).parent}


def _listing(world: World, counts: Sequence[int]) -> Contest:
    trees = _project_trees(world, counts)
    few = counts[1]
    runs = _contest(world, "list", _folder(trees[few]), trees[few] / "agent")
    others = [count for count in counts if count != few]
    growth: dict[float, Run] = {
        n: world.us("list", _folder(trees[n]), trees[n] / "agent") for n in others
    }
    return Contest(runs, growth, few, {"sessions": few})


def _first_listing(world: World, counts: Sequence[int]) -> Contest:
    trees = _project_trees(world, counts)

    def first(count: int) -> Run:
        agent = trees[count] / "agent"
        forget = partial(world.forget_what_we_know, agent)
        return replace(world.us("list", _folder(trees[count]), agent), before=forget)

    small, few = counts[:2]
    runs = _contest(world, "list", _folder(trees[few]), trees[few] / "agent")
    return Contest(runs | {"us": first(few)}, {small: first(small)}, few, {"sessions": few})


def _listing_all(world: World, count: int) -> Contest:
    tree = world.corpus.many_projects(count)
    return Contest(_contest(world, "list_all", {}, tree / "agent"), expect={"sessions": count})


def finding(world: World, sizes: Sizes) -> Iterator[Case]:
    count = sizes.project[-1]
    yield Case(f"recent 3 of {count:,}", partial(_recent, world, count), target=0.6)
    yield Case(f"continue among {count:,}", partial(_continuing, world, count), target=0.3)
    yield Case(
        f"resume by id prefix among {sizes.everywhere:,}",
        partial(_resuming, world, sizes.everywhere),
        target=0.05,
    )
    hits = len(range(RARE_FIRST, sizes.everywhere, RARE_EVERY))
    yield Case(
        f"index the text of {sizes.everywhere:,}, once",
        partial(_indexing, world, sizes.everywhere),
        note="pi and omp load their list anew for each search: the time of that beside it",
    )
    yield Case(
        f"search {sizes.everywhere:,}, indexed",
        partial(_searching, world, sizes.everywhere, hits),
        target=0.1,
        note=f"{hits} sessions hold the word; the peers' time is after loading their list",
    )


def _recent(world: World, count: int) -> Contest:
    tree = world.corpus.one_project(count)
    runs = _contest(world, "recent", {**_folder(tree), "count": 3}, tree / "agent")
    return Contest(runs, expect={"sessions": 3})


def _continuing(world: World, count: int) -> Contest:
    tree = world.corpus.one_project(count)
    newest = max(session_files(tree), key=lambda f: f.stat().st_mtime)
    runs = _contest(world, "continue", _folder(tree), tree / "agent")
    return Contest(runs, expect={"id": _id_of(newest)})


def _resuming(world: World, count: int) -> Contest:
    tree = world.corpus.many_projects(count)
    wanted = sorted(session_files(tree), key=lambda f: f.name)[count // 3]
    runs = _contest(world, "resume", {"id": _id_of(wanted)[:18]}, tree / "agent")
    return Contest(runs, expect={"path": wanted.name})


def _indexing(world: World, count: int) -> Contest:
    agent = world.corpus.many_projects(count) / "agent"
    forget = partial(world.forget_what_we_know, agent)
    ours = replace(world.us("index", {}, agent), before=forget)
    return Contest(_contest(world, "list_all", {}, agent) | {"us": ours})


def _searching(world: World, count: int, hits: int) -> Contest:
    tree = world.corpus.many_projects(count)
    agent = tree / "agent"
    runs = _contest(world, "search", {"query": DEEP_WORD}, agent)
    return Contest(runs, expect={"hits": hits}, first=world.us("index", {}, agent))


def _id_of(file: Path) -> str:
    return file.stem.split("_", 1)[1]


def copies(world: World, sizes: Sizes) -> Iterator[Case]:
    size = _mb(sizes.bytes[-1])
    for op, words in (("fork", "fork"), ("branched", "branched session")):
        build = partial(_on_files, world, op, sizes.bytes, world.corpus.conversation)
        yield Case(f"{words} {size}", build, target=0.1, memory_mb=40)


def imports(world: World, sizes: Sizes) -> Iterator[Case]:
    count = sizes.imports[-1]
    size = "Claude Code sessions"
    yield Case(
        f"import {count:,} {size}",
        partial(_importing, world, sizes.imports, again=False),
        against=(),
        memory_mb=150,
        note="subagents included; the peers import nothing",
    )
    yield Case(
        f"import {count:,} {size} again, nothing new",
        partial(_importing, world, sizes.imports, again=True),
        against=(),
        memory_mb=150,
    )


def _importing(world: World, counts: Sequence[int], *, again: bool) -> Contest:
    homes = [world.corpus.transcripts(count) for count in counts]
    runs = [world.us("import", {"home": home, "again": again}) for home in homes]
    # Sessions differ in length: what grows is their bytes.
    sizes = [sum(file.stat().st_size for file in home.rglob("*.jsonl")) for home in homes]
    count = counts[-1]
    truth = {"imported": count, "unchanged": count if again else 0, "failed": 0}
    growth: dict[float, Run] = dict(zip(sizes[:-1], runs[:-1], strict=True))
    return Contest({"us": runs[-1]}, growth, sizes[-1], truth)


def programs(world: World, sizes: Sizes) -> Iterator[Case]:
    few = sizes.project[1]
    yield Case("--version, whole process", partial(_asking_the_version, world), target=0.2)
    yield Case(
        f"ls of {few:,}, whole process",
        partial(_ls, world, sizes.project),
        target=0.2,
        note="peers have no ls: a process of theirs that lists the same folder",
    )


def _asking_the_version(world: World) -> Contest:
    return Contest({name: world.program(name, ["--version"]) for name in ("us", *PEERS)})


def _ls(world: World, counts: Sequence[int]) -> Contest:
    tree = _project_trees(world, counts)[counts[1]]
    runs = _contest(world, "list", _folder(tree), tree / "agent")
    whole = {name: replace(run, whole=True) for name, run in runs.items()}
    return Contest(whole | {"us": world.program("us", ["ls"], tree / "agent")})


def huge(world: World, sizes: Sizes) -> Iterator[Case]:
    yield Case(
        f"open + context {_mb(sizes.huge)}, compacted all along",
        partial(_on_files, world, "context", [sizes.huge], world.corpus.long_run),
        target=0.25,
        memory_mb=150,
    )
    yield Case(
        f"open + context {_mb(sizes.huge)}, compacted once at 80 %",
        partial(_on_files, world, "context", [sizes.huge], world.corpus.compacted),
        note="a fifth of it is context: no model takes that",
    )


def _contest(
    world: World, op: str, args: dict[str, Any], agent: Path | None = None
) -> dict[str, Run]:
    others = {name: world.peer(name, op, args, agent) for name in PEERS}
    return {"us": world.us(op, args, agent), **others}


def _on_files(world: World, op: str, sizes: Sequence[int], make: Callable[[int], Path]) -> Contest:
    """The operation on the last file by everyone, and on the others by us."""
    *others, size = sizes
    growth: dict[float, Run] = {n: world.us(op, {"file": make(n)}) for n in others}
    return Contest(_contest(world, op, {"file": make(size)}), growth, size)


def _mb(size: int) -> str:
    return f"{size / 1e6:g} MB"
