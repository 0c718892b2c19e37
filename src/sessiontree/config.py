"""The user's settings: ``config.toml``, and the environment variables that win over it.

Owns the table of settings, their file, and changing it without touching the rest of its text. Only
the program reads settings; the library does what its caller says.

A setting has one of three origins: its own environment variable, the file, or the default, in this
order. Settings that lower layers read from the environment (folders, the store, the pager) take
effect through `in_force`, which sets their variables while the program runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sessiontree.errors import SessionTreeError

if TYPE_CHECKING:
    from sessiontree.runtime.settings import RuntimeSettings

CONFIG_VARIABLE = "SESSIONTREE_CONFIG_DIR"
FILE_NAME = "config.toml"
_MAX_BYTES = 1 << 20
_NEW_FILE = "# Sessiontree's settings. `sessiontree config` lists them all.\n\n"

Kind = Literal["text", "flag", "number"]
Value = str | bool | int


class ConfigError(SessionTreeError):
    """A setting can't be read or changed; the message names it, and its file."""


class Setting(msgspec.Struct, frozen=True):
    """One thing the user can set."""

    key: str
    about: str
    kind: Kind = "text"
    default: str = ""
    """The default, in words."""
    variable: str | None = None
    """The environment variable that wins over the file."""
    general: tuple[str, ...] = ()
    """Variables of all programs, which count if neither the file nor ``variable`` says anything."""
    choices: Callable[[], tuple[str, ...]] = tuple
    limits: tuple[int, int] = (0, 0)

    def check(self, value: object) -> Value:
        """The value, if it is one that the setting can have. Raises ConfigError."""
        match self.kind:
            case "text" if isinstance(value, str) and value.strip() and value.isprintable():
                choices = self.choices()
                if choices and value not in choices:
                    raise ConfigError(f"{self.key} must be one of {', '.join(choices)}")
                return value
            case "flag" if isinstance(value, bool):
                return value
            case "number" if isinstance(value, int) and not isinstance(value, bool):
                if self.limits[0] <= value <= self.limits[1]:
                    return value
            case _:
                pass
        raise ConfigError(f"{self.key} must be {self.expects}")

    @property
    def expects(self) -> str:
        match self.kind:
            case "text":
                return 'a text, such as "…"'
            case "flag":
                return "true or false"
            case "number":
                return "a whole number from {} to {}".format(*self.limits)

    def parse(self, text: str) -> Value:
        """The value that a person typed. Raises ConfigError."""
        if self.kind == "flag":
            return self.check(_FLAGS.get(text.casefold(), text))
        if self.kind == "number":
            return self.check(int(text) if text.isdecimal() and text.isascii() else text)
        return self.check(text)


_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _thinking_levels() -> tuple[str, ...]:
    from sessiontree.runtime.models import THINKING_LEVELS

    return THINKING_LEVELS


def _profiles() -> tuple[str, ...]:
    from sessiontree.profiles import PROFILE_NAMES

    return PROFILE_NAMES


SETTINGS: Mapping[str, Setting] = {
    setting.key: setting
    for setting in (
        Setting(
            "theme",
            "colours: dark, light, auto, or a theme of Textual such as nord",
            default="auto",
            variable="SESSIONTREE_THEME",
        ),
        Setting(
            "slow_line",
            "show fewer rows, so that keys cost little: on, off, auto (over ssh)",
            default="auto",
            variable="SESSIONTREE_SLOW_LINE",
            choices=lambda: ("auto", "on", "off"),
        ),
        Setting("model", "the model of new sessions, as --model takes it"),
        Setting(
            "thinking",
            "how much the model thinks in new sessions",
            default="medium",
            choices=_thinking_levels,
        ),
        Setting(
            "compaction",
            "summarize older messages when the context is nearly full",
            "flag",
            default="true",
        ),
        Setting(
            "attempts",
            "how often a failing model is asked before its error is shown",
            "number",
            default="4",
            limits=(1, 20),
        ),
        Setting(
            "editor",
            "the program that Ctrl+G opens for a prompt",
            variable="SESSIONTREE_EDITOR",
            general=("VISUAL", "EDITOR"),
        ),
        Setting(
            "pager",
            "the program that shows long output",
            default="less",
            variable="SESSIONTREE_PAGER",
            general=("PAGER",),
        ),
        Setting(
            "hooks",
            "run hooks.py and the hooks of installed packages",
            "flag",
            default="true",
        ),
        Setting(
            "profile",
            "whose sessions are used",
            default="sessiontree",
            variable="SESSIONTREE_PROFILE",
            choices=_profiles,
        ),
        Setting(
            "store",
            "the store that sessions are in, instead of files",
            variable="SESSIONTREE_STORE",
        ),
        Setting(
            "keep_dir",
            "the folder of the copies that keep makes",
            variable="SESSIONTREE_KEEP_DIR",
        ),
        Setting(
            "cache_dir",
            "the folder of the catalogue and the search index",
            variable="SESSIONTREE_CACHE_DIR",
        ),
    )
}


