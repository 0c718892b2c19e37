"""``export``, ``import`` and ``convert``."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from .conftest import Machine

A = "0199a3f2c0de1234"
_TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_markdown_goes_to_standard_output(machine: Machine) -> None:
    machine.session(A, "question", "answer", title="Login")
    result = machine.run("export", A)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("# Login\n")
    assert result.out.index("question") < result.out.index("answer")


def test_the_ending_of_the_file_chooses_the_format(machine: Machine) -> None:
    path = machine.session(A, "question", "answer")
    assert machine.run("export", A, "-o", "s.json").out == f"Wrote {machine.project}/s.json\n"
    exported = json.loads((machine.project / "s.json").read_text())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert (exported["header"], exported["entries"]) == (lines[0], lines[1:])
    assert machine.run("export", A, "-o", "s.md").code == 0
    assert (machine.project / "s.md").read_text().startswith("# Session")


@pytest.mark.parametrize(
    ("args", "name", "reason"),
    [
        ([], "s.pdf", "Can't export to s.pdf. Supported: .md, .html, .json, .zip (bundle)."),
        ([], "notes.v2", "Can't export to notes.v2. Supported: "),
        (["--bundle"], "s.md", "s.md: a bundle goes to a file that ends in .zip"),
        (["--bundle"], "s", "s: a bundle goes to a file that ends in .zip"),
        (["-f", "json"], "s.md", "s.md: JSON goes to a file that ends in .json"),
        (
            ["-f", "markdown"],
            "s.ZIP",
            "s.ZIP: Markdown goes to a file that ends in .md or .markdown",
        ),
    ],
)
def test_an_ending_that_means_something_else_is_refused(
    machine: Machine, args: list[str], name: str, reason: str
) -> None:
    machine.session(A, "question", "answer")
    result = machine.run("export", A, *args, "-o", name)
    assert result.code == 2
    assert result.err.startswith(reason)
    assert result.err.count("\n") == 1
    assert not (machine.project / name).exists()


@pytest.mark.parametrize(
    ("args", "name"), [([], "README"), ([], "S.MARKDOWN"), (["-f", "markdown"], "notes.txt")]
)
def test_a_name_that_means_nothing_else_gets_markdown(
    machine: Machine, args: list[str], name: str
) -> None:
    machine.session(A, "question", "answer", title="Login")
    assert machine.run("export", A, *args, "-o", name).code == 0
    assert (machine.project / name).read_text().startswith("# Login\n")


def test_a_file_is_replaced_only_by_force(machine: Machine) -> None:
    machine.session(A, "question", "answer")
    target = machine.project / "mine.md"
    target.write_text("mine")
    refused = machine.run("export", A, "-o", "mine.md")
    assert (refused.code, refused.err) == (
        1,
        "mine.md already exists. Use --force to overwrite it.\n",
    )
    assert target.read_text() == "mine"
    assert machine.run("export", A, "-o", "mine.md", "--force").code == 0
    assert "question" in target.read_text()


def test_a_folder_that_is_not_there_is_told(machine: Machine) -> None:
    machine.session(A, "question", "answer")
    result = machine.run("export", A, "-o", "no/such/s.md")
    assert (result.code, result.err) == (1, f"{machine.project}/no/such: no such folder\n")


@pytest.mark.parametrize("kind", ["markdown", "json"])
def test_secrets_are_replaced_on_request(machine: Machine, kind: str) -> None:
    machine.session(A, f"my token is {_TOKEN}", "noted")
    assert _TOKEN in machine.run("export", A, "-f", kind).out
    result = machine.run("export", A, "-f", kind, "--redact")
    assert _TOKEN not in result.out
    assert "Redacted 1 secret: github-token (1)" in result.err


def test_on_a_terminal_an_export_is_escaped_and_in_a_pipe_it_is_exact(machine: Machine) -> None:
    machine.session(A, "half \ud83d pair and \x1b[2J", "answer")
    shown = machine.on_terminal("export", A, "-f", "json")
    assert "\x1b" not in shown.out
    assert (
        json.loads(machine.run("export", A, "-f", "json").out)["entries"][0]["message"]["content"][
            0
        ]["text"]
        == "half \ud83d pair and \x1b[2J"
    )


def test_a_bundle_goes_out_and_comes_in(machine: Machine) -> None:
    machine.session(A, "question", "answer", title="Travels")
    assert machine.run("export", A, "--bundle", "-o", "s.zip").code == 0
    assert zipfile.is_zipfile(machine.project / "s.zip")
    other = machine.root / "other agent"
    taken = machine.run("import", "s.zip", SESSIONTREE_AGENT_DIR=str(other))
    assert taken.code == 0, taken.err
    assert f"Resume with: sessiontree --resume {A}" in taken.err
    assert "Travels" in machine.run("ls", SESSIONTREE_AGENT_DIR=str(other)).out


def _claude_session(machine: Machine, cwd: Path, session_id: str = "5f2c81d0-0000") -> Path:
    """A session of Claude Code's, of a prompt and an answer a second later."""
    folder = machine.home / ".claude" / "projects" / "-some-project"
    folder.mkdir(parents=True, exist_ok=True)
    said = {"user": "Add a price column", "assistant": [{"type": "text", "text": "Done."}]}
    records = [
        {
            "type": role,
            "uuid": f"{session_id}-{number}",
            "parentUuid": f"{session_id}-{number - 1}" if number else None,
            "sessionId": session_id,
            "cwd": str(cwd),
            "timestamp": f"2026-07-14T09:00:0{number}.000Z",
            "message": {"role": role, "content": content},
        }
        for number, (role, content) in enumerate(said.items())
    ]
    path = folder / f"{session_id}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_what_comes_in_is_not_the_newest(machine: Machine) -> None:
    machine.session(A, "question", "answer", title="Mine", age_s=3600)
    machine.run("import", str(_claude_session(machine, machine.project)))
    listed = machine.run("ls", "--json").json
    assert listed[0]["title"] == "Mine"
    assert listed[1]["modified"].startswith("2026-07-14T09:00:01")


