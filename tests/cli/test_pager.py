"""``show`` and ``tree`` on a terminal: pages, Markdown, and words that stay whole."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from tests.cli.conftest import Machine, assistant, user

LONG = [f"prompt {number}" if number % 2 == 0 else f"answer {number}" for number in range(40)]
SGR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that keeps what it was given in ``<its name>.seen``."""
    program = tmp_path / "my pager"
    program.write_text(
        '#!/bin/sh\ncat > "$0.seen"\necho "LESS=$LESS args=$*" >> "$0.seen"\necho paged\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def seen(pager: Path) -> str:
    return pager.with_name(f"{pager.name}.seen").read_text()


def test_a_long_session_goes_through_the_users_pager(machine: Machine, pager: Path) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    result = machine.on_terminal("show", PAGER=f"'{pager}' --option")
    assert (result.code, result.out) == (0, "paged\n")
    text = seen(pager)
    assert all(said in text for said in LONG)
    assert "LESS=FRX args=--option" in text
    assert "\x1b[1m" in text, "colours reach the pager"


def test_a_session_that_fits_the_screen_starts_no_pager(machine: Machine, pager: Path) -> None:
    machine.session("0199a3f2c0de1234", "short", "indeed")
    result = machine.on_terminal("show", PAGER=f"'{pager}'")
    assert "indeed" in result.out
    assert not pager.with_name(f"{pager.name}.seen").exists()


def test_into_a_pipe_nothing_is_paged(machine: Machine, pager: Path) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    result = machine.run("show", PAGER=f"'{pager}'")
    assert "answer 39" in result.out
    assert not pager.with_name(f"{pager.name}.seen").exists()


def test_our_own_variable_comes_first_and_cat_means_none(machine: Machine, pager: Path) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    result = machine.on_terminal("show", SESSIONTREE_PAGER="cat", PAGER=f"'{pager}'")
    assert "answer 39" in result.out
    assert not pager.with_name(f"{pager.name}.seen").exists()


@pytest.mark.parametrize("spelled", ["", "no-such-pager", "un'closed"])
def test_a_pager_that_cannot_run_costs_nothing(machine: Machine, spelled: str) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    result = machine.on_terminal("show", PAGER=spelled)
    assert result.code == 0
    assert "answer 39" in result.out


def test_quitting_the_pager_ends_the_command_quietly(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", *(text + " " + "word " * 2000 for text in LONG))
    result = machine.on_terminal("show", PAGER="head -n 1")
    assert result.code == 0
    assert "Traceback" not in result.out
    assert len(result.out.splitlines()) == 1


def test_warnings_come_after_the_pages(machine: Machine, pager: Path) -> None:
    path = machine.session("0199a3f2c0de1234", *LONG)
    with path.open("a") as file:
        file.write("{torn\n")
    result = machine.on_terminal("show", PAGER=f"'{pager}'")
    assert result.out.startswith("paged\n")
    assert "warning:" in result.out
    assert "warning:" not in seen(pager)


def test_less_shows_a_page_and_takes_its_keys(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    # less may draw nothing for a Ctrl-C, and may miss a key that is pressed right after it
    keys = [("\x1b[K", "\x03"), *[("", "q")] * 4]
    result = machine.on_terminal("show", replies=keys, PAGER="less")
    assert result.code == 0, "Ctrl-C belongs to less, and q ends it"
    assert "prompt 0" in result.out
    assert "answer 39" not in result.out


def test_tree_is_paged_too(machine: Machine, pager: Path) -> None:
    machine.session("0199a3f2c0de1234", *LONG)
    assert machine.on_terminal("tree", PAGER=f"'{pager}'").out == "paged\n"
    assert "answer 39" in seen(pager)


ANSWER = """\
## Plan

1. **First** `run()` the tests, which takes a moment, and then look at whatever failed in them.
2. Then *mend* it.

```python
def run():
    return 1
```

| file | lines |
|---|---:|
| a.py | 12 |
"""


def test_answers_are_rendered_and_prompts_are_shown_as_typed(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", entries=[user("is **this** bold?"), assistant(ANSWER)])
    shown = machine.on_terminal("show", columns=60).out
    plain = SGR.sub("", shown)
    assert "is **this** bold?" in plain
    assert "**First**" not in plain
    assert "```" not in plain
    assert "\x1b[1mFirst" in shown
    assert " def run():" in plain
    assert "a.py  12" in re.sub(" +", lambda found: found[0][:2], plain)
    lines = plain.splitlines()
    at = next(number for number, line in enumerate(lines) if "First run()" in line)
    assert lines[at].startswith("1. ")
    assert lines[at + 1].startswith("   "), "a wrapped item hangs"
    assert all(len(line) <= 60 for line in lines[at : at + 2])


def test_markdown_stays_source_without_colours_or_a_terminal(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", entries=[user("plan?"), assistant(ANSWER)])
    assert "**First**" in machine.on_terminal("show", NO_COLOR="1").out
    assert "**First**" in machine.run("show").out


def test_markdown_of_a_session_sends_nothing_to_the_terminal(machine: Machine) -> None:
    evil = "\x1b]0;owned\x07 **b\x1b[2Jold** [go](javascript:x) \u202edesrever `\x9b31m`"
    machine.session("0199a3f2c0de1234", entries=[user("x"), assistant(evil)])
    shown = SGR.sub("", machine.on_terminal("show").out)
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\u202e" not in shown
    assert "javascript:x" in shown, "an address is never hidden"
