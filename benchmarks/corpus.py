"""Deterministic sessions to measure on: the same seed and size give the same bytes.

Owns the shapes (a long conversation, a chain of small entries, a star, folders full of sessions)
and writes them in the plain version-3 form that pi, omp and we all read. Standard library only.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from benchmarks.bank import Bank
from benchmarks.transcripts import write_transcripts

SEED = 20_260_216
EPOCH_S = 1_750_000_000.0
RARE_WORD = "quokkafjord"
"""In the first prompt of every RARE_EVERY-th session."""
DEEP_WORD = "zephyrmarmot"
"""In an answer deep inside the same sessions, beyond any prefix or suffix that a lister reads."""
RARE_EVERY = 500
RARE_FIRST = 137
MEDIAN_SESSION_BYTES = 200_000
_MODELS = [
    ("anthropic", "claude-sonnet-4-5", "anthropic-messages"),
    ("openai", "gpt-5.2", "openai-responses"),
]
_TOOLS = ("bash", "read", "edit", "grep")


@cache
def banks() -> tuple[Bank, Bank]:
    return Bank(SEED, prose=True), Bank(SEED + 1, prose=False)


class SessionFile:
    """Writes one session entry by entry and knows the path it stands on."""

    def __init__(self, out: BinaryIO, seed: int, cwd: str, start_s: float = EPOCH_S) -> None:
        self._out = out
        self.r = random.Random(seed)
        self._id_offset = self.r.getrandbits(32)
        self._prose, self._output = banks()
        self._start_s = self._now_s = start_s
        self.size = 0
        self.count = 0
        self.tokens = 0
        """What all answers used."""
        self.path: list[bytes] = []
        self.prompts: list[int] = []
        self._provider, self._model, self._api = _MODELS[0]
        self.id = self._uuid7()
        self._line(
            {"type": "session", "version": 3, "id": self.id, "timestamp": self._iso(), "cwd": cwd}
        )

    @property
    def file_name(self) -> str:
        stamp = _iso(self._start_s).replace(":", "-").replace(".", "-")
        return f"{stamp}_{self.id}.jsonl"

    @property
    def last_s(self) -> float:
        return self._now_s

    def turn(
        self,
        calls: int,
        *,
        small: bool = False,
        prompt: str = "",
        answer: str = "",
        output: str = "",
    ) -> None:
        """A prompt, some tool calls with their results, and an answer."""
        self.user(small=small, extra=prompt)
        for number in range(calls):
            call = f"call_{self.r.getrandbits(64):016x}"
            self._assistant(small=small, call=call)
            self._result(call, small=small, extra="" if number else output)
        self._assistant(small=small, extra=answer)

    def user(self, *, small: bool = False, extra: str = "") -> None:
        text = self._text(self._prose, (50, 90) if small else (60, 1_600), extra)
        self.prompts.append(len(self.path))
        self._message(b'"role":"user","content":[{"type":"text","text":"' + text + b'"}]')

    def model_change(self) -> None:
        self._provider, self._model, self._api = self.r.choice(_MODELS)
        self._entry(
            b"model_change",
            f'"provider":"{self._provider}","modelId":"{self._model}",'
            f'"model":"{self._provider}/{self._model}","role":"default"'.encode(),
        )

    def label(self) -> None:
        target = self.r.choice(self.path)
        self._entry(b"label", b'"targetId":"%b","label":"mark %d"' % (target, self.count))

    def compaction(self) -> None:
        keep = self.path[self.prompts[-4]]
        summary = self._text(self._prose, (3_000, 5_000))
        self._entry(
            b"compaction",
            b'"summary":"%b","firstKeptEntryId":"%b","tokensBefore":150000' % (summary, keep),
        )

    def go_back(self, entries: int) -> None:
        """Leave this many entries on a branch of their own."""
        del self.path[-entries:]
        while self.prompts and self.prompts[-1] >= len(self.path):
            self.prompts.pop()

    def _assistant(self, *, small: bool, call: str | None = None, extra: str = "") -> None:
        blocks = []
        if not small and self.r.random() < 0.4:
            thought = self._text(self._prose, (200, 2_000))
            signature = b"%0300x" % self.r.getrandbits(1_200)
            blocks.append(
                b'{"type":"thinking","thinking":"%b","thinkingSignature":"%b"}'
                % (thought, signature)
            )
        text = self._text(self._prose, (50, 90) if small else (150, 4_000), extra)
        blocks.append(b'{"type":"text","text":"%b"}' % text)
        if call is not None:
            tool = self.r.choice(_TOOLS)
            code = self._text(self._output, (32, 40) if small else (64, 2_500))
            blocks.append(
                b'{"type":"toolCall","id":"%b","name":"%b","arguments":{"path":"src/m%d.py","content":"%b"}}'
                % (call.encode(), tool.encode(), self.r.randint(0, 999), code)
            )
        self._message(
            b'"role":"assistant","content":[%b],"api":"%b","provider":"%b","model":"%b",%b,"stopReason":"%b"'
            % (
                b",".join(blocks),
                self._api.encode(),
                self._provider.encode(),
                self._model.encode(),
                self._usage(),
                b"stop" if call is None else b"toolUse",
            )
        )

    def _result(self, call: str, *, small: bool, extra: str = "") -> None:
        text = self._text(self._output, (60, 120) if small else (1_000, 20_000), extra)
        self._message(
            b'"role":"toolResult","toolCallId":"%b","toolName":"bash","content":[{"type":"text","text":"%b"}],'
            b'"details":{"exitCode":0},"isError":false' % (call.encode(), text)
        )

    def _usage(self) -> bytes:
        i, o, read, write = (self.r.randint(1, 9_000) for _ in range(4))
        self.tokens += i + o + read + write
        return (
            b'"usage":{"input":%d,"output":%d,"cacheRead":%d,"cacheWrite":%d,"totalTokens":%d,'
            b'"cost":{"input":%.6f,"output":%.6f,"cacheRead":%.6f,"cacheWrite":%.6f,"total":%.6f}}'
            % (
                i,
                o,
                read,
                write,
                i + o + read + write,
                *(x * 3e-6 for x in (i, o, read, write)),
                i * 9e-6,
            )
        )

    def _text(self, bank: Bank, size: tuple[int, int], extra: str = "") -> bytes:
        text = bank.draw(self.r, *size)
        return text + b" " + extra.encode() if extra else text

    def _message(self, body: bytes) -> None:
        when = int(self._now_s * 1_000)
        self._entry(b"message", b'"message":{%b,"timestamp":%d}' % (body, when))

    def _entry(self, kind: bytes, body: bytes) -> None:
        # An odd multiplier permutes 32-bit numbers: ids look random and never repeat.
        made = b"%08x" % (self.count * 2_654_435_761 + self._id_offset & 0xFFFFFFFF)
        parent = b'"%b"' % self.path[-1] if self.path else b"null"
        self._now_s += 0.05 + 8 * self.r.random()
        head = b'{"type":"%b","id":"%b","parentId":%b,"timestamp":"%b",' % (
            kind,
            made,
            parent,
            self._iso().encode(),
        )
        self._write(head + body + b"}\n")
        self.path.append(made)
        self.count += 1

    def _line(self, value: dict[str, Any]) -> None:
        self._write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def _write(self, line: bytes) -> None:
        self._out.write(line)
        self.size += len(line)

    def _iso(self) -> str:
        return _iso(self._now_s)

    def _uuid7(self) -> str:
        when = int(self._start_s * 1_000)
        text = f"{when:012x}7{self.r.getrandbits(12):03x}8{self.r.getrandbits(60):015x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def write_conversation(
    path: Path,
    size: int,
    *,
    compact_at: float | None = None,
    seed: int = SEED,
    cwd: str = "/home/dev/project",
    start_s: float = EPOCH_S,
    rare: bool = False,
) -> SessionFile:
    """A conversation of about ``size`` bytes with side branches, labels and model changes.

    ``compact_at`` is the share of the size after which it is compacted, ``rare`` plants the two
    words that the search looks for.
    """
    with path.open("wb", buffering=1 << 20) as out:
        session = SessionFile(out, seed, cwd, start_s)
        session.model_change()
        session.turn(2, prompt=RARE_WORD if rare else "")
        _talk(session, size // 2)
        if rare:
            session.turn(1, answer=DEEP_WORD)
        if compact_at is not None:
            _talk(session, int(size * compact_at))
            session.compaction()
        _talk(session, size)
    os.utime(path, (session.last_s, session.last_s))
    return session


def write_long_run(path: Path, size: int, every: int) -> None:
    """A session that was compacted again and again: how one grows to hundreds of megabytes."""
    with path.open("wb", buffering=1 << 20) as out:
        session = SessionFile(out, SEED, "/home/dev/project")
        session.model_change()
        while session.size < size:
            _talk(session, min(session.size + every, size))
            if session.size < size:
                session.compaction()


def _talk(session: SessionFile, size: int) -> None:
    """Turns until the file has this size; never back beyond where this call began."""
    settled = len(session.path)
    while session.size < size:
        session.turn(session.r.randint(0, 8))
        chance = session.r.random()
        if chance < 0.03 and len(session.path) - settled > 24:
            session.go_back(session.r.randint(2, 20))
        elif chance < 0.05:
            session.model_change()
        elif chance < 0.07:
            session.label()


def write_chain(path: Path, entries: int) -> None:
    """Small entries, each the child of the one before."""
    with path.open("wb", buffering=1 << 20) as out:
        session = SessionFile(out, SEED, "/home/dev/project")
        while session.count < entries:
            session.turn(3, small=True)


def write_star(path: Path, children: int) -> None:
    """One node with this many children."""
    with path.open("wb", buffering=1 << 20) as out:
        session = SessionFile(out, SEED, "/home/dev/project")
        session.turn(1, small=True)
        for _ in range(children):
            session.user(small=True)
            session.go_back(1)


def write_messages(path: Path, count: int, *, small: bool) -> None:
    """The bare messages of a conversation, one a line: what an append is given."""
    with io.BytesIO() as out:
        session = SessionFile(out, SEED, "/home/dev/project")
        while session.count < count:
            session.turn(3, small=small)
        lines = out.getvalue().splitlines()[1 : count + 1]
    messages = [line[line.index(b'"message":{') + 10 : -1] for line in lines]
    path.write_bytes(b"\n".join(messages) + b"\n")


def project_folder(cwd: str) -> str:
    """The folder name in which an agent keeps this project's sessions."""
    return "--" + cwd.lstrip("/").replace("/", "-").replace(":", "-") + "--"


