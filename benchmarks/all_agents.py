"""A home folder with sessions of Claude Code, Codex and pi whose truth is known.

Owns which sessions hold which words and how many tokens were paid for: speed without truth is worth
nothing. ``truth.json`` in the folder says it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.corpus import EPOCH_S, Corpus, SessionFile, banks, project_folder
from benchmarks.rollouts import Rollout
from benchmarks.transcripts import Transcript

RARE = "quokkafjord"
"""In a prompt; some sessions have only its plural."""
PHRASE = "tangerine lighthouse protocol"
"""In an answer; some sessions have only its words, in another order."""
CHINESE = "量子纠缠缓存"
"""In a prompt; some sessions have its words apart."""
PRINTED = "obsidianheron"
"""In what a tool printed."""
GROWN = "walrusgrape"
NEW = "newcomerfig"
_DECOYS = (
    {"prompt": "quokkafjords"},
    {"prompt": "请检查缓存量子的纠缠"},
    {"answer": "the protocol of the lighthouse, not of the tangerine"},
)
_PLANTED = {
    RARE: {"prompt": RARE},
    CHINESE: {"prompt": f"请检查{CHINESE}的实现"},
    PHRASE: {"answer": f"see the {PHRASE} here"},
    PRINTED: {"output": PRINTED},
}
_EVERY = 80
_PROJECTS = 12
_DAY_S = 86_400.0
_BIG_EXCHANGES = 420
_NEW_SESSIONS = 20


@dataclass
class Truth:
    """What is in the folder."""

    sessions: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    """Tokens of all kinds, by agent; those of a copied answer once."""
    holders: dict[str, list[str]] = field(default_factory=dict)
    """The ids of the sessions that hold each planted word."""
    big: str = ""
    """A transcript of some megabytes, below the folder."""
    grown: str = ""
    """The transcript that grows, and its size at first."""
    grown_bytes: int = 0


@dataclass(frozen=True)
class AllAgents:
    """The folder, and the changes that a benchmark makes in it and takes back."""

    root: Path
    truth: Truth

    @classmethod
    def ensure(cls, corpus: Corpus, counts: Sequence[int]) -> AllAgents:
        """Make the folder once: so many sessions of Claude Code, Codex and pi."""
        name = "all-agents-" + "-".join(map(str, counts))
        root = corpus.tree(name, lambda path: _write(path, counts))
        made = cls(root, Truth(**json.loads((root / "truth.json").read_text())))
        made.take_back()
        return made

    def grow(self) -> None:
        """Add a prompt to one transcript."""
        path = self.root / self.truth.grown
        last = json.loads(path.read_bytes().splitlines()[-2])
        message = {"role": "user", "content": f"And now the {GROWN}."}
        uuid = f"{os.urandom(4).hex()}-0000-4000-8000-{os.urandom(6).hex()}"
        record = {**last, "type": "user", "uuid": uuid, "parentUuid": last["uuid"]}
        record.pop("requestId", None)
        with path.open("ab") as file:
            file.write(json.dumps({**record, "message": message}).encode() + b"\n")
            file.write(b'{"type":"last-prompt","lastPrompt":"..."}\n')

    def add_new(self) -> None:
        """Twenty sessions that were not there before, in place of those of the last call."""
        self._remove_new()
        folder = self._new_folder
        folder.mkdir(parents=True)
        for _ in range(_NEW_SESSIONS):
            made = Transcript(int.from_bytes(os.urandom(6)), self._cwd, EPOCH_S, banks())
            made.exchange(prompt=NEW)
            made.exchange()
            (folder / f"{made.id}.jsonl").write_bytes(_joined(made.lines))

    def take_back(self) -> None:
        """Undo what was added."""
        self._remove_new()
        os.truncate(self.root / self.truth.grown, self.truth.grown_bytes)

    @property
    def _cwd(self) -> str:
        return str(self.root / "src" / "new")

    @property
    def _new_folder(self) -> Path:
        return self.root / ".claude" / "projects" / "-new"

    def _remove_new(self) -> None:
        shutil.rmtree(self._new_folder, ignore_errors=True)


def _write(root: Path, counts: Sequence[int]) -> None:
    truth = Truth()
    writers: dict[str, Callable[..., tuple[str, int, int]]] = {
        "claude-code": _write_claude,
        "codex": _write_codex,
        "pi": _write_pi,
    }
    for at, (agent, write) in enumerate(writers.items()):
        truth.tokens[agent] = 0
        for number in range(counts[at]):
            word, words = _planted(number)
            cwd = str(root.with_suffix("") / "src" / f"project-{number % _PROJECTS:02d}")
            start_s = EPOCH_S + 120 * _DAY_S * number / counts[at]
            made, tokens, files = write(root, truth, number, cwd, start_s, words)
            truth.sessions += files
            truth.tokens[agent] += tokens
            if word:
                truth.holders.setdefault(word, []).append(made)
    (root / "truth.json").write_text(json.dumps(vars(truth)))


def _planted(number: int) -> tuple[str, dict[str, str]]:
    """The word that this session of an agent holds, if any, and what it says where."""
    for at, (word, words) in enumerate(_PLANTED.items()):
        if number % _EVERY == 5 + 7 * at:
            return word, words
    for at, words in enumerate(_DECOYS):
        if number % _EVERY == 40 + 7 * at:
            return "", words
    return "", {}


def _exchanges(session: Any, words: dict[str, str]) -> None:
    for turn in range(int(2 * 20 ** session.r.random())):
        session.exchange(**(words if turn == 1 else {}))


def _write_claude(
    root: Path, truth: Truth, number: int, cwd: str, start_s: float, words: dict[str, str]
) -> tuple[str, int, int]:
    session = Transcript(number, cwd, start_s, banks())
    folder = root / ".claude" / "projects" / "".join(c if c.isalnum() else "-" for c in cwd)
    path = folder / f"{session.id}.jsonl"
    _exchanges(session, words)
    if number == 0:
        for _ in range(_BIG_EXCHANGES):
            session.exchange()
        truth.big = str(path.relative_to(root))
    if number % 33 == 1:
        _put(folder / session.id / "subagents" / "agent-a1b2c3d.jsonl", session.subagent(), start_s)
    _put(path, session.lines, start_s)
    if number == 1:
        truth.grown, truth.grown_bytes = str(path.relative_to(root)), path.stat().st_size
    files = 1
    if number % 50 == 2 and not words:
        lines, session_id = session.fork()
        _put(folder / f"{session_id}.jsonl", lines, start_s + 60)
        files = 2
    return session.id, session.used.total(), files


def _write_codex(
    root: Path, truth: Truth, number: int, cwd: str, start_s: float, words: dict[str, str]
) -> tuple[str, int, int]:
    del truth
    session = Rollout(number, cwd, start_s, banks())
    _exchanges(session, words)
    _put(root / ".codex" / "sessions" / session.file_name, session.lines, session.last_s)
    return session.id, session.tokens, 1


def _write_pi(
    root: Path, truth: Truth, number: int, cwd: str, start_s: float, words: dict[str, str]
) -> tuple[str, int, int]:
    del truth
    folder = root / ".pi" / "agent" / "sessions" / project_folder(cwd)
    folder.mkdir(parents=True, exist_ok=True)
    writing = folder / "writing"
    with writing.open("wb") as out:
        session = SessionFile(out, number, cwd, start_s)
        for turn in range(int(2 * 20 ** session.r.random())):
            _turn(session, words if turn == 1 else {})
    os.utime(writing, (session.last_s, session.last_s))
    writing.rename(folder / session.file_name)
    return session.id, session.tokens, 1


def _turn(session: SessionFile, words: dict[str, str]) -> None:
    prompt, answer, output = (words.get(where, "") for where in ("prompt", "answer", "output"))
    session.turn(session.r.randint(1, 5), prompt=prompt, answer=answer, output=output)


def _put(path: Path, lines: Sequence[bytes], when_s: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_joined(lines))
    os.utime(path, (when_s, when_s))


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