def test_what_comes_in_for_another_project_is_resumed_there(machine: Machine) -> None:
    other = machine.root / "the other"
    other.mkdir()
    file = _claude_session(machine, other)
    first = machine.run("import", str(file))
    session_id = machine.run("ls", "--all", "--json").json[0]["id"]
    command = f"cd '{other}' && sessiontree --resume {session_id}"
    assert first.err.splitlines()[-1] == f"Resume with: {command}"
    again = machine.run("import", str(file))
    assert again.out == f"Already up to date: {session_id}\n"
    assert again.err.splitlines()[-1] == f"Resume with: {command}"
    there = machine.run("import", str(file), cwd=other)
    assert there.err.splitlines()[-1] == f"Resume with: sessiontree --resume {session_id}"


def test_what_comes_in_for_a_project_that_is_not_here_can_be_moved(machine: Machine) -> None:
    result = machine.run("import", str(_claude_session(machine, machine.root / "gone")))
    session_id = machine.run("ls", "--all", "--json").json[0]["id"]
    assert result.err.splitlines()[-1] == (
        f"There is no {machine.root}/gone here; "
        f"to move it to this folder: sessiontree mv {session_id} ."
    )
    assert machine.run("mv", session_id, ".").code == 0
    assert machine.run("ls", "--json").json[0]["id"] == session_id


