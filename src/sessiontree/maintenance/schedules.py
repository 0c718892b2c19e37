"""Have ``sessiontree keep`` run by itself: systemd, launchd, cron, or a hook of Claude Code.

Each schedule is described first (``plan``): which file is written and which commands run, so that a
person can be asked. ``install`` and ``uninstall`` do just that. A file that is not ours, or that
cannot be understood, is left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sessiontree.discovery.adapters.places import claude_projects_dir
from sessiontree.errors import SessionTreeError
from sessiontree.storage.file import FileSessionStorage

Kind = Literal["systemd", "launchd", "cron", "hook"]
KINDS: tuple[Kind, ...] = ("systemd", "launchd", "cron", "hook")
_NAME = "sessiontree-keep"
_LABEL = "dev.sessiontree.keep"
_NO_CRONTAB = re.compile(r"no crontab|no such file", re.IGNORECASE)
"""Messages of crontab programs for a user without a crontab, with exit code 1."""
_MARK = "# sessiontree keep"
_TIMEOUT_S = 20

Run = Callable[[Sequence[str], str | None], tuple[int, str]]


class ScheduleError(SessionTreeError):
    """A schedule could not be installed or removed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps that install or remove a schedule."""

    kind: Kind
    files: dict[str, str | None]
    """The new content of each file; None removes it."""
    commands: list[list[str]]
    """The commands to run afterwards (when removing: before)."""
    text: str
    """The effect of the schedule, in one line."""

    def lines(self) -> list[str]:
        """The steps in words, a line each."""
        made = [
            f"{'Write' if content is not None else 'Remove'} {path}"
            for path, content in self.files.items()
        ]
        return [*made, *(f"Run {shlex.join(command)}" for command in self.commands), self.text]


def plan_install(kind: Kind, program: Sequence[str]) -> Plan:
    """Plan an installation; ``program`` is the command line of ``keep``."""
    match kind:
        case "systemd":
            return _plan_systemd(program)
        case "launchd":
            return _plan_launchd(program)
        case "cron":
            line = f"17 * * * * {shlex.join(program)} {_MARK}".replace("%", "\\%")
            return Plan(kind, {}, [["crontab", "-"]], f"Each hour, cron runs: {line}")
        case "hook":
            path = _claude_settings()
            return Plan(
                kind,
                {path: _with_hook(path, shlex.join(program))},
                [],
                "At the end of each session, Claude Code runs it.",
            )


def plan_uninstall(kind: Kind) -> Plan:
    """Plan a removal."""
    match kind:
        case "systemd":
            folder = _systemd_dir()
            files = [os.path.join(folder, f"{_NAME}{end}") for end in (".timer", ".service")]
            command = ["systemctl", "--user", "disable", "--now", f"{_NAME}.timer"]
            return Plan(kind, dict.fromkeys(files), [command], "It does not run any more.")
        case "launchd":
            path = _launchd_path()
            return Plan(
                kind, {path: None}, [["launchctl", "unload", path]], "It does not run any more."
            )
        case "cron":
            return Plan(kind, {}, [["crontab", "-"]], f"Lines of cron with “{_MARK}” are removed.")
        case "hook":
            path = _claude_settings()
            content = _without_hook(path) or "{}\n"
            return Plan(kind, {path: content}, [], "Claude Code does not run it any more.")


def find_installed() -> list[Kind]:
    """The schedules that are installed now."""
    found: list[Kind] = []
    if os.path.exists(os.path.join(_systemd_dir(), f"{_NAME}.timer")):
        found.append("systemd")
    if os.path.exists(_launchd_path()):
        found.append("launchd")
    with contextlib.suppress(ScheduleError):  # a machine without cron has nothing installed there
        if any(_MARK in line for line in _crontab_lines(run_command)):
            found.append("cron")
    path = _claude_settings()
    if os.path.exists(path) and any(map(_is_ours, _hook_commands(_read_settings(path)))):
        found.append("hook")
    return found


def run_command(command: Sequence[str], text: str | None = None) -> tuple[int, str]:
    """Run a command of the system; return its exit code and output."""
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, str(error)
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


def install(plan: Plan, program: Sequence[str], run: Run = run_command) -> None:
    """Do what the plan says. Raises ScheduleError, OSError."""
    if plan.kind == "cron":
        line = f"17 * * * * {shlex.join(program)} {_MARK}".replace("%", "\\%")
        kept = [each for each in _crontab_lines(run) if _MARK not in each]
        _write_crontab([*kept, line], run)
        return
    _write_files(plan)
    for command in plan.commands:
        _require(command, run(command, None))


def uninstall(plan: Plan, run: Run = run_command) -> None:
    """Do what the plan says. Raises ScheduleError, OSError."""
    if plan.kind == "cron":
        _write_crontab([each for each in _crontab_lines(run) if _MARK not in each], run)
        return
    for command in plan.commands:
        run(command, None)  # it may not be running: then there is nothing to stop
    _write_files(plan)


def _write_files(plan: Plan) -> None:
    storage = FileSessionStorage()
    for path, content in plan.files.items():
        if content is None:
            storage.unlink(path)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            storage.write_atomic(path, content.encode())


def _require(command: Sequence[str], result: tuple[int, str]) -> None:
    code, said = result
    if code != 0:
        reason = said.strip().splitlines()[-1:] or [f"exit code {code}"]
        raise ScheduleError(f"{shlex.join(command)} failed: {reason[0]}")


# -- systemd and launchd ---------------------------------------------------------------------------


def _systemd_dir() -> str:
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(base, "systemd", "user")


def _plan_systemd(program: Sequence[str]) -> Plan:
    start = " ".join(f'"{_escape_unit(word)}"' for word in program)
    service = (
        "[Unit]\nDescription=Keep copies of coding-agent sessions\n\n"
        f"[Service]\nType=oneshot\nNice=10\nExecStart={start}\n"
    )
    timer = (
        "[Unit]\nDescription=Keep copies of coding-agent sessions each hour\n\n"
        "[Timer]\nOnBootSec=5min\nOnUnitActiveSec=1h\nPersistent=true\n\n"
        "[Install]\nWantedBy=timers.target\n"
    )
    folder = _systemd_dir()
    files = {
        os.path.join(folder, f"{_NAME}.service"): service,
        os.path.join(folder, f"{_NAME}.timer"): timer,
    }
    commands = [
        ["systemctl", "--user", "daemon-reload"],
        ["systemctl", "--user", "enable", "--now", f"{_NAME}.timer"],
    ]
    return Plan("systemd", dict(files), commands, "Each hour, systemd runs it.")


def _escape_unit(word: str) -> str:
    """Quote a word for ExecStart, where % and $ mean something."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return escaped.replace("%", "%%").replace("$", "$$")


