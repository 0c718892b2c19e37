"""Pi's family: agents that write trees of entries, as Sessiontree does.

A profile (``profiles.py``) says where such an agent keeps its sessions: to add an agent, add one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from sessiontree.core.usage import PAID_TYPES, paid_model_of, usage_of_entry
from sessiontree.discovery.adapters.base import (
    AgentAdapter,
    GetSummaries,
    Places,
    StrPath,
    find_files_below,
)
from sessiontree.discovery.adapters.lines import read_lines
from sessiontree.discovery.adapters.places import list_folders
from sessiontree.discovery.catalogue import fast_lines
from sessiontree.discovery.catalogue.answers import Answer, Answers, Reading, make_key, twin_of
from sessiontree.discovery.catalogue.summary import read_summary
from sessiontree.discovery.paths import artifacts_dir, list_session_folders
from sessiontree.discovery.recent import list_session_files
from sessiontree.discovery.texts import SaidText, texts_of_line
from sessiontree.model.header import is_header
from sessiontree.model.ids import parse_timestamp
from sessiontree.model.lines import Record, read_line
from sessiontree.profiles import Profile, get_profile, list_profiles, profile_in
from sessiontree.storage.base import FileStat, SessionStorageReader
from sessiontree.storage.file import FileSessionStorage

_UNKNOWN = "unknown"
OTHER_CALLS = "tools and summaries"
"""The model's name for paid calls that do not say which model it was."""
_COMMANDS = {
    "pi": ["pi", "--session"],
    "omp": ["omp", "--resume"],
    "xcsh": ["xcsh", "--resume"],
    "prime-agent": ["prime-agent", "--resume"],
    "omo": ["omo", "--session"],
    "stepcode": ["step", "--session"],
}
_TITLES = {"prime-agent": "Prime Agent", "omo": "OMO", "stepcode": "StepCode"}


class TreeAgent(AgentAdapter):
    """One profile's sessions."""

    is_own = True

    def __init__(
        self, name: str, title: str | None = None, *, profile: Profile | None = None
    ) -> None:
        self.name = name
        self.title = title or _TITLES.get(name, name)
        self._profile = profile
        self.dialect = (profile if profile is not None else get_profile(name)).dialect

    def profile(self, home: StrPath | None = None) -> Profile:
        """Return the profile; the environment may name another folder for it."""
        if self._profile is not None:
            return self._profile
        if home is not None:
            return profile_in(self.name, os.fspath(home))
        return next(each for each in list_profiles() if each.name == self.name)

    def find(self, home: StrPath | None, summaries: GetSummaries) -> Places:
        del summaries
        storage, profile = FileSessionStorage(), self.profile(home)
        found = Places()

        def report(folder: str, error: OSError) -> None:
            found.unreadable.append((folder, error.strerror or str(error)))

        try:
            folders = list_session_folders(profile, storage)
        except OSError as error:
            report(profile.sessions_dir, error)
            return found
        for folder in folders:
            found.folders[folder] = list_session_files(storage, folder, report)
        return found

    def belongings(self, found: Places) -> dict[str, list[FileStat]]:
        made: dict[str, list[FileStat]] = {}
        for folder, files in found.folders.items():
            owners = {artifacts_dir(stat.path): stat.path for stat in files}
            for inside in list_folders(folder):
                artifacts = find_files_below(inside) if inside in owners else []
                if artifacts:
                    made[owners[inside]] = artifacts
        return made

    def removed_names(self) -> set[str]:
        found = os.walk(self.profile().trash_dir)
        # The trash numbers what belongs to one session: 0-NAME.
        return {name.partition("-")[2] for _, _, names in found for name in names}

    def is_session(self, path: str, records: Sequence[dict[str, Any]]) -> bool:
        del path
        return any(is_header(record) for record in records[:2])

    def read(
        self, reader: SessionStorageReader, path: str, size: int, known: Reading | None
    ) -> Reading:
        del path
        summary = known.summary if known is not None else None
        return Reading(read_summary(reader, size, summary))

    def read_answers(
        self, reader: SessionStorageReader, path: str, size: int, known: Answers | None, start: int
    ) -> Answers:
        del path
        answers = known if known is not None else Answers()
        for line, offset in read_lines(reader, start, size):
            if b'"usage"' in line:
                for value in _decode_entries(line, offset):
                    add_paid(answers, value)
        return answers

    def texts_of_line(self, line: bytes, offset: int, *, include_tools: bool) -> Iterator[SaidText]:
        return texts_of_line(line, offset, include_tools=include_tools)

    def is_silent(self, data: bytes, start: int, end: int) -> bool:
        return fast_lines.is_tool_result(data, start, end)

    def resume_command(self, path: str, session_id: str) -> list[str] | None:
        del session_id
        command = _COMMANDS.get(self.name)
        return [*command, path] if command is not None else ["sessiontree", "--resume", path]


class _Message(msgspec.Struct, gc=False):
    role: Any = None
    provider: Any = None
    model: Any = None
    responseModel: Any = None  # noqa: N815 - the key in the file
    usage: Any = None


class _Line(msgspec.Struct, gc=False):
    type: str
    timestamp: Any = None
    provider: Any = None
    model: Any = None
    usage: Any = None
    message: _Message | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


def _decode_entries(line: bytes, offset: int) -> Iterator[dict[str, Any]]:
    try:
        fields = _decode_line(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        for item in read_line(line, offset, 0):
            if isinstance(item, Record):
                yield item.value
        return
    message = fields.message
    yield {
        "type": fields.type,
        "timestamp": fields.timestamp,
        "provider": fields.provider,
        "model": fields.model,
        "usage": fields.usage,
        "message": msgspec.structs.asdict(message) if message is not None else None,
    }


def add_paid(answers: Answers, value: dict[str, Any]) -> None:
    """Add what an entry says it used, if it says so."""
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in PAID_TYPES:
        return
    used = usage_of_entry(value)
    if used is None:
        return
    message = value.get("message")
    is_answer = kind == "message" and isinstance(message, dict) and message["role"] == "assistant"
    model = paid_model_of(value) or (_UNKNOWN if is_answer else OTHER_CALLS)
    time_ms = parse_timestamp(value.get("timestamp"))
    twin = twin_of(time_ms, used.input, used.output, used.cache_read)
    answers.rows.append(
        Answer(
            0,
            (twin if time_ms is not None else make_key("untimed", len(answers.rows), twin),),
            time_ms,
            answers.model_no(model),
            used.input,
            used.output,
            used.cache_read,
            used.cache_write,
            used.cost,
            used.reasoning,
            used.cache_write_1h,
            is_answer,
        )
    )