@pytest.mark.parametrize("kind", ["bundle", "session"])
def test_a_folder_for_what_is_here_already_is_not_passed_over_in_silence(
    machine: Machine, kind: str
) -> None:
    agent = str(machine.root / "agent of another")
    source = str(_claude_session(machine, machine.project))
    if kind == "bundle":
        machine.session(A, "question", "answer")
        source = str(machine.project / "s.zip")
        machine.run("export", A, "--bundle", "-o", source)
    machine.run("import", source, SESSIONTREE_AGENT_DIR=agent)
    found = machine.run("ls", "--json", SESSIONTREE_AGENT_DIR=agent).json[0]["id"]
    again = machine.run("import", source, "--cwd", str(machine.home), SESSIONTREE_AGENT_DIR=agent)
    said, hint = again.err.splitlines()[-2:]
    assert said == (
        f"--cwd is for new ones; this one stays in {machine.project}; "
        f"to move it: sessiontree mv {found} {machine.home}"
    )
    assert hint == f"Resume with: sessiontree --resume {found}"
    same = machine.run("import", source, "--cwd", ".", SESSIONTREE_AGENT_DIR=agent)
    assert "--cwd" not in same.err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["export", A, "--bundle"], "A bundle needs a file: -o FILE.zip"),
        (["export", A, "--bundle", "-f", "json", "-o", "x.zip"], "contradict each other"),
        (["import"], "Name what to import, or use --all."),
        (["convert", A], "Missing option '--to'"),
    ],
)
def test_what_does_not_go_together_is_said(machine: Machine, args: list[str], words: str) -> None:
    machine.session(A, "question", "answer")
    result = machine.run(*args)
    assert result.code == 2
    assert words in result.err
    assert not (machine.project / "x.zip").exists()


@pytest.mark.parametrize("spelling", [None, 2])
def test_a_json_export_is_not_taken_in_again_and_the_form_that_is_is_named(
    machine: Machine, spelling: int | None
) -> None:
    machine.session(A, "question", "answer")
    machine.run("export", A, "-o", "e.json")
    file = machine.project / "e.json"
    if spelling is not None:
        file.write_text(json.dumps(json.loads(file.read_text()), indent=spelling))
    for name in ("e.json", "./e.json", str(file)):
        result = machine.run("import", name)
        assert result.code == 1
        assert result.err == (
            f"{file}: a JSON export, which can't be taken in again; "
            "export --bundle writes what can; the file was not modified\n"
        )
    assert len(machine.run("ls", "--all", "--json").json) == 1


def test_a_file_needs_no_slash_to_be_found(machine: Machine) -> None:
    source = _claude_session(machine, machine.project)
    (machine.project / "talk").write_bytes(source.read_bytes())
    assert machine.run("import", "talk").out.startswith("Imported ")
    assert machine.run("import", "talks").err == 'Session "talks" not found.\n'


def test_a_broken_bundle_changes_nothing(machine: Machine) -> None:
    (machine.project / "bad.zip").write_bytes(b"PK\x03\x04 not really")
    result = machine.run("import", "bad.zip")
    assert result.code == 1
    assert result.err.count("\n") == 1
    assert machine.run("ls", "--all").out == "No sessions found\n"


def test_importing_all_says_how_many(machine: Machine) -> None:
    result = machine.run("import", "--all")
    assert (result.code, result.out) == (
        0,
        "Imported 0 sessions, 0 brought up to date, 0 unchanged\n",
    )


def test_importing_all_names_what_it_leaves_out_once_and_that_is_no_failure(
    machine: Machine,
) -> None:
    good = _claude_session(machine, machine.project)
    (good.parent / "notes.jsonl").write_text('{"type":"mode","sessionId":"x"}\n')
    odd = good.parent / "odd.jsonl"
    odd.write_text('{"format":"sessiontree.session"}\n')
    result = machine.run("import", "--all", "--from", "claude-code")
    assert result.code == 0, result.err
    assert result.out == "Imported 1 session, 0 brought up to date, 0 unchanged\n"
    assert result.err.count("odd.jsonl") == 1
    assert "Skipped 1 file without messages" in result.err
    again = machine.run("import", "--all")
    assert (again.code, again.out) == (
        0,
        "Imported 0 sessions, 0 brought up to date, 1 unchanged\n",
    )


