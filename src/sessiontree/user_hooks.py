"""The user's hooks: their own functions, which the program calls around the actions of a session.

They come, in this order, from installed packages (entry points of the group ``sessiontree.hooks``),
from ``hooks.py`` beside ``config.toml``, and from ``.sessiontree/hooks.py`` in the project. In each
of them a function that has the name of an event handles that event, and one named ``listen`` hears
everything that agent and session tell.

A project's file may be a stranger's. It runs only while it has exactly the bytes that the user has
trusted for exactly this path, and what runs are the bytes that were compared. The user's own file
does not run if another user could have written it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from sessiontree.config import Config
from sessiontree.errors import SessionTreeError
from sessiontree.model import codec
from sessiontree.plugins import find_entry_points
from sessiontree.runtime.hooks import Hooks
from sessiontree.storage.file import FileSessionStorage
from sessiontree.storage.locks import hold_folder
from sessiontree.storage.regular import open_for_reading

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from sessiontree.runtime.agent_session import AgentSession

ENTRY_POINTS = "sessiontree.hooks"
LISTENER = "listen"
FILE_NAME = "hooks.py"
PROJECT_FILE = os.path.join(".sessiontree", FILE_NAME)
_TRUST_FILE = "trusted_hooks.json"
_MAX_BYTES = 1 << 20

Origin = Literal["package", "user", "project"]
State = Literal["runs", "off", "not trusted", "changed", "refused"]
Trusted = Mapping[str, str]
"""The path of a project's file → the SHA-256 of what the user has trusted there."""


class HooksError(SessionTreeError):
    """Hooks can't be read, run or trusted; the message names their file."""


@dataclass(frozen=True, slots=True)
class HookSource:
    """One place that hooks come from."""

    name: str
    """The path of the file, or the name of the package's entry point."""
    origin: Origin
    state: State
    reason: str = ""
    """The reason why it is refused."""
    code: bytes = b""
    point: EntryPoint | None = None

    def load(self) -> object:
        """Run the file, or import the package; what it defines. Raises what that raises."""
        if self.point is not None:
            return self.point.load()
        module = ModuleType(f"sessiontree_{self.origin}_hooks")
        module.__file__ = self.name
        # dataclasses and pickle look a class's module up by its name
        sys.modules[module.__name__] = module
        # As the text that the user was shown: a file may name an encoding of its own, in which a
        # comment holds code.
        text = self.code.decode("utf-8-sig")
        exec(compile(text, self.name, "exec"), module.__dict__)
        return module


