"""Schedules: told before they are made, removed without a trace, and nobody else's touched."""

from __future__ import annotations

import json
import plistlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from sessiontree.maintenance.schedules import (
    KINDS,
    Kind,
    ScheduleError,
    find_installed,
    install,
    plan_install,
    plan_uninstall,
    uninstall,
)

PROGRAM = ["/opt/my python/bin/python", "-m", "sessiontree", "keep", "--quiet"]


class Machine:
    """Commands of the system, and a crontab."""

    def __init__(self) -> None:
        self.crontab: str | None = None
        self.ran: list[list[str]] = []
        self.fails = False

    def __call__(self, command: Sequence[str], text: str | None) -> tuple[int, str]:
        self.ran.append(list(command))
        if self.fails:
            return 1, "Failed to connect to bus\n"
        if command == ["crontab", "-l"]:
            return (0, self.crontab) if self.crontab is not None else (1, "no crontab for you")
        if command == ["crontab", "-"]:
            self.crontab = text
        return 0, ""


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine()
    monkeypatch.setattr("sessiontree.maintenance.schedules.run_command", made)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_installed_is_found_and_removed(home: Path, machine: Machine, kind: Kind) -> None:
    assert find_installed() == []
    plan = plan_install(kind, PROGRAM)
    assert not list(home.rglob("*keep*")), "a plan changes nothing"
    assert len(plan.lines()) >= 2
    install(plan, PROGRAM, machine)
    install(plan_install(kind, PROGRAM), PROGRAM, machine)
    assert find_installed() == [kind]
    uninstall(plan_uninstall(kind), machine)
    assert find_installed() == []
    assert not list(home.rglob("*keep*"))


def test_systemd_gets_a_service_with_quoted_words(home: Path, machine: Machine) -> None:
    install(plan_install("systemd", ["/a b/%h$x", "keep"]), PROGRAM, machine)
    service = (home / ".config/systemd/user/sessiontree-keep.service").read_text()
    assert 'ExecStart="/a b/%%h$$x" "keep"\n' in service
    assert machine.ran[-1] == ["systemctl", "--user", "enable", "--now", "sessiontree-keep.timer"]


def test_a_command_that_fails_is_told(machine: Machine) -> None:
    machine.fails = True
    with pytest.raises(ScheduleError, match="Failed to connect to bus"):
        install(plan_install("systemd", PROGRAM), PROGRAM, machine)


def test_launchd_gets_a_property_list(home: Path, machine: Machine) -> None:
    install(plan_install("launchd", PROGRAM), PROGRAM, machine)
    (file,) = (home / "Library/LaunchAgents").iterdir()
    assert plistlib.loads(file.read_bytes())["ProgramArguments"] == PROGRAM


def test_cron_keeps_the_lines_of_others(machine: Machine) -> None:
    machine.crontab = "# mine\n5 4 * * * backup\n"
    install(plan_install("cron", PROGRAM), PROGRAM, machine)
    assert machine.crontab.startswith("# mine\n5 4 * * * backup\n17 * * * * '/opt/my python")
    uninstall(plan_uninstall("cron"), machine)
    assert machine.crontab == "# mine\n5 4 * * * backup\n"


def test_a_crontab_that_cannot_be_read_is_not_written_anew(machine: Machine) -> None:
    machine.crontab = "5 4 * * * backup\n"
    machine.fails = True
    with pytest.raises(ScheduleError, match="crontab -l failed: Failed to connect"):
        install(plan_install("cron", PROGRAM), PROGRAM, machine)
    with pytest.raises(ScheduleError, match="crontab -l failed: Failed to connect"):
        uninstall(plan_uninstall("cron"), machine)
    assert ["crontab", "-"] not in machine.ran
    assert machine.crontab == "5 4 * * * backup\n"
    assert find_installed() == []


@pytest.fixture
def settings(home: Path) -> Path:
    (home / ".claude").mkdir()
    return home / ".claude" / "settings.json"


def test_the_hook_leaves_the_other_settings_alone(settings: Path, machine: Machine) -> None:
    mine = {
        "model": "opus",
        "hooks": {
            "SessionEnd": [{"hooks": [{"type": "command", "command": "say bye"}]}],
            "Stop": [{"hooks": []}],
        },
    }
    settings.write_text(json.dumps(mine))
    install(plan_install("hook", PROGRAM), PROGRAM, machine)
    made = json.loads(settings.read_text())
    assert made["hooks"]["SessionEnd"][0] == mine["hooks"]["SessionEnd"][0]  # type: ignore[index]
    assert made["hooks"]["SessionEnd"][1]["hooks"][0]["command"].startswith("'/opt/my python")
    uninstall(plan_uninstall("hook"), machine)
    assert json.loads(settings.read_text()) == mine


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 7}', '{"hooks": {"SessionEnd": {}}}'])
def test_settings_that_cannot_be_understood_are_left_alone(settings: Path, text: str) -> None:
    settings.write_text(text)
    with pytest.raises(ScheduleError, match="nothing was changed"):
        plan_install("hook", PROGRAM)
    assert settings.read_text() == text


def test_a_link_to_the_settings_stays_one(settings: Path, tmp_path: Path, machine: Machine) -> None:
    real = tmp_path / "dotfiles.json"
    real.write_text("{}")
    settings.symlink_to(real)
    install(plan_install("hook", PROGRAM), PROGRAM, machine)
    assert settings.is_symlink()
    assert "SessionEnd" in real.read_text()
