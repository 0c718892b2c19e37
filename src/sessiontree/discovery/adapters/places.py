"""Locate the files of Claude Code and Codex, and those that belong to one session.

Works by file names; reads at most the few bytes that identify a file. Does not follow links to
folders, and never writes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from sessiontree.discovery.adapters.records import get_text, read_records
from sessiontree.discovery.kept import is_keeping
from sessiontree.storage.regular import open_for_reading

SUFFIX = ".jsonl"
SUBAGENT = "agent-"
"""The beginning of the name of a subagent's transcript."""
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_ROLLOUT_ID = re.compile(rf"rollout-.*?-({_UUID})(?:_{_UUID})?\.jsonl(?:\.zst)?")
_SAFE_ID = re.compile(r"[0-9A-Za-z-]{1,64}")
_PROBE_BYTES = 1 << 16
_NOT_PLAIN = re.compile("[^0-9A-Za-z]")
_MOST_PLAIN = 200


def claude_projects_dir(home: str | None = None) -> str:
    """The folder that holds a folder for each project."""
    override = os.environ.get("CLAUDE_CONFIG_DIR") if home is None else None
    base = override or os.path.join(home or os.path.expanduser("~"), ".claude")
    return os.path.join(base, "projects")


def claude_project_name(cwd: str) -> str:
    """The folder in which Claude Code keeps the sessions of a project."""
    real = os.path.realpath(cwd)
    plain = _NOT_PLAIN.sub(lambda sign: "--" if sign[0] > "\uffff" else "-", real)
    if len(plain) <= _MOST_PLAIN:
        return plain
    units = real.encode("utf-16-le", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >> 31 else value)
    digits = ""
    while value or not digits:
        value, digit = divmod(value, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + digits
    return f"{plain[:_MOST_PLAIN]}-{digits}"


def codex_home(home: str | None = None) -> str:
    """Codex's own folder."""
    override = os.environ.get("CODEX_HOME") if home is None else None
    return override or os.path.join(home or os.path.expanduser("~"), ".codex")


def read_origin(told: object, id_key: str) -> str | None:
    """What a session that Sessiontree converted says of its source: ``agent:id``."""
    if not isinstance(told, dict) or not isinstance(told.get(id_key), str):
        return None
    return f"{told.get('agent') or ''}:{told[id_key]}"


def session_id_of(path: str) -> str | None:
    """Return the session id in a file's name, prefixed for a subagent by its session's id.

    Different sessions may have subagents of one name.
    """
    name = os.path.basename(path)
    if is_subagent(path):
        return subagent_id(path, _first_session_id(path) or session_folder(path))
    found = _ROLLOUT_ID.fullmatch(name)
    if found is not None:
        return found.group(1)
    if name.startswith("rollout-") or not name.endswith(SUFFIX):
        return None
    return name[: -len(SUFFIX)] or None


def subagent_id(path: str, owner: str) -> str:
    """The id of a subagent's transcript that is listed as a session of its own."""
    return f"{os.path.basename(path).removeprefix(SUBAGENT).removesuffix(SUFFIX)}@{owner}"


def find_sidechains(path: str, session_id: str | None) -> list[str]:
    """The subagents' transcripts of a Claude Code session, in a fixed order.

    Newer versions keep them in a folder of the session, older ones beside it.
    """
    own = list(_walk(os.path.join(path.removesuffix(SUFFIX), "subagents")))
    if is_subagent(path):
        return []
    kept = [each for each in kept_parts(path) if each not in own]
    found = [each for each in own if is_subagent(each)] + kept
    beside = filter(is_subagent, _files(os.path.dirname(path)))
    found += [each for each in beside if _first_session_id(each) == session_id]
    return sorted(set(found))


def meta_of_sidechain(path: str) -> dict[str, object]:
    """Read the metadata that Claude Code keeps beside a subagent's transcript."""
    try:
        data = read_file(path.removesuffix(SUFFIX) + ".meta.json", _PROBE_BYTES)
        records = read_records(data.replace(b"\n", b" ")).records
    except OSError:
        return {}
    return records[0] if records else {}


def codex_home_of(path: str) -> str | None:
    """The Codex folder that a rollout lies in."""
    at = os.path.dirname(path)
    for _ in range(6):
        if os.path.basename(at) in ("sessions", "archived_sessions"):
            return os.path.dirname(at)
        at = os.path.dirname(at)
    return None


def find_rollout(home: str, thread_id: str, known: Sequence[str]) -> str | None:
    """Find the newest rollout of a thread that is not in ``known``."""
    if _SAFE_ID.fullmatch(thread_id) is None:
        return None
    found = [
        path
        for folder in ("sessions", "archived_sessions")
        for path in _walk(os.path.join(home, folder))
        if session_id_of(path) == thread_id and path not in known and path.endswith(SUFFIX)
    ]
    return max(found, key=os.path.basename, default=None)


def read_thread_names(home: str) -> dict[str, str]:
    """Read the names that users gave to threads; the latest counts."""
    try:
        records = read_records(read_file(os.path.join(home, "session_index.jsonl"))).records
    except OSError:
        return {}
    names = {}
    for record in records:
        thread_id, name = get_text(record, "id"), get_text(record, "thread_name")
        if thread_id is not None and name is not None:
            names[thread_id] = name
    return names


def read_file(path: str, length: int = -1) -> bytes:
    """Read a small file, or the copy that ``keep`` made of it. Raises OSError."""
    try:
        with open_for_reading(path) as file:
            return file.read(length)
    except FileNotFoundError:
        if not is_keeping():
            raise
        from sessiontree.discovery.kept.reading import open_kept

        found = open_kept(path)
        if found is None:
            raise
        return found.read_at(0, found.stat().size if length < 0 else length)


def kept_parts(path: str) -> list[str]:
    """The parts of a session that ``keep`` has copied."""
    if not is_keeping():
        return []
    from sessiontree.discovery.kept.reading import kept_parts as find

    return find(path)


def is_subagent(path: str) -> bool:
    """Whether a file is a subagent's transcript, by its name."""
    name = os.path.basename(path)
    return name.startswith(SUBAGENT) and name.endswith(SUFFIX)


def session_folder(path: str) -> str:
    """The name of the folder that a session's subagents lie in."""
    parts = path.split(os.sep)
    return parts[parts.index("subagents") - 1] if "subagents" in parts[1:] else "unknown"


def _first_session_id(path: str) -> str | None:
    try:
        found = os.stat(path)
        return _probe_session_id(path, found.st_size, found.st_mtime_ns)
    except OSError:
        return None


@lru_cache(maxsize=4096)
def _probe_session_id(path: str, size: int, mtime_ns: int) -> str | None:  # noqa: ARG001
    """Cached by file state: every session of a project asks for all files of the project."""
    with open_for_reading(path) as file:
        for line in file.read(_PROBE_BYTES).split(b"\n"):
            for record in read_records(line).records:
                found = get_text(record, "sessionId")
                if found is not None:
                    return found
    return None


def _walk(folder: str) -> Iterator[str]:
    for base, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            yield os.path.join(base, name)


def list_folders(folder: str) -> list[str]:
    """List the folders right in a folder, sorted; [] if it can't be read."""
    try:
        with os.scandir(folder) as listing:
            return sorted(item.path for item in listing if item.is_dir())
    except OSError:
        return []


def _files(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as listing:
            return sorted(item.path for item in listing if item.is_file())
    except OSError:
        return []
