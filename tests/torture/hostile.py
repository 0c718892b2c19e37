"""Readers of untrusted files, each with sound files to spoil. What a case raises is our fault.

``SessionTreeError`` is how a file is refused and may end any case. Each case follows from its
seed alone, so one that failed can be tried again::

    python -m tests.torture.hostile NAME SEED
"""

from __future__ import annotations

import abc
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.samples import user
from tests.torture.mutations import mutate
from tests.torture.operations import answer, picture

from sessiontree import (
    HistoryStorage,
    MemorySessionStorage,
    SessionManager,
    SessionTreeError,
    convert_to_llm,
    get_recent_sessions,
    load_entries_from_file,
    search,
)
from sessiontree.core.compaction import CompactionSettings, plan_compaction
from sessiontree.core.usage import count_messages, estimate_context, total_usage
from sessiontree.discovery import catalogue
from sessiontree.discovery.breadcrumbs import read_breadcrumb
from sessiontree.discovery.listing import list_sessions
from sessiontree.discovery.resume import choose_recent
from sessiontree.discovery.search import index
from sessiontree.export.bundle_export import export_bundle, import_bundle
from sessiontree.export.convert import convert_session
from sessiontree.export.documents import render_json, render_markdown
from sessiontree.export.handover import HANDOVER_AGENTS, hand_over, resume_command
from sessiontree.export.redact import Redactor
from sessiontree.export.view import open_view
from sessiontree.importers.imports import import_session
from sessiontree.maintenance.checkup import check_profile, repair_findings
from sessiontree.maintenance.gc import find_garbage
from sessiontree.profiles import get_profile
from sessiontree.runtime.models import ModelRegistry
from sessiontree.stores.files.trash import list_trash, move_to_trash, restore
from sessiontree.text.escaping import HAZARDS

GOLDEN = Path(__file__).parents[1] / "golden"


class Target(abc.ABC):
    """Something that reads files. ``seeds`` are sound ones; a case spoils one and has it read."""

    name = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seeds = self.make_seeds()

    @abc.abstractmethod
    def make_seeds(self) -> list[bytes]: ...

    def __call__(self, rng: random.Random) -> str:
        data = mutate(rng.choice(self.seeds), rng, self.seeds)
        try:
            self.read(data, rng)
        except SessionTreeError:
            return "refused"
        return "read"

    @abc.abstractmethod
    def read(self, data: bytes, rng: random.Random) -> None: ...

    def room(self) -> Path:
        """An empty folder to work in."""
        room = self.folder / "room"
        shutil.rmtree(room, ignore_errors=True)
        room.mkdir()
        return room

    @contextlib.contextmanager
    def session_place(self) -> Iterator[Path]:
        """Where a session lies in an agent folder of its own; no file is there yet."""
        room = self.room()
        with agent_dirs(room):
            folder = room / "agent" / "sessions" / "--p--"
            folder.mkdir(parents=True)
            yield folder / "2026-02-16T10-20-30-000Z_1f9d2a6b9c0d1234.jsonl"


def session_seeds() -> list[bytes]:
    """Every kind of session file that the reference documents show, and long, branched ones."""
    files = [path for path in GOLDEN.glob("*/*.jsonl") if path.parent.name in _AGENTS]
    found = [path.read_bytes() for path in sorted(files)]
    storage = MemorySessionStorage()
    session = SessionManager.open("/s.jsonl", storage=storage)
    rng = random.Random(5)
    for number in range(40):
        made = rng.choice([user(f"u{number}"), answer(f"a{number}"), picture(number % 3)])
        session.append_message(made)
        if number % 9 == 8:
            session.branch(rng.choice(session.get_entries()).id)
        if number % 13 == 12:
            session.append_compaction("sum", rng.choice(session.get_entries()).id, 5)
            session.append_label_change(rng.choice(session.get_entries()).id, "label")
    session.close()
    return [*found, storage.read("/s.jsonl")]


_AGENTS = ("core", "omp", "pi", "xcsh")


