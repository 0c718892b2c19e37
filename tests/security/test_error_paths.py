"""Error messages: whatever a file is called, they are harmless, and each comes once."""

from __future__ import annotations

import errno
import logging
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from tests.cli.conftest import PROGRAM, Machine, make_machine
from tests.samples import assistant, chain, header, user, write

from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.testing import FaultyStorage

HOSTILE = "a\x1b]0;owned\x07b\n\u202ec\x9b31m\r"
_RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
KEY = "sk-0123456789abcdef"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine in which everything is called like an attack."""
    machine = make_machine(tmp_path_factory.mktemp("m") / HOSTILE)
    machine.session("0199a3f2c0de1234", "hello", "hi")
    project = machine.project
    (project / HOSTILE).mkdir()
    (project / f"{HOSTILE}x").write_text("no session")
    write(project / f"{HOSTILE}.jsonl", {"prompt": "a dataset"})
    write(project / f"{HOSTILE}2.jsonl", b"torn\n", *chain(user("1"), assistant("2")))
    return machine


_FOLDER, _FILE, _DATASET, _MISSING = "{0}", "{0}x", "{0}.jsonl", "{0}-missing.jsonl"
_OFFLINE = ("-p", "hello", "--model", "offline")
_FAILING = [
    ("ls", "--session-dir", _FILE),
    ("ls", "--profile", HOSTILE),
    ("ls", "-n", HOSTILE),
    ("show", _DATASET),
    ("show", _MISSING),
    ("tree", _FILE),
    ("export", "0199a3f2", _FOLDER),
    ("export", "0199a3f2", _FOLDER + "/no/x.md"),
    ("export", "0199a3f2", _FILE),
    ("import", _FILE),
    ("import", _MISSING),
    ("convert", _DATASET, "--to", "pi"),
    ("convert", "0199a3f2", "--to", HOSTILE),
    ("rename", _DATASET, "name"),
    ("mv", "0199a3f2", _MISSING),
    ("mv", _DATASET, "."),
    ("relink", _FILE),
    ("rm", _DATASET),
    ("restore", HOSTILE),
    ("-r", _DATASET, *_OFFLINE),
    ("-r", HOSTILE, *_OFFLINE),
    ("--fork", _MISSING, *_OFFLINE),
    ("--session-dir", _FILE, *_OFFLINE),
    ("-p", "hello", "--model", HOSTILE),
]


@pytest.mark.parametrize("arguments", _FAILING, ids=lambda words: " ".join(words[:2])[:12])
def test_a_command_that_fails_says_so_in_one_harmless_line(
    hostile: Machine, arguments: tuple[str, ...]
) -> None:
    result = hostile.run(*(word.format(HOSTILE) for word in arguments))
    assert result.code in (1, 2)
    assert not _RAW.search(result.out + result.err)
    assert result.err.count("\n") == 1
    assert "Internal error" not in result.err


def test_what_succeeds_with_a_warning_is_harmless_too(hostile: Machine) -> None:
    result = hostile.run("rename", str(hostile.project / f"{HOSTILE}2.jsonl"), HOSTILE)
    assert result.code == 0
    assert ".corrupt-" in result.err
    assert not _RAW.search(result.out + result.err)


def test_places_that_can_not_be_used_are_named_harmlessly(hostile: Machine) -> None:
    bad = str(hostile.project / f"{HOSTILE}x")
    for variable in ("SESSIONTREE_AGENT_DIR", "SESSIONTREE_CACHE_DIR", "SESSIONTREE_PROFILE"):
        for arguments in (("ls",), ("search", "hello"), _OFFLINE):
            machine = Machine(hostile.root, {**hostile.env, variable: bad})
            result = machine.run(*arguments)
            assert not _RAW.search(result.out + result.err)
            assert "Internal error" not in result.err


# -- the library ----------------------------------------


_FAIL_TO_WRITE = """
import errno, sys
from sessiontree import FileSessionStorage, PersistenceError, SessionManager
from sessiontree.testing import FaultyStorage
storage = FaultyStorage(FileSessionStorage())
session = SessionManager.open(sys.argv[1], storage=storage)
storage.fail("write_line", errno.ENOSPC)
try:
    session.append_message({"role": "user", "content": "x", "timestamp": 1})
except PersistenceError as error:
    assert sys.argv[1] in str(error)
"""


def test_the_library_prints_nothing_by_itself(tmp_path: Path) -> None:
    path = write(tmp_path / f"{HOSTILE}.jsonl", header(), *chain(user("1"), assistant("2")))
    done = subprocess.run(
        [sys.executable, "-c", _FAIL_TO_WRITE, str(path)], capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_program_that_handles_logs_gets_each_error_once_and_escaped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / f"{HOSTILE}.jsonl", header(), *chain(user("1"), assistant("2")))
    storage = FaultyStorage(FileSessionStorage())
    session = SessionManager.open(path, storage=storage)
    storage.fail("write_line", errno.ENOSPC)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(PersistenceError):
                session.append_message(user("x"))
    (record,) = caplog.records
    message = record.getMessage()
    assert message.count("owned") == 1
    assert not any(unicodedata.category(character)[0] == "C" for character in message)


@pytest.mark.parametrize("debug", ["", "1"])
def test_an_answer_that_can_not_be_saved_is_told_once(tmp_path: Path, debug: str) -> None:
    machine = make_machine(tmp_path / "m")
    folder = machine.project / "s"
    folder.mkdir()
    shutil.copy(machine.session("0199a3f2c0de1234", "hello", "hi"), folder / "x.jsonl")
    # A limit on the size of files stops the writing of a message, whoever runs this.
    script = "import resource, os, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600));"
    script += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
    script += "os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, PROGRAM, "-r", str(folder / "x.jsonl"), *_OFFLINE],
        cwd=machine.project,
        # Python's own caches must not be cut short.
        env={**machine.env, "SESSIONTREE_DEBUG": debug, "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    told = done.stderr.decode()
    if not debug:
        assert told.count("File too large") == 1
        assert "Traceback" not in told
    assert os.linesep in told


def test_keys_of_providers_are_not_in_error_messages(hostile: Machine) -> None:
    result = hostile.run("rename", f"{KEY}.jsonl", "x", MY_GATEWAY_API_KEY=KEY)
    assert result.code == 1
    assert KEY not in result.err