@dataclass(slots=True)
class UserHooks:
    """The loaded hooks of one run of the program."""

    hooks: Hooks = field(default_factory=Hooks)
    notices: list[str] = field(default_factory=list)
    """Notices for the start: which hooks don't run, and what to do about it."""
    failures: list[str] = field(default_factory=list)
    """One line for each handler that failed, until somebody takes it."""
    _listeners: list[Callable[[Any], Any]] = field(default_factory=list)

    def attach(self, session: AgentSession) -> None:
        """Have the listeners hear this session."""
        for listener in self._listeners:
            session.subscribe(listener)

    def take_failures(self) -> list[str]:
        """Return the failures since the last time."""
        taken = self.failures.copy()
        self.failures.clear()
        return taken

    def add(self, source: HookSource) -> None:
        """Load a source and register its functions; what fails becomes a notice."""
        try:
            loaded = source.load()
            names = [name for name in dir(loaded) if name.startswith("session_")]
            handlers = [(name, getattr(loaded, name)) for name in names]
            listener = getattr(loaded, LISTENER, None)
        except (Exception, SystemExit) as error:  # a hook may raise anything
            self.notices.append(f"{source.name}: not loaded: {_describe(error)}")
            return
        for name, handler in handlers:
            if not callable(handler):
                continue
            try:
                self.hooks.on(name, self._watch(source, name, handler))
            except ValueError as error:
                self.notices.append(f"{source.name}: {error}")
        if callable(listener):
            self._listeners.append(self._watch(source, LISTENER, listener))

    def _watch(
        self, source: HookSource, name: str, function: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """Wrap the function, so that its failures are noted before they are raised."""

        async def call(value: Any) -> Any:
            try:
                answer = function(value)
                return await answer if inspect.isawaitable(answer) else answer
            except Exception as error:
                self.failures.append(f"{source.name}: {name} failed: {_describe(error)}")
                raise

        call.__module__, call.__qualname__ = source.name, name
        return call


def load_hooks(config: Config, project: str) -> UserHooks:
    """Load the hooks that run in this project. Never fails: see `UserHooks.notices`."""
    made = UserHooks()
    for source in find_hooks(config, project):
        match source.state:
            case "runs":
                made.add(source)
            case "not trusted":
                made.notices.append(
                    f"{source.name} does not run until you trust it: sessiontree hooks trust"
                )
            case "changed":
                made.notices.append(
                    f"{source.name} has changed since you trusted it and does not run: "
                    "sessiontree hooks trust"
                )
            case "refused":
                made.notices.append(f"{source.name} does not run: {source.reason}")
            case "off":
                pass
    return made


def find_hooks(config: Config, project: str) -> list[HookSource]:
    """The places that hooks come from here, in the order in which they run. Runs nothing."""
    is_on = config.flag("hooks")
    found = [
        HookSource(point.name, "package", "runs" if is_on else "off", point=point)
        for point in find_entry_points(ENTRY_POINTS)
    ]
    if config.path:
        found += _file_source(os.path.join(os.path.dirname(config.path), FILE_NAME), "user", is_on)
    path = project_file(project)
    trusted = _load_trusted(config)
    found += _file_source(path, "project", is_on, trusted)
    return found


def project_file(project: str) -> str:
    """The path of a project's hooks."""
    return os.path.join(os.path.realpath(project), PROJECT_FILE)


def read_project_file(project: str) -> bytes:
    """Read a project's hooks. Raises HooksError if it has none that could run."""
    path = project_file(project)
    try:
        return _read(path)
    except FileNotFoundError:
        raise HooksError(f"{path} does not exist") from None
    except OSError as error:
        raise HooksError(f"{path}: {error.strerror or error}") from error


def trust(config: Config, project: str, code: bytes) -> None:
    """Let this code run as the project's hooks. Raises HooksError, OSError."""
    with _holding(config):
        trusted = {**_load_trusted(config, is_strict=True), project_file(project): _digest(code)}
        _save_trusted(config, trusted)


def untrust(config: Config, project: str) -> bool:
    """Take the trust back; return whether there was any. Raises HooksError, OSError."""
    with _holding(config):
        trusted = dict(_load_trusted(config, is_strict=True))
        if trusted.pop(project_file(project), None) is None:
            return False
        _save_trusted(config, trusted)
        return True


# -- files ---------------------------------------------------------------------------------------


def _file_source(
    path: str, origin: Origin, is_on: bool, trusted: Trusted | None = None
) -> Iterator[HookSource]:
    try:
        code = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        yield HookSource(path, origin, "refused", error.strerror or str(error))
        return
    state: State = "runs" if is_on else "off"
    if is_on and trusted is not None and trusted.get(path) != _digest(code):
        state = "changed" if path in trusted else "not trusted"
    yield HookSource(path, origin, state, code=code)


def _read(path: str) -> bytes:
    with contextlib.closing(open_for_reading(path)) as file:
        found = os.fstat(file.fileno())
        if hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid()):
            raise OSError("it belongs to another user")
        if found.st_mode & stat.S_IWOTH:
            raise OSError(f"every user of this machine may write it; chmod o-w {path}")
        code = file.read(_MAX_BYTES + 1)
    if len(code) > _MAX_BYTES:
        raise OSError("it is longer than 1 MiB")
    return code


def _load_trusted(config: Config, *, is_strict: bool = False) -> Trusted:
    """The trusted files. A list that can't be read trusts nothing, and is not replaced."""
    if not config.path:
        return {}
    path = _trust_path(config)
    try:
        found = codec.decode(FileSessionStorage().read_prefix(path, _MAX_BYTES))
        if not isinstance(found, dict):
            raise ValueError("not an object")
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if is_strict:
            raise HooksError(f"{path}: {error}") from error
        return {}
    return {name: digest for name, digest in found.items() if isinstance(digest, str)}


@contextlib.contextmanager
def _holding(config: Config) -> Iterator[None]:
    """Lock the list, so that a change by another window at the same time is not lost."""
    folder = os.path.dirname(_trust_path(config))
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with hold_folder(folder):
        yield


def _save_trusted(config: Config, trusted: Trusted) -> None:
    path = _trust_path(config)
    text = codec.encode(dict(sorted(trusted.items())))
    FileSessionStorage().write_atomic(path, text + b"\n", private=True)


def _trust_path(config: Config) -> str:
    return os.path.join(os.path.dirname(config.path), _TRUST_FILE)


def _digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


def _describe(error: BaseException) -> str:
    where = f"line {error.lineno}: " if isinstance(error, SyntaxError) and error.lineno else ""
    words = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{where}{type(error).__name__}: {words}" if words else type(error).__name__


__all__ = [
    "HookSource",
    "HooksError",
    "UserHooks",
    "find_hooks",
    "load_hooks",
    "project_file",
    "read_project_file",
    "trust",
    "untrust",
]
