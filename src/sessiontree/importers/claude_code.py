"""Convert a Claude Code transcript. Pure: records in, entries and a report out.

The format is undocumented and changes with every release, so every field is optional. What
is known of it (versions 1.0 to 2.1):

- Records with a ``uuid`` form a tree by ``parentUuid``; the others are notes on the
  file (titles, snapshots, queue) and keep their position.
- One answer of the model is several ``assistant`` records that share ``message.id``, one a block.
  They become one message, and the results of its calls follow in order of arrival, although
  in the file each result's parent is the record of its own call.
- ``system``/``compact_boundary`` starts a new root; ``logicalParentUuid`` is what it follows, the
  ``isCompactSummary`` prompt after it is the summary, and ``preservedSegment`` names the records
  that stay in context.
- Sidechains (subagents) are conversations of their own, in the same file or in ``agent-*.jsonl``.
  They become separate roots in the same session, each below a ``claude-code.sidechain`` entry
  that names its caller: the context there is what the subagent saw, and none of it
  enters the main conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sessiontree.discovery.adapters.claude_content import tool_results
from sessiontree.discovery.adapters.records import (
    RecordList,
    WireRecord,
    get_object,
    get_text,
    read_time,
)
from sessiontree.importers.claude_plan import Spending
from sessiontree.importers.claude_thread import ThreadConverter
from sessiontree.importers.transcript import ConversionReport, Transcript, TranscriptBuilder

AGENT = "claude-code"

_TITLES = (
    ("custom-title", "customTitle", "user"),
    ("agent-name", "agentName", "user"),
    ("ai-title", "aiTitle", "auto"),
)
"""Record type, field, and whose title it is; a user's wins, then the latest."""


@dataclass(slots=True)
class Sidechain:
    """One subagent's transcript: the records of its file, and its metadata."""

    agent_id: str
    records: list[WireRecord] = field(default_factory=list)
    meta: WireRecord = field(default_factory=dict)


def convert_claude_code(
    main: RecordList,
    *,
    session_id: str | None = None,
    sidechains: Sequence[Sidechain] = (),
    fallback_ms: int = 0,
    is_subagent: bool = False,
) -> Transcript:
    """Convert a transcript's records. Never fails: odd records are kept or reported.

    ``session_id`` is the name of the file; ``fallback_ms`` the time of records that have none. With
    ``is_subagent`` the file is a subagent's, and its sidechain is the conversation.
    """
    records = main.records
    identity = session_id or _first(records, "sessionId") or "unknown"
    found_ms = _started(records)
    started_ms = found_ms if found_ms is not None else fallback_ms
    builder = TranscriptBuilder(AGENT, identity, started_ms)
    builder.report.skipped = list(main.skipped)
    builder.report.records = len(records) + sum(len(chain.records) for chain in sidechains)

    chains = _Sidechains(sidechains)
    own = [record for record in records if is_subagent or not chains.take(record)]
    chains.drop_repeated(own, builder.report)
    spending = Spending()
    for part in (own, *(chain.records for chain in chains.in_order())):
        spending.read(part)
    thread = ThreadConverter(
        builder, own, spending, elsewhere=chains.uuids(), fallback_ms=started_ms
    )
    thread.convert()
    transcript = Transcript(
        AGENT,
        identity,
        started_ms,
        is_dated=found_ms is not None,
        cwd=_first(records, "cwd"),
        parent_session=_parent_session(records, identity),
        report=builder.report,
    )
    transcript.title, transcript.title_source = _find_title(own, thread)
    transcript.leaf_id = thread.leaf_id
    callers = _find_callers(own)
    elsewhere = {uuid for record in own if (uuid := get_text(record, "uuid")) is not None}
    for chain in chains.in_order():
        _add_sidechain(builder, chain, callers, thread, spending, elsewhere)
    transcript.entries = builder.entries
    return transcript


def _add_sidechain(
    builder: TranscriptBuilder,
    chain: Sidechain,
    callers: dict[str, str],
    main: ThreadConverter,
    spending: Spending,
    elsewhere: set[str],
) -> None:
    """Add the subagent's conversation under a root that describes it."""
    if not chain.records:
        return
    found_ms = _started(chain.records)
    started_ms = found_ms if found_ms is not None else builder.take_time(None)
    builder.set_time(started_ms)
    call_id = get_text(chain.meta, "toolUseId") or callers.get(chain.agent_id)
    data: WireRecord = {"agentId": chain.agent_id}
    for key in ("agentType", "description", "parentAgentId"):
        value = get_text(chain.meta, key)
        if value is not None:
            data[key] = value
    if call_id is not None:
        data["toolCallId"] = call_id
        if call_id in main.entry_of_call:
            data["calledFrom"] = main.entry_of_call[call_id]
    fields = {"customType": f"{AGENT}.sidechain", "data": data}
    root = builder.add("custom", ("sidechain", chain.agent_id), None, fields)
    ThreadConverter(
        builder, chain.records, spending, base=root, elsewhere=elsewhere, fallback_ms=started_ms
    ).convert()