def _launchd_path() -> str:
    return os.path.expanduser(f"~/Library/LaunchAgents/{_LABEL}.plist")


def _plan_launchd(program: Sequence[str]) -> Plan:
    import plistlib

    content = plistlib.dumps(
        {
            "Label": _LABEL,
            "ProgramArguments": list(program),
            "StartInterval": 3600,
            "RunAtLoad": True,
            "LowPriorityIO": True,
        }
    ).decode()
    path = _launchd_path()
    commands = [["launchctl", "load", "-w", path]]
    return Plan("launchd", {path: content}, commands, "Each hour, launchd runs it.")


# -- cron ------------------------------------------------------------------------------------------


def _crontab_lines(run: Run) -> list[str]:
    """The lines of the crontab, none if there is no crontab.

    Raises ScheduleError if it can't be read: writing it would then lose what others put there.
    """
    command = ["crontab", "-l"]
    code, said = run(command, None)
    if code == 0:
        return said.splitlines()
    if code != 1 or not _NO_CRONTAB.search(said):
        _require(command, (code, said))
    return []


def _write_crontab(lines: Sequence[str], run: Run) -> None:
    text = "".join(f"{line}\n" for line in lines)
    _require(["crontab", "-"], run(["crontab", "-"], text))


# -- a hook of Claude Code -------------------------------------------------------------------------


def _claude_settings() -> str:
    path = os.path.join(os.path.dirname(claude_projects_dir()), "settings.json")
    return os.path.realpath(path)  # it may be a link into somebody's dotfiles


def _read_settings(path: str) -> dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, OSError) as error:
        raise ScheduleError(f"{path} cannot be read ({error}); nothing was changed") from None
    if not isinstance(found, dict):
        raise ScheduleError(f"{path} is not a settings file; nothing was changed")
    return found


def _groups(settings: dict[str, Any]) -> list[Any]:
    hooks = settings.get("hooks")
    groups = hooks.get("SessionEnd") if isinstance(hooks, dict) else None
    return groups if isinstance(groups, list) else []


def _hook_commands(settings: dict[str, Any]) -> list[str]:
    found = []
    for group in _groups(settings):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for hook in hooks if isinstance(hooks, list) else []:
            command = hook.get("command") if isinstance(hook, dict) else None
            found += [command] if isinstance(command, str) else []
    return found


def _is_ours(command: str) -> bool:
    return command.endswith(_MARK)


def _with_hook(path: str, command: str) -> str:
    settings = json.loads(_without_hook(path) or "{}")
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict) or not isinstance(hooks.setdefault("SessionEnd", []), list):
        raise ScheduleError(f"{path} has hooks of an unknown form; nothing was changed")
    entry = {"type": "command", "command": f"{command} {_MARK}"}
    hooks["SessionEnd"].append({"hooks": [entry]})
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _without_hook(path: str) -> str | None:
    """The settings without our hook; None if there are none at all."""
    settings = _read_settings(path)
    hooks = settings.get("hooks")
    if isinstance(hooks, dict) and isinstance(hooks.get("SessionEnd"), list):
        rest = [group for group in hooks["SessionEnd"] if not _is_our_group(group)]
        hooks["SessionEnd"] = rest
        if not rest:
            del hooks["SessionEnd"]
        if not hooks:
            del settings["hooks"]
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n" if settings else None


def _is_our_group(group: object) -> bool:
    hooks = group.get("hooks") if isinstance(group, dict) else None
    return (
        isinstance(hooks, list)
        and len(hooks) == 1
        and isinstance(hooks[0], dict)
        and isinstance(hooks[0].get("command"), str)
        and _is_ours(hooks[0]["command"])
    )
