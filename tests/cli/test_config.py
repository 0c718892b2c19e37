"""``sessiontree config`` as a user types it."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Machine


def _file(machine: Machine) -> Path:
    return machine.home / ".config" / "sessiontree" / "config.toml"


def test_settings_are_shown_with_where_they_come_from(machine: Machine) -> None:
    assert machine.run("config", "set", "theme", "nord").code == 0
    rows = {row["setting"]: row for row in machine.run("config", "--json", EDITOR="ed").json}
    assert rows["theme"] == {
        "setting": "theme",
        "value": "nord",
        "from": "config.toml",
        "default": "auto",
    }
    assert (rows["editor"]["value"], rows["editor"]["from"]) == ("ed", "EDITOR")
    assert (rows["attempts"]["value"], rows["attempts"]["from"]) == (None, "default")
    shown = machine.run("config").out
    assert "config.toml" in shown
    assert "attempts" in shown


def test_get_set_unset_and_path(machine: Machine) -> None:
    assert machine.run("config", "path").out.strip() == str(_file(machine))
    assert machine.run("config", "get", "attempts").out == "4\n"
    assert machine.run("config", "get", "model").code == 1
    machine.run("config", "set", "attempts", "2")
    assert machine.run("config", "get", "attempts").out == "2\n"
    assert machine.run("config", "unset", "attempts").out == "attempts removed\n"
    assert machine.run("config", "get", "attempts").out == "4\n"


def test_what_is_no_setting_can_be_removed(machine: Machine) -> None:
    _file(machine).parent.mkdir(parents=True, exist_ok=True)
    _file(machine).write_text('theme = "nord"\nbogus = 3\n')
    assert 'unknown setting "bogus"' in machine.run("config").err
    assert machine.run("config", "unset", "bogus").out == "bogus removed\n"
    assert _file(machine).read_text() == 'theme = "nord"\n'
    assert machine.run("config", "unset", "bogus").code == 2


def test_what_cannot_be_set_is_one_line(machine: Machine) -> None:
    wrong = machine.run("config", "set", "attempts", "many")
    assert (wrong.code, wrong.err) == (
        2,
        "attempts must be a whole number from 1 to 20, not many\n",
    )
    unknown = machine.run("config", "set", "thme", "nord")
    assert unknown.code == 2
    assert 'Unknown setting "thme" (did you mean "theme"?)' in unknown.err
    theme = machine.run("config", "set", "theme", "puce")
    assert theme.code == 2
    assert theme.err.startswith("theme must be one of auto, dark, light, ")
    assert not _file(machine).exists()


def test_a_variable_that_wins_is_named(machine: Machine) -> None:
    done = machine.run("config", "set", "theme", "nord", SESSIONTREE_THEME="light")
    assert "SESSIONTREE_THEME is set and wins: light" in done.err


def test_an_unknown_key_is_one_line_and_stops_nothing(machine: Machine) -> None:
    _file(machine).parent.mkdir(parents=True)
    _file(machine).write_text("colour = 1\n")
    done = machine.run("ls")
    assert done.code == 0
    assert done.err.splitlines()[0] == f'warning: {_file(machine)}: unknown setting "colour"'


def test_the_profile_of_the_file_is_the_commands_profile(machine: Machine) -> None:
    folder = machine.home / ".pi" / "agent" / "sessions" / "--project--"
    machine.session("0199a3f2c0de1234", "hello", "hi", folder=folder)
    machine.run("config", "set", "profile", "pi")
    assert "0199a3f2" in machine.run("ls", "--all").out
    assert "0199a3f2" not in machine.run("ls", "--all", "--profile", "sessiontree").out
    assert "0199a3f2" not in machine.run("ls", "--all", SESSIONTREE_PROFILE="sessiontree").out


def test_a_password_is_not_listed(machine: Machine) -> None:
    machine.run("config", "set", "store", "postgresql://anna:hunter22@db/agents")
    listed = machine.run("config").out
    assert "postgresql://anna:…@db/agents" in listed
    assert "hunter22" not in listed


def test_the_model_of_the_file_is_used_for_new_sessions(machine: Machine) -> None:
    machine.run("config", "set", "model", "offline")
    done = machine.run("-p", "/help")
    assert done.code == 0, done.err
    assert "offline agent" in done.out


def test_edit_opens_the_editor_and_checks_afterwards(machine: Machine, tmp_path: Path) -> None:
    editor = tmp_path / "an editor"
    editor.write_text('#!/bin/sh\necho "$2" > "$1"\necho "odd = 1" > "$2"\n')
    editor.chmod(0o755)
    said = tmp_path / "said"
    done = machine.run("config", "edit", VISUAL=f"'{editor}' '{said}'")
    assert said.read_text().strip() == str(_file(machine))
    assert done.code == 1
    assert 'unknown setting "odd"' in done.err