class _Sidechains:
    """Assign the sidechain records of the main file to their subagents."""

    def __init__(self, chains: Sequence[Sidechain]) -> None:
        self._by_agent = {
            chain.agent_id: Sidechain(chain.agent_id, list(chain.records), chain.meta)
            for chain in chains
        }
        self._by_record: dict[str, Sidechain] = {}

    def take(self, record: WireRecord) -> bool:
        """Add the record to its chain, if it belongs to a sidechain.

        Older files name no agent: a record without a parent starts a chain, and the others join
        the chain of their parent.
        """
        uuid = get_text(record, "uuid")
        if record.get("isSidechain") is not True or uuid is None:
            return False
        chain = self._by_record.get(get_text(record, "parentUuid") or "")
        if chain is None or get_text(record, "agentId") is not None:
            name = get_text(record, "agentId") or uuid
            chain = self._by_agent.setdefault(name, Sidechain(name))
        chain.records.append(record)
        self._by_record[uuid] = chain
        return True

    def drop_repeated(self, main: Sequence[WireRecord], report: ConversionReport) -> None:
        """Leave out records that the main conversation or an earlier subagent already holds.

        A subagent that compacts the conversation (``agent-acompact-*``) begins with a copy of it.
        """
        seen = {uuid for record in main if (uuid := get_text(record, "uuid")) is not None}
        for chain in self.in_order():
            uuids = {uuid for each in chain.records if (uuid := get_text(each, "uuid")) is not None}
            kept = [each for each in chain.records if get_text(each, "uuid") not in seen]
            if len(kept) < len(chain.records):
                report.left_out["repeated records"] += len(chain.records) - len(kept)
                # Notes without the conversation they describe are useless.
                is_bare = not any(get_text(each, "uuid") for each in kept)
                chain.records = [] if is_bare else kept
            seen |= uuids

    def uuids(self) -> set[str]:
        """The uuids of all records of subagents."""
        return {
            uuid
            for chain in self._by_agent.values()
            for record in chain.records
            if (uuid := get_text(record, "uuid")) is not None
        }

    def in_order(self) -> list[Sidechain]:
        """Sort the sidechains by their first record's time."""
        return sorted(
            self._by_agent.values(),
            key=lambda chain: (_started(chain.records) or 0, chain.agent_id),
        )


def _find_callers(records: Sequence[WireRecord]) -> dict[str, str]:
    """Map each subagent to the tool call that its result answered."""
    callers: dict[str, str] = {}
    for record in records:
        agent_id = get_text(get_object(record, "toolUseResult"), "agentId")
        results = tool_results(get_object(record, "message").get("content"))
        if agent_id is not None and results:
            callers[agent_id] = results[0]["tool_use_id"]
    return callers


def _find_title(
    records: Sequence[WireRecord], thread: ThreadConverter
) -> tuple[str | None, str | None]:
    for kind, key, source in _TITLES:
        for record in reversed(records):
            if record.get("type") == kind:
                title = get_text(record, key)
                if title is not None:
                    return title, source
    for record in reversed(records):
        # Old versions also wrote summaries of other sessions into a file: ignore them.
        if record.get("type") == "summary" and thread.has_record(record.get("leafUuid")):
            title = get_text(record, "summary")
            if title is not None:
                return title, "auto"
    if thread.first_command is not None and not thread.has_prompt:
        return thread.first_command, "auto"
    return None, None


def _parent_session(records: Sequence[WireRecord], identity: str) -> str | None:
    for record in records:
        forked = get_text(get_object(record, "forkedFrom"), "sessionId")
        if forked is not None and forked != identity:
            return forked
    first = _first(records, "sessionId")
    return first if first is not None and first != identity else None


def _first(records: Sequence[WireRecord], key: str) -> str | None:
    return next((value for record in records if (value := get_text(record, key))), None)


def _started(records: Sequence[WireRecord]) -> int | None:
    """Return the conversation's start by its records; notes at the top may be rewritten later."""
    for wanted in ("uuid", "timestamp"):
        for record in records:
            time_ms = read_time(record.get("timestamp")) if wanted in record else None
            if time_ms is not None:
                return time_ms
    return None
