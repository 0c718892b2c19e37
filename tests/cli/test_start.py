"""Starting the program: which session, which words, which question; and what is said at the end.

The screens stand in for themselves: what they are given is written down instead of shown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import PROGRAM, Machine, Result, assistant, user

A, B, C = "0199a3f2c0de1234", "0199b000c0de5678", "0199c111c0de9abc"

_SCREENS = """
import json, os, sys, types

def note(**facts):
    with open(os.environ["SEEN"], "a") as file:
        file.write(json.dumps(facts) + "\\n")

def run_chat(manager, scope, *, config, model, work_dir, initial_prompt, notice, spell_resume):
    note(screen="chat", file=manager.session_file, cwd=manager.cwd, name=manager.session_name,
         entries=len(manager.get_entries()), persisted=manager.is_persisted,
         profile=scope.profile.name,
         session_dir=scope.session_dir, model=model, prompt=initial_prompt, notice=notice,
         parent=manager.header.get("parentSession"))
    if os.environ.get("TYPED"):
        manager.append_message({"role": "user", "content": os.environ["TYPED"], "timestamp": 1})
    manager.close()
    return types.SimpleNamespace(session_file=manager.session_file, session_id=manager.session_id,
        session_name=manager.session_name, cwd=manager.cwd, warning=None,
        exit_code=int(os.environ.get("CODE", "0")))

def pick_session(scope, *, candidates=None, query=""):
    note(screen="picker", cwd=scope.cwd, candidates=[info.id for info in candidates or []])
    picked = os.environ.get("PICKED")
    if picked == "ctrl-c":
        raise SystemExit(0)
    if picked and os.environ.get("WHERE") is not None:
        return types.SimpleNamespace(path=picked, where=os.environ["WHERE"] or None)
    return picked or None

for name, function in (("app", run_chat), ("pickers.session_picker", pick_session)):
    module = types.ModuleType("sessiontree.tui." + name)
    setattr(module, function.__name__, function)
    sys.modules["sessiontree.tui." + name] = module
"""


class Screens:
    """A machine whose screens only note what they are given."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        folder = machine.root / "screens"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_SCREENS)
        self.seen_file = machine.root / "seen"
        machine.env |= {"PYTHONPATH": str(folder), "SEEN": str(self.seen_file)}

    def start(
        self, *args: str, replies: Any = (), cwd: Path | None = None, **env: str
    ) -> tuple[Result, list[dict[str, Any]]]:
        self.seen_file.write_text("")
        result = self.machine.on_terminal(*args, replies=replies, cwd=cwd, columns=200, **env)
        return result, [json.loads(line) for line in self.seen_file.read_text().splitlines()]


@pytest.fixture
def screens(machine: Machine) -> Screens:
    machine.env["NO_COLOR"] = "1"
    return Screens(machine)


def _files(machine: Machine) -> list[str]:
    return sorted(path.name for path in machine.agent_dir.rglob("*.jsonl*"))


# -- new, continue, none -------------------------------------------------------------------------


def test_without_anything_a_new_session_begins(machine: Machine, screens: Screens) -> None:
    result, (chat,) = screens.start("fix the bug", "--model", "acme/m1", "--name", "Bugs")
    assert result.code == 0
    assert chat["prompt"] == "fix the bug"
    assert (chat["model"], chat["name"], chat["cwd"]) == ("acme/m1", "Bugs", str(machine.project))
    assert chat["persisted"] is True
    assert chat["file"].startswith(str(machine.agent_dir / "sessions"))


def test_leaving_a_session_that_holds_something_says_how_to_come_back(
    machine: Machine, screens: Screens
) -> None:
    result, (chat,) = screens.start(TYPED="never answered")
    session_id = Path(chat["file"]).stem.split("_")[1]
    assert result.lines[-1] == f"Resume with: sessiontree --resume {session_id}"
    resumed, (again,) = screens.start("--resume", session_id)
    assert 'Resuming "never answered" · just now' in resumed.out
    assert again["entries"] >= 1
    nothing, _ = screens.start()
    assert "Resume with" not in nothing.out