def write_projects(root: Path, sessions: int, projects: list[str]) -> list[Path]:
    """An agent folder with this many sessions spread over the projects, oldest first."""
    r = random.Random(SEED)
    made = []
    for number in range(sessions):
        cwd = projects[number % len(projects)]
        folder = root / "agent" / "sessions" / project_folder(cwd)
        folder.mkdir(parents=True, exist_ok=True)
        size = min(int(MEDIAN_SESSION_BYTES * r.lognormvariate(0, 0.9)), 8_000_000)
        temporary = folder / "writing"
        session = write_conversation(
            temporary,
            size,
            compact_at=0.8 if size > 1_000_000 else None,
            seed=SEED + 1_000 + number,
            cwd=cwd,
            start_s=EPOCH_S + 1_800.0 * number,
            rare=number % RARE_EVERY == RARE_FIRST,
        )
        made.append(temporary.rename(folder / session.file_name))
    return made


def _iso(when_s: float) -> str:
    when = datetime.fromtimestamp(int(when_s * 1_000) / 1_000, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass(frozen=True)
class Corpus:
    """The generated files below one folder, each made when first asked for."""

    root: Path

    def conversation(self, size: int) -> Path:
        return self._file(f"talk-{size}", lambda p: write_conversation(p, size))

    def compacted(self, size: int) -> Path:
        return self._file(
            f"compacted-{size}", lambda p: write_conversation(p, size, compact_at=0.8)
        )

    def long_run(self, size: int) -> Path:
        every = size // 60
        return self._file(f"long-run-{size}", lambda p: write_long_run(p, size, every))

    def messages(self, count: int, *, small: bool = False) -> Path:
        name = f"messages-{'small-' if small else ''}{count}"
        return self._file(name, lambda p: write_messages(p, count, small=small))

    def chain(self, entries: int) -> Path:
        return self._file(f"chain-{entries}", lambda p: write_chain(p, entries))

    def star(self, children: int) -> Path:
        return self._file(f"star-{children}", lambda p: write_star(p, children))

    def cwd(self, number: int = 0) -> Path:
        """A project folder that exists, as omp wants it."""
        folder = self.root / "cwd" / f"p{number:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def one_project(self, sessions: int) -> Path:
        """An agent folder whose sessions all belong to ``cwd()``."""
        cwd = str(self.cwd())
        return self.tree(f"one-{sessions}", lambda p: write_projects(p, sessions, [cwd]))

    def many_projects(self, sessions: int, projects: int = 50) -> Path:
        """An agent folder with the sessions of this many projects."""
        cwds = [str(self.cwd(number)) for number in range(projects)]
        return self.tree(f"many-{sessions}", lambda p: write_projects(p, sessions, cwds))

    def transcripts(self, sessions: int, projects: int = 12) -> Path:
        """A home folder with this many sessions of Claude Code."""
        cwds = [str(self.cwd(number)) for number in range(projects)]
        return self.tree(
            f"claude-code-{sessions}", lambda p: write_transcripts(p, sessions, cwds, banks())
        )

    def newest_of(self, tree: Path, sessions: int) -> Path:
        """An agent folder with hard links to the newest sessions of a one-project tree."""

        def link(root: Path) -> None:
            files = sorted(session_files(tree), key=lambda f: f.name)[-sessions:]
            folder = root / "agent" / "sessions" / files[0].parent.name
            folder.mkdir(parents=True)
            for file in files:
                (folder / file.name).hardlink_to(file)

        return self.tree(f"newest-{sessions}-of-{tree.name}", link)

    def _file(self, name: str, write: Callable[[Path], object]) -> Path:
        path = self.root / f"{name}.jsonl"
        if not path.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(".partial")
            write(temporary)
            temporary.rename(path)
        return path

    def tree(self, name: str, write: Callable[[Path], object]) -> Path:
        """A folder that ``write`` fills, once."""
        path = self.root / name
        if not path.exists():
            temporary = self.root / f"{name}.partial"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir(parents=True)
            write(temporary)
            temporary.rename(path)
        return path


def session_files(tree: Path) -> Iterator[Path]:
    """Every session file below an agent folder."""
    yield from (tree / "agent" / "sessions").glob("*/*.jsonl")