# -- session files -----------------------------------------------------------------------------


def look_at(session: SessionManager) -> None:
    """Everything that only reads."""
    entries = session.get_entries()
    for entry in entries:
        assert isinstance(entry.data, dict)
    nodes, stack = 0, session.get_tree()
    while stack:
        node = stack.pop()
        nodes += 1
        stack += node.children
    assert nodes == len(entries), "the tree does not hold every entry once"
    context = session.build_session_context()
    convert_to_llm(context.messages, repair=True)
    total_usage({"type": "message", "message": m} for m in context.messages)
    count_messages(context.messages)
    estimate_context(context.messages)
    assert isinstance(session.session_name, str | None)
    assert all(str(warning) for warning in session.warnings)
    with contextlib.suppress(SessionTreeError):
        plan_compaction(session.get_branch(), CompactionSettings(keep_recent_tokens=20))


def work_on(session: SessionManager, rng: random.Random) -> str:
    """A little of everything that writes; the id of what was said last."""
    entries = session.get_entries()
    if entries and rng.random() < 0.5:
        session.branch(rng.choice(entries).id)
    session.append_message(user("one more"))
    if rng.random() < 0.3:
        session.set_session_name("name")
    if rng.random() < 0.3:
        session.rewrite_entries()
    last = session.append_message(answer("the last"))
    if rng.random() < 0.1:
        session.create_branched_session(last)
    session.close()
    return last


class SessionInMemory(Target):
    """The whole life of a spoiled session; nothing that could be read is lost by going on."""

    name = "sessions"

    def make_seeds(self) -> list[bytes]:
        return session_seeds()

    def read(self, data: bytes, rng: random.Random) -> None:
        storage = MemorySessionStorage()
        storage.ensure_dir("/x")
        storage.write_atomic("/x/s.jsonl", data)
        before = said_in(storage, "/x/s.jsonl")
        session = SessionManager.open("/x/s.jsonl", storage=storage)
        look_at(session)
        last = work_on(session, rng)
        again = SessionManager.open(str(session.session_file), storage=storage)
        assert again.get_entry(last) is not None, "what was appended is not there"
        look_at(again)
        if session.session_file == "/x/s.jsonl":
            after = said_in(storage, "/x/s.jsonl")
            kept = storage.read("/x/s.jsonl") + b"".join(
                storage.read(file.path) for file in storage.list_files("/x")
            )
            lost = [text for text in before if text not in after and text not in kept]
            assert not lost, f"lost by going on: {lost[0]!r:.200}"


def said_in(storage: MemorySessionStorage, path: str) -> list[bytes]:
    """What users and models said in short words, as bytes that a file would hold."""
    found = []
    for record in load_entries_from_file(path, storage=storage):
        message = record.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str) and len(content) < 400_000 and _is_simple(content):
            found.append(content.encode())
    return found


def _is_simple(text: str) -> bool:
    return text.isascii() and text.isalnum()


class SessionOnDisk(Target):
    """A spoiled file in a real folder, and every command's way of reading it."""

    name = "session files"

    def make_seeds(self) -> list[bytes]:
        return session_seeds()

    def read(self, data: bytes, rng: random.Random) -> None:
        with self.session_place() as path:
            path.write_bytes(data)
            for look in rng.sample(LOOKS, 3):
                look(path)
                assert path.read_bytes() == data, f"{look.__name__} changed the file"
            with contextlib.suppress(SessionTreeError):
                rng.choice(CHANGES)(path)


def _list(path: Path) -> None:
    list_sessions("/p", path.parent)
    get_recent_sessions(path.parent)
    for info in get_recent_sessions(path.parent):
        assert info.name
        assert not HAZARDS.search(info.name)
        assert info.time_ago


def _resume(path: Path) -> None:
    choose_recent("/p", path.parent)


def _find(path: Path) -> None:
    search("answer OR u1", include_tools=True)
    search('"one more"')


