"""Translate an entry to another agent's types.

An entry type that the target lacks is spelled as one of its types, or kept whole inside a
``custom`` entry that a later conversion opens again. Id, parent and position stay in any case.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from sessiontree.core.archive import history_text, summary_text
from sessiontree.core.trimming import may_need_restore, restore_frames, trim
from sessiontree.model.dialects import extension_key, read_model_change, spell_model_change
from sessiontree.model.entries import Entry, WireEntry
from sessiontree.profiles import Profile

KEPT_TYPE = "sessiontree.kept"
LEAD_IN = "sessiontree.summary"
"""The field that keeps omp's summary in a compaction written for pi."""
_BASE = ("type", "id", "parentId", "timestamp")
_SUMMARIES = ("compaction", "branch_summary")

_SEED_TYPES = frozenset(("ttsr_injection", "session_init", "mode_change"))
_XCSH_TYPES = frozenset(("context_change", "mcp_tool_selection", "service_tier_change"))
_OMP_TYPES = frozenset(
    (
        "title_change",
        "model_usage",
        "service_tier_change",
        "reset_boundary",
        "credential_pin",
        "mcp_tool_selection",
    )
)
_NEW_PI_TYPES = frozenset(("context_edit", "usage"))
_PI_TYPES = _NEW_PI_TYPES | {"session_info"}
_KNOWN_BY = {
    "pi": _PI_TYPES,
    "omp": _SEED_TYPES | _OMP_TYPES,
    "xcsh": _SEED_TYPES | _XCSH_TYPES,
    "prime-agent": frozenset(("session_info", "service_tier_change")),
    "sessiontree": _SEED_TYPES | _OMP_TYPES | _XCSH_TYPES | _NEW_PI_TYPES,
}
_KNOWN_IN = {"pi": _KNOWN_BY["pi"], "omp": _KNOWN_BY["sessiontree"]}
"""For an agent that is not listed here, the dialect decides."""
_KNOWN_TO_SOME = _SEED_TYPES | _XCSH_TYPES | _OMP_TYPES | _PI_TYPES
"""Types that not every agent knows. Any other is known to all, or is plain data to all."""