def test_a_program_that_is_not_on_the_path_is_named_by_its_own(
    machine: Machine, screens: Screens
) -> None:
    source = machine.session(A, "hello", "hi")
    beside = Path(PROGRAM).parent.parent
    near, _ = screens.start("-r", str(source), cwd=beside, PATH="/usr/bin:/bin")
    assert near.lines[-1].endswith(f" && {PROGRAM} --resume {A}")
    machine.session(B, "hello", "hi", cwd=beside)
    near, _ = screens.start("-r", B, cwd=beside, PATH="/usr/bin:/bin")
    assert near.lines[-1] == f"Resume with: bin/sessiontree --resume {B}"


def test_continuing_takes_the_newest_session_of_this_project(
    machine: Machine, screens: Screens
) -> None:
    path = machine.session(A, "older", "hi", title="Fix \x1b[2Jlogin", age_s=7200)
    machine.session(B, "in another project", "hi", cwd=machine.home)
    result, (chat,) = screens.start("-c")
    assert chat["file"] == str(path)
    assert result.lines[0] == f'Resuming "Fix [2Jlogin" · 2h ago · {machine.project}'
    assert result.lines[-1] == f"Resume with: sessiontree --resume {A}"
    assert "\x1b" not in result.out


def test_continuing_without_a_session_begins_one_and_says_so(screens: Screens) -> None:
    result, (chat,) = screens.start("--continue")
    assert result.lines[0] == "No session to continue here, so this is a new one"
    assert chat["entries"] == 0


def test_continuing_in_a_moved_project_names_its_old_folder(
    machine: Machine, screens: Screens
) -> None:
    gone = machine.home / "before" / machine.project.name
    machine.session(A, "from before the move", "hi", cwd=gone)
    result, _ = screens.start("-c")
    assert "No session to continue here" in result.lines[0]
    assert f"sessiontree relink {gone}" in result.out


def test_a_prompt_that_was_never_answered_is_continued(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "typed before the crash")
    draft = path.parent / f".{path.name}.draft"
    path.rename(draft)
    _, (chat,) = screens.start("-c")
    assert (chat["file"], chat["entries"]) == (str(path), 1)


def test_no_session_keeps_nothing(machine: Machine, screens: Screens) -> None:
    result, (chat,) = screens.start("--no-session", "hello", TYPED="secret")
    assert (chat["file"], chat["persisted"], chat["prompt"]) == (None, False, "hello")
    assert "Resume with" not in result.out
    assert not machine.agent_dir.exists()


def test_the_exit_code_of_the_screen_is_the_programs(screens: Screens) -> None:
    result, _ = screens.start(CODE="3")
    assert result.code == 3


# -- resume --------------------------------------------------------------------------------------


def test_resuming_by_the_beginning_of_an_id(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "hello", "hi", title="Login", age_s=300)
    machine.session(B, "other", "hi")
    result, (chat,) = screens.start("-r", A[:7], "go on")
    assert (chat["file"], chat["prompt"]) == (str(path), "go on")
    assert result.lines[0] == f'Resuming "Login" · 5m ago · {machine.project}'


def test_resuming_by_name(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "hello", "hi", title="Login work")
    _, (chat,) = screens.start("--resume", "Login work")
    assert chat["file"] == str(path)


def test_resuming_by_path_needs_no_question(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "hello", "hi", cwd=machine.home)
    result, (chat,) = screens.start("-r", str(path))
    assert (chat["file"], chat["cwd"]) == (str(path), str(machine.home))
    assert result.lines[-1] == f"Resume with: cd {machine.home} && sessiontree --resume {A}"


def test_a_path_that_is_not_there_becomes_a_session_and_this_is_said(
    machine: Machine, screens: Screens
) -> None:
    result, (chat,) = screens.start("-r", "./mine.jsonl")
    assert chat["file"] == str(machine.project / "mine.jsonl")
    assert result.lines[0] == f"New session at {machine.project}/mine.jsonl"


def test_a_file_outside_the_store_is_come_back_to_by_its_path(
    machine: Machine, screens: Screens
) -> None:
    folder = machine.project / "handed over"
    path = machine.session(A, "hello", "hi", folder=folder)
    relative = f"./{folder.name}/{path.name}"
    result, _ = screens.start("-r", relative)
    assert result.lines[-1] == f"Resume with: sessiontree --resume '{relative}'"
    absolute, _ = screens.start("-r", str(path))
    assert absolute.lines[-1] == f"Resume with: sessiontree --resume '{path}'"