def _export(path: Path) -> None:
    with contextlib.suppress(SessionTreeError), open_view(path) as view:
        "".join(render_markdown(view, redactor=Redactor()))
    with contextlib.suppress(SessionTreeError), open_view(path) as view:
        json.loads("".join(render_json(view, redactor=Redactor())))


def _bundle(path: Path) -> None:
    target = path.parents[3] / "out.zip"
    with contextlib.suppress(SessionTreeError):
        export_bundle(path, target)
        import_bundle(target, session_dir=path.parents[3] / "taken")


def _convert(path: Path) -> None:
    with contextlib.suppress(SessionTreeError):
        convert_session(path, "pi")


def _hand_over(path: Path) -> None:
    """As a session of another agent; what was written can be read back as one."""
    for agent in HANDOVER_AGENTS:
        home = path.parents[3] / "home"
        try:
            with open_view(path) as view:
                made = hand_over(view, agent, source_agent="sessiontree", home=home)
        except SessionTreeError:
            continue
        assert Path(made.path).is_relative_to(home)
        resume_command(made)
        import_session(made.path, agent=agent, session_dir=path.parents[3] / "taken")


def _check(path: Path) -> None:
    check_profile(get_profile(), deep=True, secrets=True)
    find_garbage(get_profile())


LOOKS = [_list, _resume, _find, _export, _bundle, _convert, _hand_over, _check]


def _open(path: Path) -> None:
    session = SessionManager.open(path)
    look_at(session)
    work_on(session, random.Random(1))


def _fork(path: Path) -> None:
    look_at(SessionManager.fork_from(path, path.parent))


def _trash(path: Path) -> None:
    data = path.read_bytes()
    restore(move_to_trash(path, profile=get_profile()))
    assert path.read_bytes() == data


def _repair(path: Path) -> None:
    found = check_profile(get_profile(), deep=True)
    repair_findings(found.findings, get_profile())


CHANGES = [_open, _fork, _trash, _repair]


@contextlib.contextmanager
def agent_dirs(room: Path) -> Iterator[None]:
    """The environment says that agent and cache folders are in this room."""
    values = {
        "HOME": str(room / "home"),
        "SESSIONTREE_AGENT_DIR": str(room / "agent"),
        "SESSIONTREE_CACHE_DIR": str(room / "cache"),
        "TMUX_PANE": "%7",
    }
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        catalogue.forget_process_memory()
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# -- blobs -------------------------------------------------------------------------------------


class Blobs(Target):
    """A session whose stored pictures and long texts were spoiled, swapped or linked elsewhere."""

    name = "blobs"

    def make_seeds(self) -> list[bytes]:
        room = self.folder / "sound"
        room.mkdir()
        with agent_dirs(room):
            session = SessionManager.create(room / "project")
            session.append_message(picture(1))
            session.append_message(user("long " * 110_000))
            session.append_message(answer("end"))
            session.close()
            self.file = os.path.relpath(str(session.session_file), room)
        return [path.read_bytes() for path in (room / "agent" / "blobs").iterdir()]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        room.rmdir()
        shutil.copytree(self.folder / "sound", room)
        with agent_dirs(room):
            for blob in (room / "agent" / "blobs").iterdir():
                if rng.random() < 0.7:
                    blob.write_bytes(data if rng.random() < 0.8 else b"")
            session = SessionManager.open(room / self.file)
            look_at(session)
            session.append_message(picture(1))
            session.rewrite_entries()
            session.close()
            again = SessionManager.open(room / self.file)
            assert again.get_entries()[-1].data["message"] == picture(1), "not stored anew"


# -- databases ---------------------------------------------------------------------------------


