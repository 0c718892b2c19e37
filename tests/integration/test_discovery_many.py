"""Thousands of real session files: right answers, little memory, and only changes are read."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from tests.processes import run, start
from tests.samples import TIME_MS, calling, dump, header, message, result
from tests.samples import assistant as make_assistant
from tests.samples import user as make_user

from sessiontree.profiles import get_profile

SESSIONS = 2_000
FEW = 600
APPENDED = 30
PROJECTS = 20
RARE = "quokkafjord"
RARE_EVERY = 200
RARE_OF_FEW = FEW // RARE_EVERY


def write_sessions(root: Path, count: int) -> int:
    """Sessions of three to eleven messages over twenty projects; how many messages in all."""
    dice = random.Random(5)
    total = 0
    for number in range(count):
        folder = root / f"--code-p{number % PROJECTS}--"
        folder.mkdir(parents=True, exist_ok=True)
        session_id = f"{number:08x}{dice.getrandbits(32):08x}"
        lines = [header(id=session_id, cwd=f"/code/p{number % PROJECTS}")]
        parent: str | None = None
        for turn in range(dice.randrange(1, 4)):
            rare = RARE if number % RARE_EVERY == 7 and turn == 0 else "hay"
            for content in (
                make_user(f"question {number} {rare}", timestamp=TIME_MS + number),
                calling("t1"),
                result("t1", "output " * dice.randrange(200)),
                make_assistant(f"answer {number}"),
            )[: 4 if turn else 3]:
                entry_id = f"{dice.getrandbits(32):08x}"
                lines.append(message(entry_id, parent, content))
                parent = entry_id
                total += 1
        file = folder / f"2026-02-16T10-20-30-000Z_{session_id}.jsonl"
        file.write_bytes(b"".join(dump(line) + b"\n" for line in lines))
    return total


LOOK = """
import json, sys
from pathlib import Path
from sessiontree import SessionManager, resolve_session, search
from sessiontree.storage.file import FileSessionStorage

opened = []
original = FileSessionStorage.open_reader
def open_reader(self, path):
    opened.append(path)
    return original(self, path)
FileSessionStorage.open_reader = open_reader

listed = SessionManager.list_all()
opened_by_listing = len(opened)
found = search(sys.argv[1], limit=None, max_indexing_s=None)
print(json.dumps({
    "sessions": len(listed),
    "messages": sum(info.message_count for info in listed),
    "statuses": sorted({info.status for info in listed}),
    "opened": opened_by_listing,
    "hits": len(found),
    "indexing": found.is_indexing,
    "project": len(SessionManager.list("/code/p3")),
    "resolved": resolve_session("0000000b", "/code/p3").cwd,
    "peak_kb": int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]),
}))
"""


def test_thousands_of_sessions_are_listed_searched_and_resumed(home: Path) -> None:
    messages = write_sessions(Path(get_profile().sessions_dir), SESSIONS)
    expected = {
        "sessions": SESSIONS,
        "messages": messages,
        "statuses": ["complete", "interrupted"],
        "hits": SESSIONS // RARE_EVERY,
        "indexing": False,
        "project": SESSIONS // PROJECTS,
        "resolved": "/code/p11",
    }
    first = json.loads(run(LOOK, RARE))
    assert {key: first[key] for key in expected} == expected
    assert first["opened"] == SESSIONS
    assert first["peak_kb"] < 100_000
    again = json.loads(run(LOOK, RARE))
    assert {key: again[key] for key in expected} == expected
    assert again["opened"] == 0


REFRESH = """
import sys
from sessiontree import SessionManager, search
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    listed = SessionManager.list_all()
    hits = search(sys.argv[2], limit=None)
    print(len(listed), sum(info.message_count for info in listed), len(hits))
"""

APPEND = """
import json, sys
from pathlib import Path
from sessiontree import SessionManager
files = sorted(Path(sys.argv[1]).rglob("*.jsonl"))[:30]
sys.stdin.readline()
for number, file in enumerate(files):
    with SessionManager.open(file) as session:
        session.append_message({"role": "user", "content": "more", "timestamp": number})
"""

CORRUPT = """
import random, sys
from pathlib import Path
sys.stdin.readline()
dice = random.Random(1)
for _ in range(6):
    for file in Path(sys.argv[1]).glob("*.sqlite3"):
        try:
            data = bytearray(file.read_bytes())
            for _ in range(20):
                if data:
                    data[dice.randrange(len(data))] = 0xFF
            file.write_bytes(bytes(data))
        except OSError:
            pass
"""


def is_right(hits: int, is_attacked: bool) -> bool:
    """A bit flipped in SQLite's own lists of words may hide a hit; none is made up."""
    return hits <= RARE_OF_FEW if is_attacked else hits == RARE_OF_FEW


@pytest.mark.parametrize("is_attacked", [False, True])
def test_several_processes_refresh_one_catalogue(home: Path, is_attacked: bool) -> None:
    root = Path(get_profile().sessions_dir)
    messages = write_sessions(root, FEW)
    lookers = [start(REFRESH, 4, RARE) for _ in range(4)]
    writer = start(APPEND, root)
    attackers = [start(CORRUPT, home / ".cache" / "sessiontree")] if is_attacked else []
    for process in (*lookers, writer, *attackers):
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in (*lookers, writer, *attackers):
        output, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        rows = [line.split() for line in output.splitlines() if line[0].isdigit()]
        counts = [int(count) for _, count, _ in rows]
        assert all(int(listed) == FEW for listed, _, _ in rows)
        assert all(is_right(int(hits), is_attacked) for _, _, hits in rows)
        assert counts == sorted(counts)
        assert all(messages <= count <= messages + APPENDED for count in counts)
    final = json.loads(run(LOOK, RARE))
    assert (final["sessions"], final["messages"]) == (FEW, messages + APPENDED)
    assert is_right(final["hits"], is_attacked)
    shutil.rmtree(home / ".cache" / "sessiontree")
    assert json.loads(run(LOOK, RARE))["hits"] == RARE_OF_FEW
