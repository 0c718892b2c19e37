"""More readers of untrusted files: everything that shows a session to a person or to a model.

Screens, commands, a live agent and what is sent to a provider read the same spoiled sessions as
the rest; bundles, foreign folders and databases are spoiled from within, so that checksums and
archives do not hide what lies behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tests.torture import hostile
from tests.torture.commands import is_safe, run_command
from tests.torture.hostile import Target, agent_dirs, session_seeds
from tests.torture.mutations import mutate, mutate_rows
from tests.torture.other_agents import AgentSessions, KeptCopies

from sessiontree import SessionManager, SessionTreeError, create_agent_session
from sessiontree.agents.messages import from_model_messages, to_model_messages
from sessiontree.agents.outgoing import outgoing_messages
from sessiontree.core.compaction import CompactionSettings
from sessiontree.core.tree_entries import Digester
from sessiontree.discovery.listing import list_sessions
from sessiontree.export.bundle_export import import_bundle
from sessiontree.export.html import HtmlOptions, render_html
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view
from sessiontree.importers.foreign_listing import find_foreign_sessions
from sessiontree.mcp.reading import Part, read_part
from sessiontree.profiles import get_profile
from sessiontree.runtime.models import Model, ModelRegistry
from sessiontree.runtime.settings import RuntimeSettings
from sessiontree.stores.files.store import FileStore
from sessiontree.testing.scripted_agent import ScriptedAgent
from sessiontree.tui.chat import session_reading
from sessiontree.tui.chat.todos import draw_todos, load_todos
from sessiontree.tui.fuzzy import Query
from sessiontree.tui.palette import DARK
from sessiontree.tui.pickers.session_preview import draw_preview, load_preview
from sessiontree.tui.pickers.session_rows import SessionIndex, draw_heading, draw_session
from sessiontree.tui.pickers.tree_lines import draw_entry, draw_row
from sessiontree.tui.pickers.tree_rows import FILTERS, Label, TreeModel, plan_choice
from sessiontree.tui.transcript.block_lines import draw_block, plain_text
from sessiontree.tui.transcript.blocks import Conversation

Look = Callable[[Path, random.Random], None]
_MODELS = [Model("acme", "m", context_window=30_000, max_output=2_000, images=True)]
_NOW = datetime(2026, 3, 1, tzinfo=UTC)
_COMMANDS = [
    ["show"],
    ["show", "--full"],
    ["show", "--json"],
    ["show", "-n", "3"],
    ["tree"],
    ["tree", "--all"],
    ["tree", "--json"],
    ["usage"],
    ["usage", "--by", "day"],
    ["usage", "--by", "model", "--json"],
    ["export"],
    ["export", "--format", "json"],
]
_GENERAL = [
    ["ls", "--all"],
    ["ls", "--all", "--json"],
    ["search", "answer"],
    ["search", "answer", "--tools", "--json"],
    ["usage", "--all", "--by", "project"],
    ["doctor", "--secrets"],
    ["gc", "--verbose"],
]


def _command(path: Path, rng: random.Random) -> None:
    general = rng.random() < 0.3
    arguments = rng.choice(_GENERAL) if general else [*rng.choice(_COMMANDS), str(path)]
    assert is_safe(run_command(arguments)), f"{arguments} printed control characters"


def _chat(path: Path, rng: random.Random) -> None:
    """The conversation as the chat draws it, folded and not, in narrow and wide windows."""
    with open_view(path) as view:
        conversation = Conversation()
        conversation.add_entries(view.path)
    width = rng.choice([9, 40, 120])
    for block in conversation.blocks:
        plain_text(block)
        for is_folded in (True, False):
            for line in draw_block(block, width, DARK, is_folded=is_folded):
                assert is_safe(line.plain), "a control character in the chat"


def _page(path: Path, rng: random.Random) -> None:
    """The exported page; what of a session is markup in it was escaped."""
    with open_view(path) as view:
        options = HtmlOptions(thinking=rng.random() < 0.5, tools=rng.random() < 0.5)
        redactor = Redactor() if rng.random() < 0.5 else None
        page = "".join(render_html(view, options=options, redactor=redactor))
    assert page.count("<script") == 2, "a script in the page"


def _for_a_model(path: Path, rng: random.Random) -> None:
    """A part of it, as the MCP server gives it."""
    part = Part(
        start=rng.choice([1, -3, 10**9]),
        count=rng.choice([None, 2]),
        detail=rng.choice(["compact", "full"]),
        budget=rng.choice([1, 24_000]),
    )
    with open_view(path) as view:
        told = read_part(view, part, Redactor() if rng.random() < 0.5 else None)
    assert is_safe(told)
    assert len(told) < 100_000


def _tree_picker(path: Path, rng: random.Random) -> None:
    with open_view(path) as view:
        digests = list(Digester().digest_all(view.tree.entries))
        labels = {key: Label(*label) for key, label in view.tree.labels().items()}
        leaf = view.tree.leaf_id
    model = TreeModel(digests, leaf, labels)
    query = Query(rng.choice(["", "a", '"one more"', "re:.*x", "u1 -a"]))
    width = rng.choice([10, 60, 200])
    for row in model.rows(rng.choice(FILTERS), query)[:100]:
        draw_row(row, width, DARK, _NOW, is_chosen=rng.random() < 0.5)
        plan_choice(model, row.entry.id)
        draw_entry(row.entry, row.label, width, 20, DARK, _NOW)


def _session_picker(path: Path, rng: random.Random) -> None:
    index = SessionIndex(list_sessions("/p", path.parent))
    query = Query(rng.choice(["", "a", "re:.", "session"]))
    for sort in ("recent", "threaded", "relevance"):
        for row in index.rows(query, sort) or []:
            draw_session(row, 80, DARK, _NOW, is_chosen=True, with_project=True, with_path=True)
            draw_heading(row, 40, DARK, _NOW)
    draw_preview(
        load_preview(str(path), FileStore(profile=get_profile())), DARK, rng.choice([12, 80]), 20
    )


def _provider(path: Path, rng: random.Random) -> None:
    """What a model would be sent, and the way of the messages there and back."""
    session = SessionManager.open(path)
    messages = session.build_session_context().messages
    session.close()
    outgoing_messages(messages, Model("acme", "m", images=rng.random() < 0.5))
    from_model_messages(to_model_messages(messages))


def _live(path: Path, rng: random.Random) -> None:
    """An agent takes the session up, goes on, moves about in it, and compacts it."""
    asyncio.run(asyncio.wait_for(_live_on(path, rng), 9))


async def _live_on(path: Path, rng: random.Random) -> None:
    session = await create_agent_session(
        ScriptedAgent(default="the answer"),
        cwd="/p",
        resume=str(path),
        models=ModelRegistry(_MODELS, default="acme/m"),
        settings=RuntimeSettings(compaction=CompactionSettings(keep_recent_tokens=40)),
    )
    try:
        await session.prompt("go on")
        await session.stats()
        await session.read(session_reading.read_end)
        await session.read(session_reading.read_branches)
        await session.read(session_reading.read_tree)
        entries = await session.read(lambda manager: manager.get_entries())
        with contextlib.suppress(SessionTreeError):
            await session.compact()
        with contextlib.suppress(SessionTreeError):
            await session.navigate_tree(rng.choice(entries).id, summarize=rng.random() < 0.5)
        with contextlib.suppress(SessionTreeError):
            await session.branch(rng.choice(entries).id)
        await session.prompt("and on")
    finally:
        await session.aclose()


LOOKS: list[Look] = [
    _command,
    _command,
    _chat,
    _page,
    _for_a_model,
    _tree_picker,
    _session_picker,
    _provider,
    _live,
]


class Onlookers(Target):
    """A spoiled session, shown in every way there is."""

    name = "screens"

    def make_seeds(self) -> list[bytes]:
        return session_seeds()

    def read(self, data: bytes, rng: random.Random) -> None:
        with self.session_place() as path:
            for look in rng.sample(LOOKS, 3):
                path.write_bytes(data)  # opening may mend it
                with contextlib.suppress(SessionTreeError):
                    look(path, rng)


class Todos(Target):
    """The list of tasks that an agent, or a bundle, left beside a session."""

    name = "todo lists"

    def make_seeds(self) -> list[bytes]:
        task = {"content": "write it", "status": "in_progress", "done": False}
        return [
            json.dumps([task, "plain", {"text": "x", "completed": True}]).encode(),
            json.dumps({"phases": [{"title": "one", "tasks": [task]}]}).encode(),
        ]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        (room / "todos.json").write_bytes(data)
        for line in draw_todos(load_todos(str(room)), rng.choice([5, 80]), DARK):
            assert is_safe(line.plain)


# -- spoiled from within -----------------------------------------------------------------------


class BundledFiles(hostile.Bundles):
    """Bundles that are sound as archives: their members are spoiled, and promised as such."""

    name = "bundled files"

    def __call__(self, rng: random.Random) -> str:
        try:
            self.read(self._repack(rng.choice(self.seeds), rng), rng)
        except SessionTreeError:
            return "refused"
        return "read"

    def _repack(self, data: bytes, rng: random.Random) -> bytes:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        manifest = json.loads(members.pop("manifest.json"))
        chosen = rng.choice(["session.jsonl", "session.jsonl", rng.choice([*members])])
        members[chosen] = mutate(members[chosen], rng, [*members.values()])
        for listed in manifest["files"]:
            content = members[listed["path"]]
            listed |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        promised = json.dumps(manifest).encode()
        if rng.random() < 0.3:
            promised = mutate(promised, rng, [promised])
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", promised)
            for name, content in members.items():
                archive.writestr(name, content)
        return packed.getvalue()

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        with agent_dirs(room):
            (room / "b.zip").write_bytes(data)
            profile = rng.choice(["sessiontree", "pi"])
            report = import_bundle(room / "b.zip", profile=profile)
            import_bundle(room / "b.zip", profile=profile)
            hostile.look_at(SessionManager.open(report.session_path))


class ForeignFolders(hostile.ForeignSessions):
    """Folders of other agents as they are listed: sessions, indexes, side chains."""

    name = "foreign folders"

    def make_seeds(self) -> list[bytes]:
        self.golden = self.folder / "golden"
        shutil.copytree(hostile.GOLDEN, self.golden)
        return super().make_seeds()

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        home = room / "home"
        shutil.copytree(self.golden / "claude-code", home / ".claude" / "projects" / "-p")
        shutil.copytree(self.golden / "codex", home / ".codex")
        files = [path for path in home.rglob("*") if path.is_file()]
        rng.choice(sorted(files)).write_bytes(data)
        with agent_dirs(room):
            found = find_foreign_sessions(home=str(home))
            assert all(session.name for session in found)
            for session in found:
                with contextlib.suppress(SessionTreeError):
                    run_command(["show", "--full", session.path])


class CatalogueRows(hostile.Catalogue):
    """Catalogues and indexes that are sound databases, with rows of another kind in them."""

    name = "catalogue rows"

    def spoil(self, cache: Path, data: bytes, rng: random.Random) -> None:
        for name in sorted(os.listdir(cache)):
            if name.endswith(".sqlite3") and rng.random() < 0.7:
                mutate_rows(cache / name, rng)


class HistoryRows(hostile.History):
    """Histories that are sound databases, with rows of another kind in them."""

    name = "history rows"

    def __call__(self, rng: random.Random) -> str:
        path = self.folder / "spoiled.db"
        path.write_bytes(rng.choice(self.seeds))
        mutate_rows(path, rng)
        try:
            self.read(path.read_bytes(), rng)
        except SessionTreeError:
            return "refused"
        return "read"


TARGETS: list[type[Target]] = [
    *hostile.TARGETS,
    Onlookers,
    Todos,
    BundledFiles,
    ForeignFolders,
    CatalogueRows,
    HistoryRows,
    AgentSessions,
    KeptCopies,
]
