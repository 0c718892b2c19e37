"""Pipes and devices in the place of our files: an answer or an error, soon and in little memory.

Each is read in a process of its own, which may take a gigabyte and a few seconds.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests import processes
from tests.samples import assistant as answer
from tests.samples import chain, header, write
from tests.samples import user as prompt

from sessiontree.discovery import catalogue

BLOB = "0" * 64
READ_PLANTED = """
import os, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
what, planted = sys.argv[1:3]
os.environ["SESSIONTREE_AGENT_DIR"] = planted
os.environ["SESSIONTREE_CACHE_DIR"] = planted + "/cache"
from sessiontree import HistoryStorage, SessionManager, SessionTreeError, load_entries_from_file
from sessiontree.discovery.breadcrumbs import read_breadcrumb
from sessiontree.discovery.listing import list_all_sessions
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.importers.foreign import load_foreign
from sessiontree.importers.imports import import_session
from sessiontree.importers.foreign_listing import find_foreign_sessions
from sessiontree.maintenance.checkup import check_profile
from sessiontree.stores.files.folders import remember_session_dir
from sessiontree.maintenance.gc import find_garbage
from sessiontree.maintenance.checkup import repair_findings
from sessiontree.stores.files.trash import list_trash, move_to_trash
from sessiontree.profiles import get_profile
from sessiontree.runtime.models import ModelRegistry
from sessiontree.tui.chat.todos import load_todos
root = Path(planted)
session = root / "sessions" / "--p--" / "s.jsonl"
profile = get_profile()

def write():
    with SessionManager.open(session) as open_session:
        open_session.append_message({"role": "user", "content": "x", "timestamp": 1})
        open_session.set_session_name("x")
        open_session.rewrite_entries()

def remember():
    with HistoryStorage.for_profile() as history:
        history.add("x")
        history.flush(2)
        history.search("x")

def mend():
    repair_findings(check_profile(profile, deep=True).findings, profile)

attempts = {
    "open": write,
    "fork": lambda: SessionManager.fork_from(session, "/p"),
    "entries": lambda: load_entries_from_file(session),
    "listing": lambda: list_all_sessions(),
    "context": lambda: SessionManager.open(session).build_session_context(),
    "breadcrumb": lambda: read_breadcrumb(profile, "/p", terminal="t"),
    "history": remember,
    "models": lambda: ModelRegistry.load(root),
    "trash": lambda: list_trash(profile),
    "remove": lambda: move_to_trash(session, profile=profile),
    "doctor": mend,
    "secrets": lambda: check_profile(profile, secrets=True),
    "garbage": lambda: find_garbage(profile),
    "folders": lambda: remember_session_dir(profile, "/p"),
    "import bundle": lambda: import_bundle(root / "b.zip"),
    "export bundle": lambda: export_bundle(session, root / "out.zip"),
    "import": lambda: import_session(root / "f.jsonl"),
    "todos": lambda: load_todos(str(root / "sessions/--p--/s")),
    "show foreign": lambda: load_foreign(root / "f.jsonl"),
    "foreign": lambda: [load_foreign(each.path) for each in find_foreign_sessions(home=root)],
}
try:
    attempts[what]()
except (SessionTreeError, OSError):
    pass
print("done")
"""
CLAUDE = '{"type":"user","sessionId":"s","uuid":"1","message":{"role":"user","content":"hi"}}\n'


@pytest.mark.parametrize("plant", ["pipe", "/dev/zero"])
@pytest.mark.parametrize(
    ("what", "where"),
    [
        ("open", "sessions/--p--/s.jsonl"),
        ("open", "sessions/--p--/.s.jsonl.draft"),
        ("open", "sessions/--p--/s.jsonl.rejected"),
        ("open", "sessions/--p--/.s.jsonl.lock.os"),
        ("fork", "sessions/--p--/s.jsonl"),
        ("fork", "sessions/--p--/s/artifact"),
        ("entries", "sessions/--p--/s.jsonl"),
        ("listing", "sessions/--p--/s.jsonl"),
        ("listing", f"cache/{os.path.basename(catalogue.SCHEMA.path)}"),
        ("listing", f"cache/{os.path.basename(catalogue.SCHEMA.path)}-wal"),
        ("listing", f"cache/{os.path.basename(catalogue.SCHEMA.path)}.lock"),
        ("context", f"blobs/{BLOB}"),
        ("open", f"blobs/{BLOB}"),
        ("export bundle", f"blobs/{BLOB}"),
        ("export bundle", "sessions/--p--/s/artifact"),
        ("doctor", f"blobs/{BLOB}"),
        ("doctor", "sessions/--p--/s.jsonl"),
        ("doctor", "sessions/--p--/.s.jsonl.draft"),
        ("doctor", "history.db"),
        ("doctor", "trash/item/manifest.json"),
        ("secrets", "sessions/--p--/s.jsonl"),
        ("secrets", "sessions/--p--/s/artifact"),
        ("secrets", "sessions/--p--/s"),
        ("garbage", "sessions/--p--/s.jsonl"),
        ("garbage", "session-dirs"),
        ("garbage", "terminal-sessions/t"),
        ("folders", "session-dirs"),
        ("breadcrumb", "terminal-sessions/t"),
        ("history", "history.db"),
        ("models", "models.toml"),
        ("trash", "trash/item/manifest.json"),
        ("remove", "sessions/--p--/s.jsonl"),
        ("import bundle", "b.zip"),
        ("import", "f.jsonl"),
        ("todos", "sessions/--p--/s/todos.json"),
        ("show foreign", "f.jsonl"),
        ("foreign", ".claude/projects/p/t.jsonl"),
        ("foreign", ".claude/projects/p/s/subagents/agent-1.jsonl"),
        ("foreign", ".claude/projects/p/s/subagents/agent-1.meta.json"),
        ("foreign", ".claude/projects/p/agent-1.jsonl"),
        ("foreign", ".codex/session_index.jsonl"),
        ("foreign", ".codex/sessions/rollout-x.jsonl"),
    ],
)
def test_pipes_and_devices_in_our_folders_do_not_hang_or_fill_the_memory(
    tmp_path: Path, plant: str, what: str, where: str
) -> None:
    root = tmp_path / "agent"
    image = {"type": "image", "data": f"blob:sha256:{BLOB}", "mimeType": "image/png"}
    talk = chain(prompt([image]), answer("x"))
    write(root / "sessions/--p--/s.jsonl", header(), *talk, b"garbage\n")
    write(root / ".claude/projects/p/s.jsonl", CLAUDE.encode())
    write(root / ".claude/projects/p/s/subagents/agent-1.jsonl", CLAUDE.encode())
    place = root / where
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if what == "open" and where.endswith(".draft"):
        (root / "sessions/--p--/s.jsonl").unlink()
    if plant == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(plant)
    assert processes.run(READ_PLANTED, what, root, timeout_s=20).endswith("done\n")