def test_a_copy_is_come_back_to_by_its_path_and_not_by_the_originals_id(
    machine: Machine, screens: Screens
) -> None:
    original = machine.session(A, "hello", "hi")
    copy = machine.project / "copy.jsonl"
    copy.write_bytes(original.read_bytes())
    result, (chat,) = screens.start("-r", "copy.jsonl")
    assert chat["file"] == str(copy)
    assert result.lines[-1] == "Resume with: sessiontree --resume copy.jsonl"
    beside = original.with_name("2026-02-16T10-20-31-000Z_copied.jsonl")
    beside.write_bytes(original.read_bytes())
    again, _ = screens.start("-r", str(beside))
    assert again.lines[-1] == f"Resume with: sessiontree --resume {beside}"


def test_a_session_of_another_agent_is_come_back_to_in_its_profile(
    machine: Machine, screens: Screens
) -> None:
    sessions = machine.home / ".pi" / "agent" / "sessions"
    folder = sessions / f"--{str(machine.project)[1:].replace('/', '-')}--"
    path = machine.session(A, "hello", "hi", folder=folder)
    result, (chat,) = screens.start("-r", str(path))
    assert chat["file"] == str(path)
    assert result.lines[-1] == f"Resume with: sessiontree --profile pi --resume {A}"


def test_a_file_of_another_kind_is_refused_untouched(machine: Machine, screens: Screens) -> None:
    readme = machine.project / "README.md"
    readme.write_text("# mine\n")
    result, seen = screens.start("-r", "./README.md")
    assert (result.code, seen) == (1, [])
    assert "the file was not modified" in result.out
    assert readme.read_text() == "# mine\n"


def test_an_id_that_nothing_has(machine: Machine, screens: Screens) -> None:
    result, seen = screens.start("-r", "ffff")
    assert (result.code, result.out, seen) == (1, 'Session "ffff" not found.\n', [])
    assert machine.run("-r", "ffff").err == 'Session "ffff" not found.\n'


def test_the_project_comes_before_all_others(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "here", "hi")
    machine.session(B, "there", "hi", cwd=machine.home)
    _, (chat,) = screens.start("-r", "0199")
    assert chat["file"] == str(path)


def test_several_matches_without_a_terminal_are_listed(machine: Machine) -> None:
    machine.session(A, "one", "hi", title="First", age_s=3600)
    machine.session(B, "two", "hi")
    result = machine.run("--resume", "0199")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        'Session "0199" is ambiguous: 2 sessions match.',
        f"  {B}    just now  two  {machine.project}",
        f"  {A}      1h ago  First  {machine.project}",
    ]


def test_several_matches_on_a_terminal_open_the_picker_on_just_those(
    machine: Machine, screens: Screens
) -> None:
    one = machine.session(A, "one", "hi", age_s=60)
    machine.session(B, "two", "hi")
    machine.session("0200aaaa", "three", "hi")
    _, (picker, chat) = screens.start("-r", "0199", PICKED=str(one))
    assert picker["candidates"] == [B, A]
    assert chat["file"] == str(one)
    cancelled, (only,) = screens.start("-r", "0199")
    assert (cancelled.code, only["screen"]) == (0, "picker")
    assert "No session selected" in cancelled.out


# -- which session it is -------------------------------------------------------------------------


def _named_late(machine: Machine, **where: Any) -> Path:
    """A session whose name stands far behind the beginning of its file, as pi writes it."""
    name = {"type": "session_info", "name": "Named late"}
    return machine.session(
        A, entries=[user("first prompt"), assistant("long " * 2000), name], **where
    )


def _compacted(machine: Machine, **where: Any) -> Path:
    cut = {"type": "compaction", "summary": "…", "firstKeptEntryId": "00000001", "tokensBefore": 9}
    return machine.session(
        A,
        entries=[
            user("first prompt"),
            assistant("long " * 2000),
            {**cut, "shortSummary": "Its first title"},
            {**cut, "shortSummary": "Its latest title"},
        ],
        **where,
    )


