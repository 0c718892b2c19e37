"""The program as a whole: start-up, help, commands told from prompts, ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude

from sessiontree._version import __version__
from sessiontree.cli.program import _COMMANDS, start

from .conftest import PROGRAM, Machine

HEAVY = ("asyncio", "rich", "textual", "pydantic", "pydantic_ai", "importlib.metadata", "httpx")


CLAUDE = "11111111-1111-4111-8111-111111111111"


def _modules_after(machine: Machine, *args: str) -> set[str]:
    """What is in sys.modules when the real command ends."""
    code = (
        "import sys\nfrom sessiontree.cli.main import run\n"
        f"code = run({list(args)!r})\n"
        "sys.stderr.write('MODULES ' + ' '.join(sys.modules))\nsys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=machine.project, env=machine.env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stderr.partition("MODULES ")[2].split())


def test_the_version_is_told_without_importing_anything_for_it(machine: Machine) -> None:
    loaded = _modules_after(machine, "--version")
    assert not loaded & {*HEAVY, "click", "msgspec", "sqlite3", "json"}
    assert {name for name in loaded if name.startswith("sessiontree")} == {
        "sessiontree", "sessiontree.cli", "sessiontree.cli.main", "sessiontree._version",
    }  # fmt: skip


def test_a_listing_imports_nothing_heavy(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi")
    loaded = _modules_after(machine, "ls")
    assert "sessiontree.discovery.listing" in loaded
    assert not loaded & set(HEAVY)
    assert not any(name.startswith(("sessiontree.runtime", "sessiontree.tui")) for name in loaded)


# Each takes a millisecond or more of every command that loads it: OpenSSL, the generators of code
# and of documents, archives, what opens sessions, tables of characters.
SLOW = (
    "hashlib", "dataclasses", "shutil", "rich.cells", "sessiontree.stores", "sessiontree.session",
    "sessiontree.importers", "sessiontree.discovery.adapters.goose",
)  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "--all-agents"],
        ["search", "hello"],
        ["search", "hello", "--tools", "--json"],
    ],
    ids=" ".join,
)
def test_finding_sessions_of_all_agents_imports_nothing_slow(
    machine: Machine, words: list[str]
) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi", title="你好，世界 └ …")
    put_claude(machine.home, CLAUDE, claude_prompt("hello"), claude_answer("hi"))
    assert machine.run("keep").code == 0
    assert machine.run("search", "hello").code == 0
    machine.env["XDG_DATA_HOME"] = str(machine.home / "data")
    loaded = _modules_after(machine, *words)
    assert "sessiontree.discovery.adapters.claude_code" in loaded
    assert loaded & {*HEAVY, *SLOW} == set()


@pytest.mark.parametrize("has_thread", [False, True])
def test_what_others_tidy_up_when_the_program_ends_is_tidied_up(
    machine: Machine, has_thread: bool
) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi")
    (machine.home / "site").mkdir()
    (machine.home / "site" / "sitecustomize.py").write_text(
        "import atexit, threading\n"
        "atexit.register(print, 'tidied')\n"
        "def work():\n"
        "    threading.main_thread().join()\n"
        "    print('worked')\n" + "threading.Thread(target=work).start()\n" * has_thread
    )
    done = subprocess.run(
        [PROGRAM, "search", "walrus"],
        cwd=machine.project,
        env={**machine.env, "PYTHONPATH": str(machine.home / "site")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ends = ["worked", "tidied"] if has_thread else ["tidied"]
    assert done.stdout.splitlines() == ["Nothing found: no session has the word walrus", *ends]
    assert done.returncode == 1


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version(machine: Machine, option: str) -> None:
    result = machine.run(option)
    assert (result.code, result.out, result.err) == (0, f"sessiontree {__version__}\n", "")


def test_it_runs_as_a_module_too(machine: Machine) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sessiontree", "--version"],
        env=machine.env, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"sessiontree {__version__}\n"


def test_help_names_every_option_and_command(machine: Machine) -> None:
    result = machine.run("--help")
    assert result.code == 0
    for word in (
        "--continue", "--resume [ID|PATH]", "--fork ID|PATH", "--no-session", "--name NAME",
        "--model", "--print PROMPT", "--profile NAME", "--session-dir DIR", "--version", "--help",
        "Examples:",
    ):  # fmt: skip
        assert word in result.out
    for name, (_, text) in _COMMANDS.items():
        assert any(line.split()[:1] == [name] and text in line for line in result.lines)
    assert max(map(len, result.lines)) <= 80


@pytest.mark.parametrize("command", list(_COMMANDS))
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    # In this process: seventeen interpreters would say nothing more.
    start.main([command, "--help"], prog_name="sessiontree", standalone_mode=False)
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: sessiontree {command} ")
    described = start.get_command(None, command)  # type: ignore[arg-type]
    assert described is not None
    if isinstance(described, click.Group):  # it is about a database, whoever's sessions are in it
        assert all(each.help and name in shown for name, each in described.commands.items())
    else:
        assert "--profile" in shown
    assert described.short_help == _COMMANDS[command][1]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--wrong"], "No such option '--wrong'"),
        (["ls", "--wrong"], "See sessiontree ls --help"),
        (["ls", "-n", "many"], "'many' is not a whole number"),
        (
            ["search", "x", "--since", "soon"],
            "'soon' is not a day such as 2026-01-31, 7d or yesterday.",
        ),
        (
            ["usage", "--since", "2026-02-30"],
            "'2026-02-30' is not a day such as 2026-01-31, 7d or yesterday.",
        ),
        (["show", "a", "b"], "unexpected extra argument"),
        (["rm"], "Missing argument 'ID...'"),
        (["--profile", "nobody", "ls"], "'nobody' is not one of"),
        (["-c", "-r"], "--continue and --resume can't be combined"),
        (["--fork", "a", "--no-session"], "--fork and --no-session can't be combined"),
        (["-c", "ls"], '--continue does not go with the command "ls"'),
        (["-p", "one", "two"], "Give the prompt to -p or as an argument, not both"),
        (["lss"], 'No command "lss". Did you mean "sessiontree ls"?'),
        (["serach", "word"], 'Did you mean "sessiontree search"?'),
        (["list"], 'Did you mean "sessiontree ls"?'),
        (["resume"], 'Did you mean "sessiontree --resume"?'),
    ],
)
def test_what_is_not_understood_is_said_in_one_line(
    machine: Machine, args: list[str], words: str
) -> None:
    result = machine.run(*args)
    assert (result.code, result.out) == (2, "")
    assert words in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ["fix the bug"],
        ["hello"],
        ["--", "ls"],
        ["--", "lss"],
        ["fix", "the", "bug"],
        ["fix it", "--model", "x"],
    ],
)
def test_any_other_words_are_a_prompt(machine: Machine, args: list[str]) -> None:
    result = machine.run(*args)
    assert result.code == 2
    assert result.err == (
        'The interactive UI needs a terminal. For a one-off answer use: sessiontree -p "PROMPT"\n'
    )


def test_a_dumb_terminal_is_named_as_what_is_in_the_way(machine: Machine) -> None:
    result = machine.on_terminal("hello", TERM="dumb", columns=200)
    assert result.code == 2
    assert result.out == (
        "The interactive UI needs a terminal that can draw (TERM is dumb). "
        'For a one-off answer use: sessiontree -p "PROMPT"\n'
    )


def test_the_options_of_the_scope_may_stand_before_or_after_the_command(machine: Machine) -> None:
    elsewhere = machine.root / "elsewhere"
    machine.session("0199a3f2c0de1234", "hello", "hi", folder=elsewhere)
    before = machine.run("--session-dir", str(elsewhere), "ls")
    after = machine.run("ls", "--session-dir", str(elsewhere))
    assert "0199a3f2c0de1234" in before.out
    assert before.out == after.out


def test_a_reader_that_goes_away_is_no_error(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", *(f"line {n} " + "x" * 200 for n in range(2000)))
    process = subprocess.Popen(
        [PROGRAM, "show", "0199a3f2"],
        cwd=machine.project, env=machine.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert (process.wait(30), errors) == (0, b"")


def test_an_interrupt_ends_quietly(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi", cwd=machine.home)
    result = machine.on_terminal("-r", "0199a3f2", replies=[("[o/c/N]", "\x03")])
    assert result.code == 130
    assert "Traceback" not in result.out


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_do_no_harm(machine: Machine, closed: str) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi")
    done = subprocess.run(
        ["sh", "-c", f'"{PROGRAM}" ls --all {closed}'],
        cwd=machine.project, env=machine.env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_arguments_that_are_no_text_are_understood_as_well_as_can_be(machine: Machine) -> None:
    done = subprocess.run(
        [PROGRAM, "-p", b"read caf\xe9.txt", "--model", "offline", "--name", b"\xff name"],
        cwd=machine.project, env=machine.env, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert machine.run("ls", "--json").json[0]["title"] == "\ufffd name"
    missing = machine.run("show", "\udcff")
    assert (missing.code, missing.err) == (1, 'Session "\\udcff" not found.\n')


def test_a_folder_that_was_removed_is_told(machine: Machine) -> None:
    gone = machine.root / "gone"
    gone.mkdir()
    script = f'cd "{gone}" && rmdir "{gone}" && exec "{PROGRAM}" ls'
    done = subprocess.run(
        ["sh", "-c", script], env=machine.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "The current folder no longer exists. Change to another one first.\n"


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete"), ("zsh", "compdef"), ("fish", "complete")]
)
def test_completion_scripts_are_made_for_common_shells(
    machine: Machine, shell: str, word: str
) -> None:
    result = machine.run(_SESSIONTREE_COMPLETE=f"{shell}_source")
    assert result.code == 0
    assert word in result.out


def test_session_ids_are_completed_newest_first(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi", age_s=60)
    machine.session("0199b000c0de5678", "hello", "hi")
    machine.session("0200b000c0de5678", "hello", "hi", cwd=machine.home)
    answers = {
        words: machine.run(
            _SESSIONTREE_COMPLETE="bash_complete",
            COMP_WORDS=words,
            COMP_CWORD=str(words.count(" ")),
        ).out.split()
        for words in (
            "sessiontree show 0199",
            "sessiontree -r 0200",
            "sessiontree sh",
            "sessiontree rm x",
        )
    }
    assert answers == {
        "sessiontree show 0199": ["plain,0199b000c0de5678", "plain,0199a3f2c0de1234"],
        "sessiontree -r 0200": ["plain,0200b000c0de5678"],
        "sessiontree sh": ["plain,show"],
        "sessiontree rm x": [],
    }


def test_completed_ids_say_which_session_they_are(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello, you", "hi", age_s=60)
    machine.session("0199b000c0de5678", "hello", "hi", title="Fix\x1b the login", age_s=7200)
    answer = machine.run(
        _SESSIONTREE_COMPLETE="fish_complete", COMP_WORDS="sessiontree show", COMP_CWORD=""
    )
    assert answer.lines == [
        "plain,0199a3f2c0de1234\thello, you · 1m ago",
        "plain,0199b000c0de5678\tFix the login · 2h ago",
    ]
    script = machine.run(_SESSIONTREE_COMPLETE="fish_source").out
    assert 'string split --max 1 ","' in script, "a description may have commas"


def test_an_error_inside_is_one_line_and_told_whole_on_request(machine: Machine) -> None:
    machine.agent_dir.write_text("a file where a folder should be")
    result = machine.run("rm", "0199a3f2")
    assert result.code == 1
    assert "Traceback" not in result.err
    assert result.err.count("\n") == 1


def test_nothing_is_left_on_disk_by_commands_that_only_look(machine: Machine) -> None:
    machine.session("0199a3f2c0de1234", "hello", "hi")
    before = sorted((path, path.stat().st_mtime_ns) for path in machine.agent_dir.rglob("*"))
    for args in (
        ["ls"],
        ["show"],
        ["tree"],
        ["export"],
        ["usage"],
        ["doctor"],
        ["gc"],
        ["history"],
    ):
        assert machine.run(*args).code == 0, args
    assert (
        sorted((path, path.stat().st_mtime_ns) for path in machine.agent_dir.rglob("*")) == before
    )


def test_the_installed_command_is_the_one_tested() -> None:
    assert os.access(PROGRAM, os.X_OK)
    assert Path(PROGRAM).read_text().startswith("#!")


def test_a_complaint_ends_before_the_way_to_the_help(machine: Machine) -> None:
    result = machine.run("ls", "x")
    assert (result.code, result.out) == (2, "")
    assert result.err == "Got unexpected extra argument (x). See sessiontree ls --help\n"
    mistyped = machine.run("list")
    assert mistyped.err.endswith("? (As a prompt: sessiontree -- list) See sessiontree --help\n")