@dataclass(slots=True)
class EntryTranslator:
    """Translate entries for one agent; count those kept as ``custom`` and those opened again."""

    profile: Profile
    kept: Counter[str] = field(default_factory=Counter)
    reopened: Counter[str] = field(default_factory=Counter)

    @property
    def _known(self) -> frozenset[str]:
        return _KNOWN_BY.get(self.profile.name) or _KNOWN_IN[self.profile.dialect]

    @property
    def _has_system_messages(self) -> bool:
        """Whether the agent keeps its prompt in the conversation, as pi does."""
        return "usage" in self._known

    def must_look_at(self, line: bytes) -> bool:
        """Whether agents may spell a message differently; nearly all are spelled alike."""
        return not self._has_system_messages and b'"system"' in line

    def translate(self, entry: WireEntry) -> WireEntry:
        """Translate an entry; return the same object if nothing changes."""
        opened = self._open(entry)
        kind = opened.get("type")
        if not isinstance(kind, str):
            return opened
        if kind in _KNOWN_TO_SOME and kind not in self._known:
            return self._keep(opened, kind)
        if kind == "message" and not self._has_system_messages and _is_system(opened):
            return self._keep(opened, kind)
        if kind == "model_change":
            return self._translate_model(opened)
        if kind in _SUMMARIES:
            return self._translate_summary(opened)
        return opened

    def _open(self, entry: WireEntry) -> WireEntry:
        """Open an entry that an earlier conversion kept, if this agent knows its type."""
        if entry.get("type") != "custom" or entry.get("customType") != KEPT_TYPE:
            return entry
        data = entry.get("data")
        kind = data.get("type") if isinstance(data, dict) else None
        fields = data.get("fields") if isinstance(data, dict) else None
        if not isinstance(kind, str) or not isinstance(fields, dict):
            return entry
        is_role = kind == "model_change" and self.profile.dialect != "pi"
        is_system = kind == "message" and self._has_system_messages and _is_system(fields)
        if kind not in self._known and not is_role and not is_system:
            return entry
        self.reopened[kind] += 1
        own = {key: entry[key] for key in _BASE if key in entry}
        rest = {key: value for key, value in fields.items() if key not in _BASE}
        return {**own, "type": kind, **rest}

    def _keep(self, entry: WireEntry, kind: str) -> WireEntry:
        self.kept[kind] += 1
        fields = {key: value for key, value in entry.items() if key not in _BASE}
        own = {key: entry[key] for key in _BASE if key in entry}
        return {
            **own,
            "type": "custom",
            "customType": KEPT_TYPE,
            "data": {"type": kind, "fields": fields},
        }

    def _translate_model(self, entry: WireEntry) -> WireEntry:
        change = read_model_change(entry)
        if change is None:
            return entry
        role, model = change
        has_spelling = "modelId" in entry if self.profile.dialect == "pi" else "model" in entry
        if has_spelling:
            return entry
        if self.profile.dialect == "pi" and (role != "default" or "/" not in model):
            # pi has one model; there a change for another role would change that one. And a model
            # without a provider would be a provider without a model.
            return self._keep(entry, "model_change")
        spelled = {
            key: value
            for key, value in entry.items()
            if key not in ("model", "provider", "modelId", "role")
        }
        named = None if role == "default" else role
        return {**spelled, **spell_model_change(self.profile.dialect, model, named)}

    def _translate_summary(self, entry: WireEntry) -> WireEntry:
        if entry["type"] == "compaction":
            entry = self._translate_history(entry)
        wanted = extension_key(self.profile.dialect)
        other = "fromExtension" if wanted == "fromHook" else "fromHook"
        if other not in entry:
            return entry
        said = {wanted if key == other else key: value for key, value in entry.items()}
        return said if wanted not in entry else {**said, wanted: entry[wanted]}

    def _translate_history(self, entry: WireEntry) -> WireEntry:
        """Translate a compaction whose history is in ``preserveData``, which pi does not read.

        Put its text into the summary, and keep the lead-in, which omp needs, beside it.
        """
        if self.profile.dialect != "pi":
            if LEAD_IN not in entry:
                return entry
            own = {key: value for key, value in entry.items() if key != LEAD_IN}
            return {**own, "summary": entry[LEAD_IN]}
        if LEAD_IN in entry:
            return entry
        summary, history = summary_text(entry), history_text(entry)
        if not history and summary == entry.get("summary"):
            return entry
        whole = f"{summary}\n\n{history}" if history else summary
        return {**entry, "summary": whole, LEAD_IN: entry.get("summary", "")}


def _is_system(entry: WireEntry) -> bool:
    message = entry.get("message")
    return isinstance(message, dict) and message.get("role") == "system"


def translate_entry(entry: Entry, translator: EntryTranslator) -> Entry:
    """Spell the entry in another dialect; return the same object if nothing changes."""
    if entry.type in ("message", "custom_message") and not translator.must_look_at(entry.line()):
        is_to_inline = translator.profile.dialect == "pi" and may_need_restore(entry.line())
        return _inline(entry) if is_to_inline else entry
    data = entry.decode()
    if translator.profile.dialect == "pi" and may_need_restore(entry.line()):
        return Entry.from_wire(translator.translate(restore_frames(data, entry.fetch_blob)))
    translated = translator.translate(data)
    return entry if translated is data else Entry.from_wire(translated)


def _inline(entry: Entry) -> Entry:
    """Make an entry for pi, which has no blobs: their content goes into the line."""
    return Entry(entry.type, entry.id, entry.parent_id, entry.timestamp, _InlineLine(entry))


class _InlineLine:
    """Makes a line only when it is written: the blobs of a session may be very large."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def read_line(self, offset: int, length: int) -> bytes:  # noqa: ARG002 - it has no place yet
        whole = restore_frames(self._entry.decode(), self._entry.fetch_blob)
        return trim(whole, "pi").line

    def restore(self, data: WireEntry, line: bytes) -> WireEntry:  # noqa: ARG002
        return data

    def is_plain(self, block: bytes) -> bool:  # noqa: ARG002
        return True

    def fetch_blob(self, ref: str) -> bytes | None:
        return self._entry.fetch_blob(ref)
