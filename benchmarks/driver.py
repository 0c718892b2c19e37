"""One measured operation of ours, in a fresh process: the counterpart of peer.mjs.

``python -m benchmarks.driver OP '{"json": "arguments"}'`` prints ``{ms, hwm_kb, info}``; ms is the
operation alone, without starting and importing (the whole-process rows count those).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sessiontree import SessionManager

if TYPE_CHECKING:
    from sessiontree.importers.imports import ImportAllReport

Arguments = dict[str, Any]
Info = dict[str, Any]
_T = TypeVar("_T")
_elapsed_ms = 0.0


def measure(work: Callable[[], _T]) -> _T:
    """Run the work that counts; with ``BENCH_PROFILE`` set, say on stderr where the time goes."""
    global _elapsed_ms
    if os.environ.get("BENCH_PROFILE"):
        return _profile(work)
    loaded = set(sys.modules)
    started = time.perf_counter()
    result = work()
    _elapsed_ms = (time.perf_counter() - started) * 1_000
    late = sorted(name for name in set(sys.modules) - loaded if name.startswith("sessiontree"))
    assert not late, f"loaded while the time ran: {late}"
    return result


def _profile(work: Callable[[], _T]) -> _T:
    import cProfile
    import pstats

    profiler = cProfile.Profile()
    result = profiler.runcall(work)
    pstats.Stats(profiler, stream=sys.stderr).sort_stats("tottime").print_stats(14)
    return result


def open_session(args: Arguments) -> Info:
    manager = measure(lambda: SessionManager.open(args["file"]))
    return {"entries": len(manager.get_entries())}


def context(args: Arguments) -> Info:
    built = measure(lambda: SessionManager.open(args["file"]).build_session_context())
    return {"messages": len(built.messages)}


def context_again(args: Arguments) -> Info:
    manager = SessionManager.open(args["file"])
    manager.build_session_context()
    return {"messages": len(measure(manager.build_session_context).messages)}


def context_after_append(args: Arguments) -> Info:
    """The context again after one more message, as a running agent asks for it."""
    manager = SessionManager.open(args["file"])
    manager.build_session_context()
    manager.append_message({"role": "user", "content": "and now?", "timestamp": 1})
    return {"messages": len(measure(manager.build_session_context).messages)}


def tree(args: Arguments) -> Info:
    manager = SessionManager.open(args["file"])
    return {"roots": len(measure(manager.get_tree))}


def append(args: Arguments) -> Info:
    lines = Path(args["messages"]).read_bytes().splitlines()[: args["count"]]
    messages = [json.loads(line) for line in lines]
    durability = args.get("durability", "flush")
    manager = SessionManager.create(args["cwd"], args["scratch"], durability=durability)
    each: list[float] = []

    batch = args.get("batch", 0)

    def work() -> None:
        for message in messages:
            before = time.perf_counter()
            manager.append_message(message)
            each.append(time.perf_counter() - before)

    def work_in_batches() -> None:
        for first in range(0, len(messages), batch):
            before = time.perf_counter()
            some = messages[first : first + batch]
            manager.append_many([{"type": "message", "message": message} for message in some])
            each.append(time.perf_counter() - before)

    measure(work_in_batches if batch else work)
    each.sort()
    assert manager.session_file is not None
    written = Path(manager.session_file).read_bytes()
    p99_us = round(each[int(len(each) * 0.99)] * 1e6)
    return {"p99_us": p99_us, "lines": written.count(b"\n"), "bytes": len(written)}


def list_project(args: Arguments) -> Info:
    found = measure(lambda: SessionManager.list(args["cwd"], args["dir"]))
    return {"sessions": len(found), "messages": sum(each.message_count for each in found)}


def list_all(_: Arguments) -> Info:
    found = measure(SessionManager.list_all)
    return {"sessions": len(found), "messages": sum(each.message_count for each in found)}


def recent(args: Arguments) -> Info:
    from sessiontree import get_recent_sessions

    return {"sessions": len(measure(lambda: get_recent_sessions(args["dir"], args["count"])))}


def continue_recent(args: Arguments) -> Info:
    manager = measure(lambda: SessionManager.continue_recent(args["cwd"], args["dir"]))
    return {"id": manager.session_id}


def resume(args: Arguments) -> Info:
    from sessiontree import resolve_session

    found = measure(lambda: resolve_session(args["id"], args["cwd"]))
    return {"path": Path(found.path).name}


def index(_: Arguments) -> Info:
    from sessiontree.discovery.search import update_search_index

    return {"sessions": measure(update_search_index).done}


def find(args: Arguments) -> Info:
    from sessiontree import search

    hits = measure(lambda: search(args["query"]))
    return {"hits": len({hit.path for hit in hits})}


def fork(args: Arguments) -> Info:
    made = measure(lambda: SessionManager.fork_from(args["file"], args["cwd"], args["scratch"]))
    assert made.session_file is not None
    return {"bytes": Path(made.session_file).stat().st_size}


def branched(args: Arguments) -> Info:
    manager = SessionManager.open(args["file"], args["scratch"])
    leaf_id = manager.leaf_id
    assert leaf_id is not None
    made = measure(lambda: manager.create_branched_session(leaf_id))
    assert made is not None
    return {"bytes": Path(made).stat().st_size}


def import_sessions(args: Arguments) -> Info:
    """Import all sessions of Claude Code into a folder; with ``again``, once more."""
    from sessiontree.importers.imports import import_all

    def work() -> ImportAllReport:
        return import_all("claude-code", home=args["home"], session_dir=args["scratch"])

    if args.get("again"):
        work()
    report = measure(work)
    same = sum(1 for each in report.imported if each.is_unchanged)
    return {"imported": len(report.imported), "unchanged": same, "failed": len(report.failed)}


_OPENING = ("sessiontree.stores.files.log", "sessiontree.stores.files.opening")
_LISTING = ("sessiontree.discovery.listing", "sessiontree.discovery.workers", "sessiontree.plugins")
_ADAPTERS = "sessiontree.discovery.adapters"
LOADED_LATE = {
    "open": _OPENING,
    "context": _OPENING,
    "list": (*_LISTING, _ADAPTERS),
    "list_all": _LISTING,
    "continue": ("sessiontree.discovery.resume", *_OPENING),
    "resume": ("sessiontree.discovery.resume", "sessiontree.discovery.drafts"),
    "index": (f"{_ADAPTERS}.claude_code", f"{_ADAPTERS}.claude_content"),
    "search": (
        *("sessiontree.discovery.search", f"{_ADAPTERS}.claude_code"),
        *(f"{_ADAPTERS}.claude_content", f"{_ADAPTERS}.tree"),
    ),
    "fork": (*_OPENING, "sessiontree.stores.files.fork", "sessiontree.stores.files.copying"),
    "branched": ("sessiontree.stores.files.copying",),
}
"""What an operation would load while its time is measured, as it loads nothing before it must."""

OPS: dict[str, Callable[[Arguments], Info]] = {
    "open": open_session,
    "context": context,
    "context_again": context_again,
    "context_after_append": context_after_append,
    "tree": tree,
    "append": append,
    "list": list_project,
    "list_all": list_all,
    "recent": recent,
    "continue": continue_recent,
    "resume": resume,
    "index": index,
    "search": find,
    "fork": fork,
    "branched": branched,
    "import": import_sessions,
}


def peak_kb() -> int:
    """The most memory this process ever held."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    return 0


def main() -> None:
    op, given = sys.argv[1:3]
    for name in LOADED_LATE.get(op, ()):
        import_module(name)
    info = OPS[op](json.loads(given))
    print(json.dumps({"ms": _elapsed_ms, "hwm_kb": peak_kb(), "info": info}))


if __name__ == "__main__":
    main()