class Catalogue(Target):
    """A spoiled catalogue or search index still knows all sessions, and no others."""

    name = "catalogues"

    def make_seeds(self) -> list[bytes]:
        room = self.folder / "sound"
        room.mkdir()
        with agent_dirs(room):
            for number in range(6):
                with SessionManager.create(room / "project") as session:
                    session.append_message(user(f"find the needle {number}"))
                    session.append_message(answer(f"in the haystack {number}"))
            self.listed, self.found = self._ask(room)
            self.paths = [catalogue.SCHEMA.path, index.SCHEMA.path]
        return [Path(path).read_bytes() for path in self.paths]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        room.rmdir()
        shutil.copytree(self.folder / "sound" / "cache", room / "cache")
        self.spoil(room / "cache", data, rng)
        with agent_dirs(self.folder / "sound"):
            os.environ["SESSIONTREE_CACHE_DIR"] = str(room / "cache")
            for _ in range(2):
                listed, found = self._ask(self.folder / "sound")
                # a flipped bit in a number is nothing that could be noticed
                assert listed == self.listed, "the listing is another one"
                assert found <= self.found, "the search finds what is not there"

    def spoil(self, cache: Path, data: bytes, rng: random.Random) -> None:
        for name in sorted(os.listdir(cache)):
            if name.endswith(".sqlite3") and rng.random() < 0.7:
                (cache / name).write_bytes(data)
            elif rng.random() < 0.2:
                (cache / name).write_bytes(data[:5_000])

    def _ask(self, room: Path) -> tuple[set[str], set[str]]:
        catalogue.forget_process_memory()
        listed = {info.path for info in list_sessions(room / "project")}
        return listed, {match.path for match in search("needle haystack", limit=None)}


class History(Target):
    """A spoiled prompt history: recall works, new prompts are kept, sound rows are not lost."""

    name = "history databases"

    def make_seeds(self) -> list[bytes]:
        path = self.folder / "sound.db"
        with HistoryStorage(path) as history:
            for number in range(300):
                history.add(f"prompt number {number} about parsers", cwd=f"/p{number % 3}")
        return [path.read_bytes()]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        path = room / "history.db"
        path.write_bytes(data)
        with HistoryStorage(path) as history:
            with contextlib.suppress(SessionTreeError):
                for entry in history.recent(20):
                    assert isinstance(entry.prompt, str)
                history.search('parser "x" OR c++ *', 10)
            history.add("a new prompt")
            if not _settle(history):
                reason = str(history.error)
                assert "another program" in reason, (
                    f"a damaged database was not set aside: {reason}"
                )
                return
        with HistoryStorage(path) as history:
            assert history.search("a new prompt", 1)[0].prompt == "a new prompt"


def _settle(history: HistoryStorage) -> bool:
    """Whether all is written; waits until it is, or until it was refused."""
    for _ in range(200):
        if history.flush(0.1):
            return True
        if history.error is not None:
            break
    return history.flush(0.1)


# -- small files -------------------------------------------------------------------------------


class Breadcrumbs(Target):
    name = "breadcrumbs"

    def make_seeds(self) -> list[bytes]:
        self.sessions = self.folder / "sessions"
        outside = self.folder.parent / "outside" / "secret"
        return [
            f"/project\n{self.sessions}/a.jsonl\n".encode(),
            f"/project\n{outside}\nmore\n".encode(),
            f"/project\n../../../..{outside}\n".encode(),
        ]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        with agent_dirs(room):
            crumbs = room / "agent" / "terminal-sessions"
            crumbs.mkdir(parents=True)
            (crumbs / "tmux-%7").write_bytes(data)
            found = read_breadcrumb(get_profile(), "/project", terminal="tmux-%7")
            assert found is None or os.path.exists(found)
            choose_recent("/project")
            find_garbage(get_profile())


class Models(Target):
    name = "models.toml"

    def make_seeds(self) -> list[bytes]:
        import sessiontree.runtime

        packaged = Path(sessiontree.runtime.__file__).with_name("models.toml").read_bytes()
        own = (
            b'default = "ollama/qwen3:32b"\ndefault_thinking = "low"\n'
            b'[[models]]\nprovider = "ollama"\nid = "qwen3:32b"\ncontext_window = 40960\n'
            b'max_thinking = "high"\nimages = true\n[models.prices]\ninput = 1.5\n'
            b'[[providers]]\nid = "my-gateway"\ncontext_window = 128000\n'
        )
        return [own, own, packaged[:3_000]]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        (room / "models.toml").write_bytes(data)
        registry = ModelRegistry.load(room)
        assert len(registry) > 0, "the packaged models are gone"
        for model in registry:
            assert model.context_window > 0
            model.cost(10, 10)
            assert model.thinking_levels
        registry.resolve("ollama/qwen3:32b")
        assert all("\n" not in warning for warning in registry.warnings)