def test_importing_all_fails_if_a_session_cannot_be_stored(machine: Machine) -> None:
    good = _claude_session(machine, machine.project)
    text = good.read_text().replace(json.dumps(str(machine.project)), '"/a\\u0000b"')
    (good.parent / "nul.jsonl").write_text(text)
    result = machine.run("import", "--all")
    assert result.code == 1
    assert result.err.count("nul.jsonl") == 1
    assert result.out.startswith("Imported 1 session,")


def test_a_session_is_converted_for_another_agent(machine: Machine) -> None:
    path = machine.session(A, "question", "answer", title="Named")
    before = path.read_bytes()
    result = machine.run("convert", A, "--to", "pi")
    assert result.code == 0, result.err
    assert path.read_bytes() == before
    listed = machine.run("ls", "--profile", "pi", "--json").json
    assert [(found["title"], found["messageCount"]) for found in listed] == [("Named", 2)]


def test_html_is_one_file_and_a_branch_can_be_chosen(machine: Machine) -> None:
    machine.session(A, "question", "answer", title="Login")
    assert machine.run("export", A, "-o", "talk.html").out == (
        f"Wrote {machine.project}/talk.html\n"
    )
    page = (machine.project / "talk.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>Login</title>" in page
    assert page.count("<script>") == 1
    printed = machine.run("export", A, "-f", "html", "--no-tools")
    assert (printed.code, printed.out) == (0, page)


def test_a_review_shows_each_finding_and_asks(machine: Machine) -> None:
    other = "ghp_" + "z9Y8x7W6v5U4t3S2r1Q0p9O8n7M6l5K4j3I2"
    password = "postgres://bob:hunter2x@db/x"
    machine.session(A, f"use {_TOKEN} here, or {other}", f"{password} then {_TOKEN}")
    result = machine.on_terminal(
        *("export", A, "--redact", "--review", "-o", "talk.md"),
        replies=[("[r]edact? ", "k\n"), ("[r]edact? ", "x\n"), ("[r]edact? ", "a\n"),
                 ("[r]edact? ", "\n")],
        NO_COLOR="1",
    )  # fmt: skip
    assert result.code == 0
    assert f"1. github-token  use {_TOKEN} here, or " in result.out
    written = (machine.project / "talk.md").read_text()
    assert written.count(_TOKEN) == 2
    assert other not in written
    assert "hunter2x" not in written
    assert "Kept on request: 2 findings" in result.out
    assert "Redacted 2 secrets: " in result.out


def test_a_review_that_is_stopped_writes_nothing(machine: Machine) -> None:
    machine.session(A, f"use {_TOKEN} here", "answer")
    result = machine.on_terminal(
        *("export", A, "--redact", "--review", "-o", "talk.html"),
        replies=[("[r]edact? ", "q\n")],
    )
    assert result.code == 1
    assert "Stopped: nothing was written" in result.out
    assert not (machine.project / "talk.html").exists()
    assert machine.run("export", A, "--redact", "--review").err == (
        "--review asks about each finding, so it needs a terminal.\n"
    )
    assert "--review needs --redact" in machine.run("export", A, "--review").err


def test_a_transcript_is_read_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading it says whether it is one, and has all that is shown: 20 MB take half a second."""
    from sessiontree.cli.resolve import find_target, open_target
    from sessiontree.discovery.adapters.claude_code import ClaudeCode
    from sessiontree.importers import foreign
    from sessiontree.scope import choose_scope

    read: list[object] = []
    read_source = foreign.read_source

    def count(*given: object, **named: object) -> object:
        read.append(given)
        return read_source(*given, **named)  # type: ignore[arg-type]

    def summarize(*_: object) -> None:
        raise AssertionError("a summary says nothing that the whole does not")

    monkeypatch.setattr(foreign, "read_source", count)
    monkeypatch.setattr(ClaudeCode, "read", summarize)
    file, scope = str(_claude_session(machine, machine.project)), choose_scope("/elsewhere")
    with open_target(find_target(file, scope, foreign=True), scope) as view:
        assert len(view.path) == 2
    assert len(read) == 1
