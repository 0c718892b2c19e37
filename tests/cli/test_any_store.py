"""Every command on a store that keeps no files: the worked example's, in processes of their own."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Machine

from sessiontree.samples import MARK

ROOT = Path(__file__).parents[2]
URL = "toy:{}/sessions.db"


@pytest.fixture
def shelf(machine: Machine, tmp_path: Path) -> Machine:
    """A machine on which a package has brought the store, with a session and the samples in it."""
    info = tmp_path / "plugins" / "toy_store-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-store\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[sessiontree.stores]\ntoy = toy_store:open_toy\n")
    machine.env["PYTHONPATH"] = f"{info.parent}:{ROOT / 'examples'}"
    machine.env["SESSIONTREE_STORE"] = URL.format(machine.root)
    assert machine.run("demo").code == 0
    return machine


def ids(machine: Machine, *args: str) -> list[str]:
    return [each["id"] for each in machine.run("ls", "--json", *args).json]


def talk(machine: Machine, *args: str) -> str:
    done = machine.run(*args, "--model", "offline")
    assert done.code == 0, done.err
    return done.err


def test_a_session_is_begun_continued_forked_and_found(shelf: Machine) -> None:
    talk(shelf, "-p", "the first words", "--name", "Mine")
    (mine, *_) = ids(shelf)
    assert 'Resuming "Mine"' in talk(shelf, "-c", "-p", "the second words")
    assert shelf.run("ls").lines[0].split()[0] == mine
    told = talk(shelf, "-r", f"{URL.format(shelf.root)}#{mine}", "-p", "the third words")
    assert 'Resuming "Mine"' in told
    assert 'Forked "Mine"' in talk(shelf, "--fork", mine[:14], "-p", "the fourth words")
    copy = ids(shelf)[0]
    assert copy != mine
    shown = shelf.run("show", mine, "--json").json
    said = [each["message"]["content"] for each in shown["entries"] if each["type"] == "message"]
    assert [text for text in said if isinstance(text, str)] == []
    prompts = [block[0]["text"] for block in said if block[0]["text"].startswith("the ")]
    assert prompts == ["the first words", "the second words", "the third words"]
    (hit,) = shelf.run("search", "fourth", "words", "--json").json
    assert (hit["id"], hit["resume"]) == (copy, f"sessiontree --resume {copy}")
    assert not (shelf.agent_dir / "sessions").exists()


def test_looking_shows_what_is_in_the_store(shelf: Machine) -> None:
    listed = shelf.run("ls", "--json").json
    assert [each["title"] for each in listed] == [
        "Sample: two ways out of a failing test",
        "Sample: a long talk, compacted",
        "Sample: a picture of a tree",
    ]
    branched, _, pictured = (each["id"] for each in listed)
    assert [each["path"] for each in listed] == ids(shelf)
    page = shelf.run("ls", "-n", "1")
    assert page.lines[0].split()[0] == branched
    assert "2 older (-n 0 shows all)" in page.err
    elsewhere = shelf.run("ls", cwd=shelf.root)
    assert "3 in other projects (--all)" in elsewhere.err
    assert ids(shelf, "--all") == ids(shelf)
    assert "├─" in shelf.run("tree", branched).out
    assert "What is on this picture?" in shelf.run("show", "Sample: a picture of a tree").out
    assert shelf.run("usage").lines[-1].startswith("total")
    assert shelf.run("usage", branched, "--json").json[0]["answers"] == 5
    assert shelf.run("export", pictured).out.startswith("# Sample: a picture of a tree")
    assert shelf.run("export", pictured, "-f", "json").json["entries"][0]["customType"] == MARK
    assert shelf.run("doctor").lines == ["Checked 3 sessions: no damage found"]
    gone = shelf.run("show", "nothing-like-it")
    assert (gone.code, gone.err) == (1, 'Session "nothing-like-it" not found.\n')
    wrong = shelf.run("show", "toy:/elsewhere.db#abc")
    assert "Name that one: --store toy:/elsewhere.db" in wrong.err
    two = shelf.run("show", "01")
    assert two.code == 2
    assert branched in two.err


def test_sessions_are_changed_removed_and_brought_back(shelf: Machine) -> None:
    one, two, three = ids(shelf)
    assert shelf.run("rename", one, "Another", "name").out == "Renamed to Another name\n"
    other = shelf.root / "other"
    other.mkdir()
    assert shelf.run("mv", one, str(other)).code == 0
    assert ids(shelf) == [two, three]
    (moved,) = shelf.run("ls", "--json", cwd=other).json
    assert (moved["id"], moved["title"], moved["cwd"]) == (one, "Another name", str(other))
    assert shelf.run("rm", one, two).code == 0
    assert ids(shelf, "--all") == [three]
    trash = shelf.run("restore", "--list", "--json").json
    assert {each["id"] for each in trash} == {one, two}
    assert shelf.run("restore").code == 0
    assert set(ids(shelf, "--all")) == {one, two, three}
    assert shelf.run("rm", two).code == 0
    assert "--trash 0 --yes" in shelf.run("gc", "--trash", "0").err
    assert "Removed 1 item" in shelf.run("gc", "--trash", "0", "--yes").out
    assert shelf.run("restore", two).code == 1
    with sqlite3.connect(shelf.root / "sessions.db") as database:
        assert database.execute("SELECT count(*) FROM session").fetchone() == (2,)
    assert "Moved 1 sample to the trash" in shelf.run("demo", "--remove").out
    assert ids(shelf, "--all") == [one]


def test_sessions_go_out_and_come_in(shelf: Machine) -> None:
    pictured = ids(shelf)[2]
    bundle = str(shelf.root / "picture.zip")
    assert shelf.run("export", pictured, "-o", bundle).code == 0
    second = ["--store", f"toy:{shelf.root}/second.db"]
    done = shelf.run(*second, "import", bundle)
    assert done.out == f"Imported {pictured}\n"
    assert f"sessiontree --store toy:{shelf.root}/second.db --resume {pictured}" in done.err
    assert shelf.run(*second, "import", bundle).out == f"Already here: {pictured}\n"
    before = shelf.run("export", pictured, "-f", "json").json["entries"]
    assert shelf.run(*second, "export", pictured, "-f", "json").json["entries"] == before
    redacted = str(shelf.root / "redacted.zip")
    assert shelf.run("export", pictured, "--redact", "-o", redacted).code == 0
    assert shelf.run("convert", pictured, "--to", "pi").code == 0
    (converted,) = shelf.run("--store", "file:", "--profile", "pi", "ls", "--json").json
    assert converted["title"] == "Sample: a picture of a tree"
    as_file = shelf.run("--store", "file:", "--profile", "pi", "show", "--json").json["entries"]
    images = [block for each in as_file for block in _blocks(each) if block["type"] == "image"]
    assert images == [block for each in before for block in _blocks(each) if "mimeType" in block]


def _blocks(entry: dict[str, object]) -> list[dict[str, object]]:
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )


def test_a_session_of_claude_code_comes_in_twice(shelf: Machine) -> None:
    folder = shelf.home / ".claude" / "projects" / "-srv-shop"
    folder.mkdir(parents=True)
    source = folder / "5f2c81d0-0000-4000-8000-000000000001.jsonl"
    base = {"sessionId": source.stem, "cwd": str(shelf.project), "version": "2.0.0"}

    def answer(text: str) -> dict[str, Any]:
        content = [{"type": "text", "text": text}]
        return {"role": "assistant", "id": "msg_1", "content": content, "model": "m"}

    asked: dict[str, Any] = {"role": "user", "content": "hello there"}
    said = [asked, answer("hello"), answer("and more of it"), {**asked, "content": "again"}]
    lines = [
        {
            **base,
            "type": message["role"],
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "timestamp": f"2026-03-01T10:0{number}:00.000Z",
            "message": message,
        }
        for number, message in enumerate(said)
    ]

    def write(count: int) -> None:
        source.write_text("".join(json.dumps(line) + "\n" for line in lines[:count]))

    write(2)
    assert shelf.run("import", "5f2c81d0").out.startswith("Imported ")
    assert shelf.run("import", "5f2c81d0").out.startswith("Already up to date")
    write(3)
    assert "1 changed" in shelf.run("import", "5f2c81d0").out
    write(4)
    assert "1 brought up to date" in shelf.run("import", "--all").out
    found = shelf.run("ls", "--json").json[-1]
    assert (found["firstMessage"], found["messageCount"]) == ("hello there", 3)
    shown = shelf.run("show", found["id"]).out
    assert "and more of it" in shown
    assert shown.count("hello there") == 2  # the name, and what was said


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("doctor", "--repair"), "Without --repair doctor checks any store"),
        (("relink", "/old", "."), "To move a session: sessiontree mv ID FOLDER"),
        (
            ("--session-dir", ".", "--store", "memory:x", "ls"),
            "is for files: memory:x has no folders",
        ),
        (("open",), "sessiontree -r ID"),
        (("--store", "memory:x", "open"), "sessiontree --store memory:x -r ID"),
        (("keep",), "A database keeps its sessions by itself"),
        (("--store", "nothing:x", "ls"), 'No store is called "nothing:"'),
        (("--store", "postgresql://anna:hunter2@nowhere.invalid/x", "ls"), "nowhere.invalid"),
    ],
)
def test_what_is_for_files_only_says_so_in_one_line(
    shelf: Machine, args: tuple[str, ...], told: str
) -> None:
    done = shelf.run(*args)
    assert done.code == 1
    assert done.out == ""
    assert told in done.err
    assert "hunter2" not in done.err
    assert len(done.err.splitlines()) == 1


def test_a_store_of_the_command_line_wins_and_is_named_again(shelf: Machine) -> None:
    other = f"toy:{shelf.root}/other.db"
    assert ids(shelf, "--store", other) == []
    told = shelf.on_terminal("--store", other, "-p", "hello", "--model", "offline").out
    (made,) = ids(shelf, "--store", other)
    assert f"--store {other} --resume {made}" in told.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert made not in ids(shelf)
    crumbs = list((shelf.agent_dir / "terminal-sessions").glob("pts-*"))
    assert [crumb.read_text().splitlines()[1] for crumb in crumbs] == [f"{other}#{made}"]


def test_files_elsewhere_are_searched(machine: Machine, tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'elsewhere'}"
    talk(machine, "--store", url, "-p", "the words elsewhere")
    (hit,) = machine.run("search", "elsewhere", "--json", "--store", url).json
    assert hit["id"] == ids(machine, "--store", url)[0]
    assert machine.run("search", "elsewhere").code == 1


def test_what_to_type_next_names_the_store(machine: Machine, tmp_path: Path) -> None:
    """Else an "undo" would bring back what lies in another trash."""
    url = f"file:{tmp_path / 'elsewhere'}"
    asked = ("--store", url)
    assert f"sessiontree --store {url} demo adds" in machine.run("ls", *asked).err
    assert f"sessiontree --store {url} ls --all" in machine.run("show", *asked).err
    assert f"sessiontree --store {url} -r " in machine.run("demo", *asked).err
    one = ids(machine, *asked)[0]
    assert machine.run("rm", one, *asked).err == f"Undo: sessiontree --store {url} restore\n"
    assert f"sessiontree --store {url} restore --list" in machine.run("restore", "no", *asked).err
    assert machine.run("rm", ids(machine, *asked)[0], *asked).code == 0
    opened = machine.run("open", "--print", *asked).out
    assert f"sessiontree --store {url} --resume {tmp_path}" in opened


@pytest.mark.parametrize("command", [("ls",), ("usage",), ("search", "word")])
@pytest.mark.parametrize("asked", [("--agent", "pi"), ("--all-agents",)])
def test_agents_are_not_looked_for_in_a_store(
    shelf: Machine, command: tuple[str, ...], asked: tuple[str, ...]
) -> None:
    done = shelf.run(*command, *asked)
    assert (done.code, done.out) == (2, "")
    told = f"{' '.join(asked)} looks at the files of agents, not in {URL.format(shelf.root)}."
    assert done.err == f"{told} Add --store file: for those.\n"
    assert shelf.run(*command, *asked, "--store", "file:").code in (0, 1)