class TrashAndRegistries(Target):
    """Manifests of the trash and the list of folders: nothing outside is moved or removed."""

    name = "trash manifests"

    def make_seeds(self) -> list[bytes]:
        room = self.room()
        with agent_dirs(room):
            session = SessionManager.create(room / "project")
            session.append_message(answer("x"))
            session.close()
            item = move_to_trash(str(session.session_file), profile=get_profile())
            manifest = (Path(item.folder) / "manifest.json").read_bytes()
        outside = str(self.folder.parent / "outside" / "secret")
        hostile = json.loads(manifest)
        hostile["pieces"][0]["from"] = outside
        climbing = json.loads(manifest)
        climbing["pieces"][0]["name"] = "../../../../../outside/secret"
        return [manifest, json.dumps(hostile).encode(), json.dumps(climbing).encode()]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        with agent_dirs(room):
            folder = room / "agent" / "trash" / "item"
            folder.mkdir(parents=True)
            (folder / "manifest.json").write_bytes(data)
            (folder / "0-x.jsonl").write_bytes(b"x")
            (room / "agent" / "session-dirs").write_bytes(data)
            for item in list_trash(get_profile()):
                with contextlib.suppress(SessionTreeError):
                    restore(item)
            check_profile(get_profile())
            find_garbage(get_profile())


# -- what comes from elsewhere -----------------------------------------------------------------


class Bundles(Target):
    name = "bundles"

    def make_seeds(self) -> list[bytes]:
        room = self.room()
        with agent_dirs(room):
            session = SessionManager.create(room / "project")
            session.append_message(picture(1))
            session.append_message(answer("x"))
            artifacts = Path(str(session.artifacts_dir))
            (artifacts / "deep").mkdir(parents=True)
            (artifacts / "deep" / "note.txt").write_text("kept")
            session.close()
            export_bundle(str(session.session_file), room / "b.zip")
            return [(room / "b.zip").read_bytes()]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        with agent_dirs(room):
            (room / "b.zip").write_bytes(data)
            report = import_bundle(room / "b.zip")
            look_at(SessionManager.open(report.session_path))


class ForeignSessions(Target):
    name = "foreign sessions"

    def make_seeds(self) -> list[bytes]:
        files = [*GOLDEN.glob("claude-code/*.jsonl"), *GOLDEN.glob("codex/**/*.jsonl")]
        return [path.read_bytes() for path in sorted(files)]

    def read(self, data: bytes, rng: random.Random) -> None:
        room = self.room()
        with agent_dirs(room):
            source = room / "5f2c81d0-0000-4000-8000-000000000001.jsonl"
            source.write_bytes(data)
            agent = rng.choice(["claude-code", "codex", None])
            report = import_session(source, agent=agent)
            look_at(SessionManager.open(report.path))
            import_session(source, agent=agent)


TARGETS: list[type[Target]] = [
    SessionInMemory,
    SessionOnDisk,
    Blobs,
    Catalogue,
    History,
    Breadcrumbs,
    Models,
    TrashAndRegistries,
    Bundles,
    ForeignSessions,
]


def try_again(name: str, seed: int, targets: list[type[Target]] = TARGETS) -> None:
    """Run one case in this process, without a cage."""
    found = {target.name: target for target in targets}[name]
    with tempfile.TemporaryDirectory() as folder:
        cage = Path(folder) / "cage"
        cage.mkdir()
        (Path(folder) / "outside").mkdir()
        print(found(cage)(random.Random(seed)))


if __name__ == "__main__":
    from tests.torture import onlookers

    try_again(sys.argv[1], int(sys.argv[2]), onlookers.TARGETS)
