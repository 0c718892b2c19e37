"""The project's files, to complete ``@path`` in a prompt.

In a git repository they are what git lists, so that ``.gitignore`` counts; elsewhere what a bounded
walk finds. Nothing of the project runs: git's own ways to start programs are switched off.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Sequence

from sessiontree.text.escaping import exact_line

MOST_FILES = 20_000
_MOST_FOUND = 50
_PATIENCE_S = 3.0
_SKIPPED = frozenset(("node_modules", "__pycache__"))
# A repository may come from anybody, and its configuration may name programs to run.
_GIT = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_LIST = ("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate")
_TOKEN = re.compile(r"""(?:^|(?<=[\s(\[{'"]))@(?:"(?P<quoted>[^"]*)|(?P<bare>[^\s"@]*))$""")


def find_token(before_cursor: str) -> tuple[int, str] | None:
    """The ``@path`` that is being typed: the column where it begins, and the path so far."""
    found = _TOKEN.search(before_cursor)
    if found is None:
        return None
    quoted = found["quoted"]
    return found.start(), found["bare"] if quoted is None else quoted


def spell(path: str) -> str:
    """The path as it is put into a prompt, quoted if it has blanks."""
    return f'@"{path}" ' if re.search(r"\s", path) else f"@{path} "


def list_files(cwd: str) -> list[str]:
    """Paths of the project's files, from its folder on, without invisible characters.

    Blocks for a few seconds at most. Characters that can't be seen are shown as escapes.
    """
    found = _ask_git(cwd)
    paths = _walk(cwd) if found is None else found
    shown = {exact_line(path) for path in paths[:MOST_FILES]}
    return sorted(shown, key=lambda path: (path.count("/"), path.casefold()))


def _ask_git(cwd: str) -> list[str] | None:
    """What git lists; None if this is not a repository, or git can't say."""
    program = shutil.which("git")
    if program is None:
        return None
    # A relative entry of PATH must not find a program of the project.
    command = [os.path.abspath(program), *_GIT, *_LIST]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode != 0:
        return None
    return [os.fsdecode(path) for path in done.stdout.split(b"\0") if path]


def _walk(cwd: str) -> list[str]:
    """The files below a folder, the nearest first; links and hidden folders are left out."""
    found: list[str] = []
    folders = deque([""])
    ends_at = time.monotonic() + _PATIENCE_S
    while folders and len(found) < MOST_FILES and time.monotonic() < ends_at:
        folder = folders.popleft()
        with contextlib.suppress(OSError), os.scandir(os.path.join(cwd, folder)) as listing:
            for item in listing:
                path = os.path.join(folder, item.name)
                if item.is_dir(follow_symlinks=False):
                    if not item.name.startswith(".") and item.name not in _SKIPPED:
                        folders.append(path)
                elif item.is_file():
                    found.append(path)
    return found


class ProjectFiles:
    """The files of one project, found by a few letters of their paths."""

    def __init__(self, paths: Sequence[str] = ()) -> None:
        self.paths = paths
        self._folded = [path.casefold() for path in paths]
        self._last: tuple[str, Sequence[int]] = ("", range(len(paths)))

    def find(self, text: str) -> list[str]:
        """The best paths for what was typed; none if that is a whole path already."""
        if not text:
            return list(self.paths[:_MOST_FOUND])
        wanted = text.casefold()
        before, candidates = self._last
        if not wanted.startswith(before):
            candidates = range(len(self.paths))
        in_order = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
        found = []
        for number in candidates:
            match = in_order.search(self._folded[number])
            if match is not None:
                rank = _rank(self._folded[number], wanted, match.end() - match.start())
                found.append((rank, number))
        self._last = (wanted, [number for _, number in found])
        if any(kind == 0 and self.paths[number] == text for (kind, _), number in found):
            return []
        return [self.paths[number] for _, number in sorted(found)[:_MOST_FOUND]]


def _rank(path: str, wanted: str, spread: int) -> tuple[int, int]:
    """How well a path fits, the best first; paths that fit alike keep their order.

    A file's name counts more than its folders, and letters that are near each other more than
    such that are spread over the path.
    """
    name = path.rpartition("/")[2]
    if wanted in (name, path):
        return 0, 0
    if name.startswith(wanted) or path.startswith(wanted):
        return 1, 0
    if wanted in name:
        return 2, 0
    return (3, 0) if wanted in path else (4, spread)