@pytest.mark.parametrize(
    ("make", "title"), [(_named_late, "Named late"), (_compacted, "Its latest title")]
)
def test_a_session_is_told_by_its_title_wherever_that_stands(
    machine: Machine, screens: Screens, make: Any, title: str
) -> None:
    make(machine)
    resumed, _ = screens.start("-r", A[:8])
    assert resumed.lines[0] == f'Resuming "{title}" · just now · {machine.project}'
    forked, _ = screens.start("--fork", A)
    assert forked.lines[0] == f'Forked "{title}" · just now · {machine.project}'
    asked, _ = screens.start("-r", A[:8], replies=[(QUESTION, "c\n")], cwd=machine.home)
    assert f'"{title}" · just now · {machine.project}\n' in asked.out
    assert f'Forked "{title}" · just now' in asked.out


# -- a match in another project ------------------------------------------------------------------

QUESTION = "Open there / Copy here / Cancel [o/c/N]?"
COPY_QUESTION = "Fork into current directory? [y/N]"


def test_a_session_of_another_project_is_copied_here(machine: Machine, screens: Screens) -> None:
    source = machine.session(A, "hello", "hi", cwd=machine.home, title="Elsewhere", age_s=60)
    before = source.read_bytes()
    result, seen = screens.start("-r", A[:8], replies=[(QUESTION, "c\n")])
    chat = seen[-1]
    assert result.code == 0
    assert '"Elsewhere" · 1m ago · ~\n' in result.out
    assert f"c copy it into {machine.project}: the original stays\n{QUESTION} c\n" in result.out
    assert chat["cwd"] == str(machine.project)
    assert chat["file"] != str(source)
    assert chat["entries"] == 2
    assert chat["parent"] in (A, str(source))
    assert source.read_bytes() == before


def test_a_session_of_another_project_is_opened_there(machine: Machine, screens: Screens) -> None:
    source = machine.session(A, "hello", "hi", cwd=machine.home)
    result, seen = screens.start("-r", A[:8], replies=[(QUESTION, "o\n")])
    assert result.code == 0
    assert "o open it in ~: the agent works there\n" in result.out
    assert (seen[-1]["file"], seen[-1]["cwd"]) == (str(source), str(machine.home))


def test_a_picked_session_of_another_project_goes_where_the_picker_was_told(
    machine: Machine, screens: Screens
) -> None:
    source = machine.session(A, "hello", "hi", cwd=machine.home, title="Elsewhere", age_s=60)
    before = source.read_bytes()
    there, (_, chat) = screens.start("-r", PICKED=str(source), WHERE="there")
    assert (chat["file"], chat["cwd"]) == (str(source), str(machine.home))
    assert 'Resuming "Elsewhere" · 1m ago · ~' in there.out
    copied, (_, chat) = screens.start("-r", PICKED=str(source), WHERE="here")
    assert chat["file"] != str(source)
    assert (chat["cwd"], chat["entries"]) == (str(machine.project), 2)
    assert 'Forked "Elsewhere" · 1m ago · ~' in copied.out
    neither, (_picker,) = screens.start("-r", PICKED=str(source), WHERE="")
    assert neither.code == 1
    assert f"Open it there: cd {machine.home} && sessiontree --resume {A}" in neither.out
    assert source.read_bytes() == before


def test_a_picked_session_without_a_folder_and_not_copied_can_be_moved_here(
    machine: Machine, screens: Screens
) -> None:
    source = machine.session(A, "hello", "hi", cwd=machine.root / "gone")
    result, (_picker,) = screens.start("-r", PICKED=str(source), WHERE="")
    assert result.code == 1
    assert f"Move the session here: sessiontree mv {A} ." in result.out


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04", "maybe\n"])
def test_any_other_answer_leaves_everything_alone(
    machine: Machine, screens: Screens, answer: str
) -> None:
    machine.session(A, "hello", "hi", cwd=machine.home)
    before = _files(machine)
    result, seen = screens.start("-r", A[:8], replies=[(QUESTION, answer)])
    assert (result.code, seen) == (1, [])
    assert _elsewhere(machine) in result.lines
    assert _files(machine) == before


