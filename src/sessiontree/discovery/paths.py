"""Name the folders of projects, the files of sessions, and the files beside them.

docs/format.md#files-beside-a-session describes the names. This module asks a storage whether a
folder exists, but reads no session. Several projects may share a folder: the session's header names
its project, and callers that read headers compare them with ``same_cwd``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from sessiontree.errors import PersistenceError
from sessiontree.model.ids import sha256_hex
from sessiontree.profiles import Profile
from sessiontree.storage.base import SessionStorage

SESSION_SUFFIX = ".jsonl"
DRAFT_SUFFIX = ".draft"

_SCOPE = "@"
_LONGEST_SCOPE = 200
_SEPARATORS = re.compile(r"[/\\:]")
_WINDOWS_ABSOLUTE = re.compile(r"(?:[A-Za-z]:)?[\\/]{1,2}|[A-Za-z]:$")
_UNSAFE_IN_NAME = re.compile(r"[/\\\x00-\x1f\x7f]")
_FILE_NAME = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)(?:-(\d+))?(Z?)_(.+)\.jsonl", re.DOTALL
)


def encode_cwd(cwd: str | os.PathLike[str]) -> str:
    """Return the project's folder name in the documented spelling: ``--code-pi--``.

    Purely lexical: links are not followed. A Windows path keeps its drive on any system.
    """
    absolute = _absolute(os.fspath(cwd))
    if absolute.startswith(("/", "\\")):
        absolute = absolute[1:]
    return f"--{_SEPARATORS.sub('-', absolute)}--"


def encode_cwd_home_relative(cwd: str | os.PathLike[str]) -> str:
    """Return the project's folder name in the spelling of omp 14 and later: ``-projects-pi``.

    Links are followed, as omp does: a path through a link to home is still under home.
    """
    resolved = resolve_cwd(cwd)
    below_home = _relative(resolved, resolve_cwd(os.path.expanduser("~")))
    if below_home is not None:
        return "-" + _SEPARATORS.sub("-", below_home)
    below_temp = _relative(resolved, resolve_cwd(_temp_root()))
    if below_temp is not None:
        return "-tmp" + ("-" + _SEPARATORS.sub("-", below_temp) if below_temp else "")
    return encode_cwd(resolved)


def session_folders(profile: Profile, cwd: str | os.PathLike[str]) -> list[str]:
    """List all folders that may hold this project's sessions, existing or not, preferred first.

    A path through a link adds the link's spelling to that of its target. If the
    environment names one folder for all projects, only that one is listed.
    """
    if profile.session_dir is not None:
        return [profile.session_dir]
    absolute = _absolute(os.fspath(cwd))
    names = [encode_cwd(resolve_cwd(cwd))]
    if profile.finds_home_relative_folders:
        names.append(encode_cwd_home_relative(cwd))
    names.append(encode_cwd(absolute))
    return [os.path.join(profile.sessions_dir, name) for name in dict.fromkeys(names)]


def scope_name(scope: str) -> str:
    """Return the folder name of a scope: another one for each, and none that a project has."""
    from urllib.parse import quote

    name = _SCOPE + quote(scope, safe="", errors="surrogatepass")
    if len(name) <= _LONGEST_SCOPE:
        return name
    digest = sha256_hex(scope.encode("utf-8", "surrogatepass"))
    return f"{name[: _LONGEST_SCOPE - 33]}{_SCOPE}{digest[:32]}"


def is_scope_folder(folder: str) -> bool:
    """Whether a folder is that of a scope, by its name."""
    return os.path.basename(folder).startswith(_SCOPE)


def default_session_dir(
    profile: Profile, cwd: str | os.PathLike[str], storage: SessionStorage
) -> str:
    """Return the folder for a new session of this project: an existing one, else the agent's.

    Living omp gives projects under home and the temporary folder names of its own, and at its start
    renames folders of the older spelling. So the living name comes first: nothing is then moved
    while it is open. Raises PersistenceError if it cannot tell which folders are there.
    """
    folders = session_folders(profile, cwd)
    if profile.finds_home_relative_folders and profile.session_dir is None:
        living = os.path.join(profile.sessions_dir, encode_cwd_home_relative(cwd))
        folders = list(dict.fromkeys((living, *folders)))
    if len(folders) > 1:
        try:
            present = set(storage.list_dirs(profile.sessions_dir))
        except OSError as error:
            raise PersistenceError.from_os_error(profile.sessions_dir, error) from error
        for folder in folders:
            if folder in present:
                return folder
    return folders[0]


def list_session_folders(profile: Profile, storage: SessionStorage) -> list[str]:
    """Every folder that holds sessions of this profile, whatever their project. Raises OSError."""
    if profile.session_dir is not None:
        return [profile.session_dir] if storage.exists(profile.session_dir) else []
    return storage.list_dirs(profile.sessions_dir)


def other_places(profile: Profile, session_file: str, storage: SessionStorage) -> Iterator[str]:
    """List other paths in the profile where a session of a project's folder may be now."""
    folder, name = os.path.split(session_file)
    if os.path.dirname(folder) != profile.sessions_dir:
        return
    try:
        others = storage.list_dirs(profile.sessions_dir)
    except OSError:
        return
    for other in others:
        if other != folder:
            yield os.path.join(other, name)