def find_setting(key: str) -> Setting:
    """The setting of this name. Raises ConfigError, which names the nearest one."""
    found = SETTINGS.get(key)
    if found is None:
        raise ConfigError(f'unknown setting "{key}"{_near(key)}')
    return found


def _near(key: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, SETTINGS, n=1)
    return f' (did you mean "{close[0]}"?)' if close else ""


class Config(msgspec.Struct, frozen=True):
    """The settings in force: what the file says, under what the environment says."""

    path: str
    in_file: Mapping[str, Value] = msgspec.field(default_factory=dict)
    environ: Mapping[str, str] = msgspec.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    """The problems of the file, one line each."""
    unknown: tuple[str, ...] = ()
    """The names in the file that no setting has."""

    def find(self, key: str) -> tuple[Value | None, str]:
        """A setting's value, None if unset, and its origin: a variable, the file, the default."""
        setting = SETTINGS[key]
        if setting.variable is not None and setting.variable in self.environ:
            return self.environ[setting.variable], setting.variable
        if key in self.in_file:
            return self.in_file[key], FILE_NAME
        for name in setting.general:
            if self.environ.get(name):
                return self.environ[name], name
        return None, "default"

    def text(self, key: str) -> str | None:
        """A setting that is a text; None if it is not set."""
        value, _ = self.find(key)
        return value if isinstance(value, str) and value else None

    def number(self, key: str) -> int:
        """A setting that is a number."""
        value, _ = self.find(key)
        return value if isinstance(value, int) else int(SETTINGS[key].default)

    def flag(self, key: str) -> bool:
        """A setting that is yes or no."""
        value, _ = self.find(key)
        return value if isinstance(value, bool) else SETTINGS[key].default == "true"

    def for_runtime(self) -> RuntimeSettings:
        """The settings that a live session needs."""
        from sessiontree.core.compaction import CompactionSettings
        from sessiontree.runtime.settings import RuntimeSettings

        return RuntimeSettings(
            default_thinking=self.text("thinking"),
            compaction=CompactionSettings(enabled=self.flag("compaction")),
        )


