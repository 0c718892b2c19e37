"""Convert a Codex rollout to a Transcript. Pure: records in, entries and a report out.

A rollout is two logs in one file. ``response_item`` records are the exchange with the model and
become messages. ``event_msg`` records are what the screen showed; they add what only they hold
(token counts, exit codes, rollbacks, names, and parts of interrupted turns). The format, as far as
it is known:

- ``session_meta`` comes first; in a fork or a subagent's file those of its ancestors may follow,
  with a copy of their history.
- The items of one answer (reasoning, text, calls) are separate records; they become one message.
- ``turn_context`` names the model and the effort of the turn.
- ``compacted`` puts a summary in place of what came before. Its text is missing if only the
  provider can read the summary; then the import hides nothing.
- ``thread_rolled_back`` removes turns: here it moves the leaf, and the turns stay as a branch.
- Files of 2025's first versions have bare items without an envelope.
"""

from __future__ import annotations

from sessiontree.discovery.adapters.codex_items import read_line
from sessiontree.discovery.adapters.codex_steps import Gatherer
from sessiontree.discovery.adapters.records import (
    RecordList,
    WireRecord,
    get_object,
    get_text,
    read_time,
)
from sessiontree.importers.codex_rollout import RolloutWriter
from sessiontree.importers.transcript import Transcript, TranscriptBuilder

AGENT = "codex"


def convert_codex(
    source: RecordList,
    *,
    session_id: str | None = None,
    title: str | None = None,
    fallback_ms: int = 0,
    inherited: int = 0,
) -> Transcript:
    """Convert a rollout's records. Never fails: odd records are kept or reported.

    ``session_id`` comes from the file's name, ``title`` from Codex's index, if any. The
    first ``inherited`` records belong to another session, which counts their tokens.
    """
    lines = [read_line(record) for record in source.records]
    meta = next((line.payload for line in lines if line.kind == "session_meta"), {})
    identity = get_text(meta, "id") or session_id or "unknown"
    times = [read_time(meta.get("timestamp")), *(read_time(line.timestamp) for line in lines)]
    found_ms = next((time for time in times if time is not None), None)
    started_ms = found_ms if found_ms is not None else fallback_ms
    builder = TranscriptBuilder(AGENT, identity, started_ms)
    builder.report.skipped = list(source.skipped)
    builder.report.records = len(lines)
    provider = get_text(meta, "model_provider") or "openai"
    gatherer = Gatherer(lines, provider, inherited)
    writer = RolloutWriter(builder, provider, lines)
    writer.write(gatherer.gather())
    builder.report.left_out.update(gatherer.left_out)
    contexts = (line.payload for line in lines if line.kind == "turn_context")
    cwds = (get_text(values, "cwd") for values in (meta, *contexts))
    name = gatherer.title or title
    return Transcript(
        AGENT,
        identity,
        started_ms,
        is_dated=found_ms is not None,
        cwd=next((cwd for cwd in cwds if cwd is not None), writer.cwd),
        title=name,
        title_source="user" if name is not None else None,
        parent_session=_parent_session(meta),
        entries=builder.entries,
        leaf_id=writer.tail,
        report=builder.report,
    )


def _parent_session(meta: WireRecord) -> str | None:
    spawned = get_object(get_object(get_object(meta, "source"), "subagent"), "thread_spawn")
    return (
        get_text(meta, "forked_from_id")
        or get_text(meta, "parent_thread_id")
        or get_text(spawned, "parent_thread_id")
        or get_text(get_object(meta, "history_base"), "thread_id")
    )