def test_without_a_terminal_nobody_is_asked(machine: Machine) -> None:
    machine.session(A, "hello", "hi", cwd=machine.home)
    result = machine.run("-r", A[:8])
    assert (result.code, result.out) == (1, "")
    assert result.err == f"{_elsewhere(machine)}\n"


def _elsewhere(machine: Machine) -> str:
    """The refusal for a session of the home folder, with the command that opens it there."""
    return (
        f'Session "{A[:8]}" is in another project ({machine.home}). '
        f"Open it there: cd {machine.home} && sessiontree --resume {A[:8]}"
    )


def _behead(path: Path) -> Path:
    path.write_bytes(path.read_bytes().split(b"\n", 1)[1])
    return path


def test_a_session_that_lost_its_header_is_not_taken_into_this_project(
    machine: Machine, screens: Screens
) -> None:
    lost = _behead(machine.session(A, "hello", "hi", cwd=machine.home))
    before = lost.read_bytes()
    refusal = (
        f'Can\'t tell the project of session "{A[:8]}": its header is damaged. '
        "Repair it: sessiontree doctor --repair; "
        f"or open it: sessiontree --resume {lost}"
    )
    piped = machine.run("-r", A[:8])
    assert (piped.code, piped.out, piped.err) == (1, "", refusal + "\n")
    result, seen = screens.start("-r", A[:8])
    assert (result.code, seen, result.lines) == (1, [], [refusal])
    assert lost.read_bytes() == before
    opened, (chat,) = screens.start("-r", str(lost))
    assert (chat["file"], chat["entries"]) == (str(lost), 2)
    assert opened.lines[0] == 'Resuming "hello" · just now · project unknown'


def test_a_session_that_lost_its_header_is_found_by_the_folder_of_its_project(
    machine: Machine, screens: Screens
) -> None:
    lost = _behead(machine.session(A, "hello", "hi"))
    result, (chat,) = screens.start("-r", A[:8])
    assert (chat["file"], chat["cwd"]) == (str(lost), str(machine.project))
    assert result.lines[0] == f'Resuming "hello" · just now · {machine.project}'


def test_a_session_elsewhere_that_names_no_project_is_asked_about(
    machine: Machine, screens: Screens
) -> None:
    machine.session(A, "hello", "hi", cwd=machine.home, header={"cwd": None})
    result = machine.run("-r", A[:8])
    what = f'Session "{A[:8]}" is in another project'
    assert result.err == f"{what} (which one, its header does not say).\n"
    _, (chat,) = screens.start("-r", A[:8], replies=[(COPY_QUESTION, "y\n")])
    assert chat["cwd"] == str(machine.project)


def test_a_session_whose_folder_is_gone_can_be_forked_or_brought_here(
    machine: Machine, screens: Screens
) -> None:
    gone = machine.root / "gone"
    path = machine.session(A, "hello", "hi", cwd=gone)
    refused = machine.run("-r", str(path))
    assert refused.code == 1
    assert refused.err == (
        f"The folder of this session no longer exists ({gone}). "
        f"Move the session here: sessiontree mv {A} .\n"
    )
    _, (chat,) = screens.start("-r", str(path), replies=[(COPY_QUESTION, "y\n")])
    assert chat["cwd"] == str(machine.project)
    assert machine.run("mv", A, ".").code == 0
    assert A in machine.run("ls").out


def test_with_a_session_dir_other_projects_are_not_looked_at(machine: Machine) -> None:
    machine.session(A, "hello", "hi")
    empty = machine.root / "empty"
    result = machine.run("-r", A[:8], "--session-dir", str(empty))
    assert (result.code, result.err) == (1, f'Session "{A[:8]}" not found.\n')


# -- choosing from a list ------------------------------------------------------------------------


def test_resume_alone_without_sessions(machine: Machine, screens: Screens) -> None:
    result, seen = screens.start("-r")
    assert (result.code, seen) == (0, [])
    assert result.lines[0] == "No sessions found"
    piped = machine.run("--resume")
    assert (piped.code, piped.out) == (0, "No sessions found\n")