def session_file_name(timestamp_iso: str, session_id: str) -> str:
    """Return ``2026-02-16T10-20-30-000Z_<id>.jsonl``; the id can't lead to another folder."""
    stamp = _SEPARATORS.sub("-", timestamp_iso).replace(".", "-")
    return f"{_UNSAFE_IN_NAME.sub('-', stamp)}_{_UNSAFE_IN_NAME.sub('-', session_id)}.jsonl"


def parse_session_file_name(name: str) -> tuple[str, str] | None:
    """Return the ISO time and the id in a session's file name; None for any other name."""
    found = _FILE_NAME.fullmatch(os.path.basename(name))
    if found is None:
        return None
    day, hour, minute, second, fraction, zone, session_id = found.groups()
    stamp = f"{day}T{hour}:{minute}:{second}{'.' + fraction if fraction else ''}{zone}"
    return stamp, session_id


def resolve_cwd(cwd: str | os.PathLike[str]) -> str:
    """Normalize a folder, existing or not: absolute, links followed, no trailing slash."""
    text = os.fspath(cwd)
    try:
        return os.path.realpath(_absolute(text)) if not _is_windows_path(text) else _absolute(text)
    except (OSError, ValueError):  # a NUL in a recorded cwd
        return text


def same_cwd(a: str | os.PathLike[str], b: str | os.PathLike[str]) -> bool:
    """Whether both paths name the same folder (trailing slashes, dots and links apart)."""
    first, second = os.fspath(a), os.fspath(b)
    return first == second or resolve_cwd(first) == resolve_cwd(second)


def belongs_to(cwd: str | os.PathLike[str]) -> Callable[[str], bool]:
    """A test of whether a header's cwd is this project's. One without a cwd goes by its folder."""
    project = resolve_cwd(cwd)
    verdicts: dict[str, bool] = {"": True, project: True}

    def belongs(header_cwd: str) -> bool:
        verdict = verdicts.get(header_cwd)
        if verdict is None:
            verdict = verdicts[header_cwd] = resolve_cwd(header_cwd) == project
        return verdict

    return belongs


def draft_path(session_file: str | os.PathLike[str]) -> str:
    """Return the path of the hidden draft of a session."""
    folder, name = os.path.split(os.fspath(session_file))
    return os.path.join(folder, f".{name}{DRAFT_SUFFIX}")


def session_of_draft(draft: str | os.PathLike[str]) -> str | None:
    """Return the session file of a draft; None if the path is not a draft's."""
    folder, name = os.path.split(os.fspath(draft))
    if not name.startswith(".") or not name.endswith(SESSION_SUFFIX + DRAFT_SUFFIX):
        return None
    return os.path.join(folder, name[1 : -len(DRAFT_SUFFIX)])


def artifacts_dir(session_file: str | os.PathLike[str]) -> str:
    """Return the session's artifact folder: its path without ``.jsonl``.

    A session of any other name gets ``.artifacts`` appended, since the folder can not have the
    name of the file.
    """
    path = os.fspath(session_file)
    if path.endswith(SESSION_SUFFIX):
        return path[: -len(SESSION_SUFFIX)]
    return path + ".artifacts"


def _absolute(path: str) -> str:
    if _is_windows_path(path):
        return path.rstrip("\\/") or path
    absolute = os.path.abspath(path)
    # POSIX keeps two leading slashes apart from one; no agent does.
    return absolute[1:] if absolute.startswith("//") else absolute


def _is_windows_path(path: str) -> bool:
    """Whether this is an absolute path of Windows, met on another system (in a moved session)."""
    return os.sep == "/" and path[:1] != "/" and _WINDOWS_ABSOLUTE.match(path) is not None


def _relative(path: str, root: str) -> str | None:
    """``path`` relative to ``root``, "" for root itself, None if it is not below.

    A name that starts with two dots counts as outside, because omp's own test does so and the
    folders must meet.
    """
    if path == root:
        return ""
    below = path.removeprefix(root.rstrip("/\\") + os.sep)
    if below == path or below.startswith(".."):
        return None
    return below


def _temp_root() -> str:
    for name in ("TMPDIR", "TMP", "TEMP"):
        value = os.environ.get(name)
        if value:
            return value
    return "/tmp"
