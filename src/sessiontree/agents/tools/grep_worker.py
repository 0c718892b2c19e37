"""The process behind ``grep``: one search request in, lines out.

Owns walking the project and matching. Reads one JSON object from standard input and writes JSON
lines: ``{"line": …}`` for text to show, then ``{"end": …}``, or ``{"error": …}``. Runs alone in a
process that may be ended at any moment, so it keeps nothing and writes nothing.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sessiontree.agents.tools.confinement import (
    ConfinementError,
    ProjectFolder,
    list_descriptor,
    open_file_at,
    open_folder_at,
)

SKIPPED_FOLDERS = frozenset(
    {
        ".git", ".hg", ".svn", ".jj", "node_modules", ".venv", "venv", "__pycache__",
        ".mypy_cache", ".ruff_cache", ".pytest_cache", ".tox", ".nox",
    }
)  # fmt: skip
_MAX_DEPTH = 64
_MAX_FILE_BYTES = 50_000_000
_SNIFF = 8_192
_MAX_LINE = 500

Matches = Callable[[str], bool]


@dataclass(slots=True)
class _Search:
    matches_line: Matches
    accepts: Matches
    context: int
    limit: int
    room: int
    matches: int = 0
    files: int = 0
    unreadable: int = 0
    more: bool = False

    def show(self, line: str) -> None:
        if len(line) > _MAX_LINE:
            line = f"{line[:_MAX_LINE]}…"
        self.room -= len(line) + 1
        if self.room < 0:
            self.more = True
        else:
            _write({"line": line})

    def file(self, name: str, descriptor: int) -> None:
        """Show the matching lines of one open file."""
        if os.fstat(descriptor).st_size > _MAX_FILE_BYTES:
            self.unreadable += 1
            return
        with os.fdopen(os.dup(descriptor), "rb") as file:
            start = file.read(_SNIFF)
            if b"\0" in start:
                return
            text = (start + file.read(_MAX_FILE_BYTES)).decode("utf-8", "replace")
        lines = text.split("\n")
        shown_to = 0
        found = False
        for number, line in enumerate(lines):
            if not self.matches_line(line.rstrip("\r")):
                continue
            if self.matches >= self.limit:
                self.more = True
            if self.more:
                return
            self.matches += 1
            if not found:
                found = True
                self.files += 1
            first = max(shown_to, number - self.context)
            if self.context and shown_to and first > shown_to:
                self.show("--")
            for at in range(first, min(len(lines), number + self.context + 1)):
                # A match within the context of an earlier one is marked as a match when it comes.
                if at > number and self.matches_line(lines[at].rstrip("\r")):
                    break
                mark = ":" if at == number else "-"
                self.show(f"{name}{mark}{at + 1}{mark} {lines[at].rstrip()}")
                shown_to = at + 1


def main() -> None:
    """Answer the request on standard input."""
    try:
        request = json.loads(sys.stdin.buffer.read())
        search = _prepare(request)
        _run(ProjectFolder(request["root"]), request["path"], search)
    except re.error as error:
        _write({"error": f"not a regular expression: {error}"})
    except ConfinementError as error:
        _write({"error": str(error)})
    except OSError as error:
        _write({"error": f"{error.strerror or error}: {error.filename}"})
    else:
        end = {
            "matches": search.matches,
            "files": search.files,
            "more": search.more,
            "unreadable": search.unreadable,
        }
        _write({"end": end})


def _prepare(request: dict[str, Any]) -> _Search:
    source = request["pattern"]
    if request.get("literal"):
        source = re.escape(source)
    pattern = re.compile(source, re.IGNORECASE if request.get("ignoreCase") else 0)
    return _Search(
        lambda line: pattern.search(line) is not None,
        _glob(request.get("glob")),
        request.get("context", 0),
        request["limit"],
        request["maxCharacters"],
    )


def _glob(glob: str | None) -> Matches:
    """Whether a path fits: without a slash the name alone is compared, anywhere."""
    if not glob:
        return lambda _: True
    glob = glob.removeprefix("./")
    if "/" not in glob:
        return lambda path: fnmatch.fnmatchcase(path.rpartition("/")[2], glob)
    # "**/" also stands for no folder at all.
    spellings = {glob, glob.replace("**/", "")}
    return lambda path: any(fnmatch.fnmatchcase(path, one) for one in spellings)


def _run(folder: ProjectFolder, path: str, search: _Search) -> None:
    if folder.kind(path) != "directory":
        with folder.open_file(path) as descriptor:
            search.file(path, descriptor)
        return
    prefix = folder.relative(path)
    with folder.open_directory(path) as descriptor:
        for name, file in _files(descriptor, "" if prefix == "." else f"{prefix}/", 0, search):
            search.file(name, file)
            if search.more:
                return


def _files(parent: int, prefix: str, depth: int, search: _Search) -> Iterator[tuple[str, int]]:
    for item in list_descriptor(parent):
        descend = item.kind == "directory" and item.name not in SKIPPED_FOLDERS
        take = item.kind == "file" and search.accepts(prefix + item.name)
        if not (take or descend) or depth > _MAX_DEPTH:
            continue
        try:
            opened = (open_folder_at if descend else open_file_at)(item.name, parent)
        except (OSError, ConfinementError):
            search.unreadable += 1
            continue
        try:
            if descend:
                yield from _files(opened, f"{prefix}{item.name}/", depth + 1, search)
            else:
                yield prefix + item.name, opened
        finally:
            os.close(opened)


def _write(record: dict[str, Any]) -> None:
    # ASCII: names that are not UTF-8 hold lone surrogates, which escapes can carry.
    sys.stdout.write(json.dumps(record, ensure_ascii=True) + "\n")
    sys.stdout.flush()