def test_resume_alone_opens_what_was_picked(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "hello", "hi")
    _, (picker, chat) = screens.start("-r", PICKED=str(path))
    assert (picker["candidates"], chat["file"]) == ([], str(path))


def test_resume_alone_in_a_project_without_sessions_shows_the_others(
    machine: Machine, screens: Screens
) -> None:
    elsewhere = machine.session(A, "hello", "hi", cwd=machine.home)
    _, (picker, chat) = screens.start("-r", PICKED=str(elsewhere), WHERE="there")
    assert (picker["screen"], chat["file"]) == ("picker", str(elsewhere))
    piped = machine.run("--resume")
    assert (piped.code, piped.out) == (0, "No sessions found\n")


def test_resume_alone_finds_the_sessions_of_another_agent(
    machine: Machine, screens: Screens
) -> None:
    machine.session(A, "hello", "hi", folder=machine.home / ".pi/agent/sessions/--elsewhere--")
    _, (picker,) = screens.start("-r")
    assert picker["screen"] == "picker"


def test_resume_alone_when_no_session_holds_a_message(machine: Machine, screens: Screens) -> None:
    machine.session(A, cwd=machine.home)
    result, seen = screens.start("-r")
    assert (result.lines[0], seen) == ("No sessions found", [])


def test_a_cancelled_picker(machine: Machine, screens: Screens) -> None:
    machine.session(A, "hello", "hi")
    result, (picker,) = screens.start("--resume")
    assert (result.code, picker["screen"]) == (0, "picker")
    assert result.lines[0] == "No session selected"


def test_ctrl_c_in_the_picker_ends_the_program_well(machine: Machine, screens: Screens) -> None:
    machine.session(A, "hello", "hi")
    result, (picker,) = screens.start("-r", PICKED="ctrl-c")
    assert (result.code, result.out, picker["screen"]) == (0, "", "picker")


def test_choosing_needs_a_terminal(machine: Machine) -> None:
    machine.session(A, "hello", "hi")
    result = machine.run("-r")
    assert result.code == 2
    assert result.err.startswith("Choosing a session needs a terminal. Name one with --resume ID")


# -- fork ----------------------------------------------------------------------------------------


def test_a_fork_is_a_new_session_here(machine: Machine, screens: Screens) -> None:
    source = machine.session(A, "hello", "hi", cwd=machine.home, title="Source")
    result, (chat,) = screens.start("--fork", A[:8])
    assert result.lines[0] == 'Forked "Source" · just now · ~'
    assert chat["cwd"] == str(machine.project)
    assert chat["file"] != str(source)
    assert machine.run("--fork", "ffff").err == 'Session "ffff" not found.\n'


# -- other folders and profiles ------------------------------------------------------------------


def test_an_explicit_session_dir_is_used_flat_and_told_at_the_end(
    machine: Machine, screens: Screens
) -> None:
    folder = machine.root / "my sessions"
    result, (chat,) = screens.start("--session-dir", str(folder), TYPED="hello")
    assert Path(chat["file"]).parent == folder
    assert f"sessiontree --session-dir '{folder}' --resume" in result.lines[-1]
    assert str(folder) in (machine.agent_dir / "session-dirs").read_text()


def test_another_profile_is_told_at_the_end(machine: Machine, screens: Screens) -> None:
    result, (chat,) = screens.start("--profile", "pi", TYPED="hello")
    assert chat["file"].startswith(str(machine.home / ".pi"))
    assert "sessiontree --profile pi --resume" in result.lines[-1]


def test_damage_found_on_opening_is_told(machine: Machine, screens: Screens) -> None:
    path = machine.session(A, "hello", "hi")
    path.write_text(path.read_text() + "damaged\n")
    result, _ = screens.start("-c")
    assert any(line.startswith("warning: line 4: skipped") for line in result.lines)


def test_without_the_screens_package_the_way_to_it_is_told(machine: Machine) -> None:
    folder = machine.root / "without"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\nfor name in ('textual', 'rich'):\n    sys.modules[name] = None\n"
    )
    result = machine.on_terminal(PYTHONPATH=str(folder), NO_COLOR="1")
    assert result.code == 1
    assert 'pip install "sessiontree[tui]"' in result.out