def config_dir(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> str:
    """The folder of the settings: ``SESSIONTREE_CONFIG_DIR``, else where this system has them."""
    env = os.environ if environ is None else environ
    override = env.get(CONFIG_VARIABLE)
    if override:
        return os.path.abspath(os.path.expanduser(override))
    given = env.get("XDG_CONFIG_HOME", "")
    # The XDG rules: a path that is not absolute counts as none.
    if os.path.isabs(given):
        return os.path.join(given, "sessiontree")
    if platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/sessiontree")
    if platform == "win32":
        base = env.get("APPDATA") or os.path.expanduser("~/AppData/Roaming")
        return os.path.join(base, "sessiontree")
    return os.path.expanduser("~/.config/sessiontree")


def load_config(environ: Mapping[str, str] | None = None) -> Config:
    """Load the settings of this user. Never fails: problems are in ``warnings``."""
    env = dict(os.environ if environ is None else environ)
    path = os.path.join(config_dir(env), FILE_NAME)
    try:
        text = _read(path)
    except FileNotFoundError:
        return Config(path, environ=env)
    except (OSError, UnicodeDecodeError) as error:
        return Config(path, environ=env, warnings=(f"{path}: {_word(error)}",))
    return _parse(path, text, env)


def _parse(path: str, text: str, environ: Mapping[str, str]) -> Config:
    import tomllib

    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Config(path, environ=environ, warnings=(f"{path}: {error}",))
    values: dict[str, Value] = {}
    warnings = []
    for key, value in table.items():
        try:
            values[key] = find_setting(key).check(value)
        except ConfigError as error:
            warnings.append(f"{path}: {error}")
    unknown = tuple(key for key in table if key not in SETTINGS)
    return Config(path, values, environ, tuple(warnings), unknown)


def _read(path: str) -> str:
    from sessiontree.storage.file import FileSessionStorage

    data = FileSessionStorage().read_prefix(path, _MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data.decode("utf-8")


def _word(error: OSError | UnicodeDecodeError) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not UTF-8"


@contextlib.contextmanager
def in_force(config: Config, environ: MutableMapping[str, str] | None = None) -> Iterator[None]:
    """Set environment variables from the file, except those that are set already."""
    env = os.environ if environ is None else environ
    added = {
        setting.variable: str(config.in_file[key])
        for key, setting in SETTINGS.items()
        if setting.variable and key in config.in_file and setting.variable not in env
    }
    env.update(added)
    try:
        yield
    finally:
        for name in added:
            env.pop(name, None)


# -- changing the file ---------------------------------------------------------------------------


def save_setting(path: str, key: str, value: Value | None) -> None:
    """Set a setting in the file, or remove it (None); comments and all other lines stay.

    Raises ConfigError if the file is not TOML or spells the setting in a way that only its author
    can change, and OSError.
    """
    from sessiontree.storage.locks import hold_folder

    checked = None if value is None else find_setting(key).check(value)
    path = os.path.realpath(path)  # many keep it in a repository of their own, with a link here
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with hold_folder(folder):  # another window may be changing another setting
        _save_held(path, key, checked)


def _save_held(path: str, key: str, value: Value | None) -> None:
    from sessiontree.storage.file import FileSessionStorage

    try:
        before = _read(path)
    except FileNotFoundError:
        before = ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: {_word(error)}") from error
    after = _change(before, key, value)
    wanted = {name: one for name, one in _table(path, before).items() if name != key}
    if value is not None:
        wanted[key] = value
    try:
        is_right = _table(path, after) == wanted
    except ConfigError:
        is_right = False
    if not is_right:
        raise ConfigError(f"{path}: {key} can't be changed here; edit the file")
    if after != before:
        FileSessionStorage().write_atomic(path, after.encode("utf-8"))


def _table(path: str, text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: {error}") from error


_SIMPLE_VALUE = r"""(?:"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*'|[\w.+-]+)"""


def _change(text: str, key: str, value: Value | None) -> str:
    """The text with one setting changed, if the setting has a line of its own."""
    name = re.escape(key)
    line = re.compile(
        rf"""^([ \t]*(?:{name}|"{name}"|'{name}')[ \t]*=[ \t]*){_SIMPLE_VALUE}"""
        r"([ \t]*(?:#[^\r\n]*)?)(\r?\n|$)",
        re.MULTILINE,
    )
    if value is None:
        return line.sub("", text, count=1)
    spelled = _spell(value)
    changed, count = line.subn(lambda found: found[1] + spelled + found[2] + found[3], text, 1)
    if count:
        return changed
    added = f"{key} = {spelled}\n"
    if not text.strip():
        return (text or _NEW_FILE) + added
    table = re.search(r"^[ \t]*\[", text, re.MULTILINE)
    if table is not None:  # what follows the head of a table belongs to it
        return text[: table.start()] + added + text[table.start() :]
    return text + ("" if text.endswith("\n") else "\n") + added


def _spell(value: Value) -> str:
    """The value as TOML spells it; its basic strings are JSON's."""
    if isinstance(value, bool):
        return "true" if value else "false"
    import json

    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)
