"""What can be appended to a session: one method for each kind of entry (docs/format.md#entries).

Where the line goes, and what it becomes, is the session's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessiontree.core.context import EDITABLE_ROLES
from sessiontree.core.llm import merge_system_messages
from sessiontree.model.dialects import extension_key, spell_model_change
from sessiontree.model.entries import Entry
from sessiontree.model.messages import WireMessage
from sessiontree.session.live import LiveSession


class SessionAppends:
    """The part of ``SessionManager`` that adds entries. Each becomes the leaf; its id is given.

    Once a method returns, a killed process loses nothing. Each raises PersistenceError if the entry
    could not be written, TypeError if it holds what JSON cannot; then nothing has changed.
    """

    _session: LiveSession

    def append_message(self, message: WireMessage) -> str:
        """Add a message of the user, the model or a tool, as it stands in the file."""
        if not isinstance(message, dict):
            # It could be written, but whoever reads a session passes over such a message.
            raise TypeError(f"A message is a dictionary, not {type(message).__name__}")
        return self._session.append("message", {"message": message})

    def append_thinking_level_change(self, level: str) -> str:
        """From here on the model thinks this much ("off", "low", …)."""
        return self._session.append("thinking_level_change", {"thinkingLevel": level})

    def append_model_change(self, model: str, role: str | None = None) -> str:
        """From here on this model ("provider/id") is used; for ``role`` only, if one is given."""
        fields = spell_model_change(self._session.log.dialect, model, role)
        return self._session.append("model_change", fields)

    def append_compaction(
        self,
        summary: str,
        first_kept_entry_id: str | None,
        tokens_before: int,
        *,
        short_summary: str | None = None,
        details: Any = None,
        preserve_data: Any = None,
        from_extension: bool | None = None,
        usage: Any = None,
    ) -> str:
        """From here on the model sees ``summary`` instead of what was before the first kept entry.

        Nothing is removed. Without a first kept entry nothing before is kept in sight.
        ``short_summary`` is a title for those who have given none; ``usage`` is what the summary
        cost. System messages in the context are saved with the compaction, since it hides them.
        """
        fields: dict[str, Any] = {"summary": summary}
        put_given(fields, "shortSummary", short_summary)
        fields |= {"firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        put_given(fields, "details", details)
        put_given(fields, "preserveData", preserve_data)
        put_given(fields, "usage", usage)
        put_given(fields, extension_key(self._session.log.dialect), from_extension)
        put_given(fields, "systemMessage", self._system_message())
        return self._session.append("compaction", fields)

    def _system_message(self) -> WireMessage | None:
        """The prompt and tools that the system messages in the context lead to, as of now.

        Only sessions of pi have such messages.
        """
        if self._session.log.dialect != "pi":
            return None
        merged = merge_system_messages(self._session.context().messages)
        return None if merged is None else {**merged, "timestamp": self._session.place.clock()}

    def append_context_edit(self, target_id: str, replacement: dict[str, Any] | None) -> str:
        """From here on the model no longer sees an earlier message, or sees other content in it.

        ``replacement`` is None, which leaves the message out, or ``{"content": …}`` with a string
        or blocks. The message must be on the current path, from a user, an assistant, a tool or a
        program. The log keeps it as it was. Raises EntryNotFoundError, ValueError.
        """
        role = self._editable_role(self._session.tree.get(target_id))
        edited = replacement
        if replacement is not None:
            content = replacement.get("content") if isinstance(replacement, dict) else None
            if not isinstance(content, str | list):
                raise ValueError('A replacement is None or {"content": a string or blocks}')
            if isinstance(content, str) and role in ("assistant", "toolResult"):
                edited = {"content": [{"type": "text", "text": content}]}
        fields = {"targetId": target_id, "replacement": edited}
        return self._session.append("context_edit", fields)

    def _editable_role(self, target: Entry) -> str:
        """The role of a message that may be edited, on the current path. ValueError for others."""
        tree = self._session.tree
        role = ""
        if target.type == "custom_message":
            role = "custom"
        elif target.type == "message":
            message = target.data.get("message")
            role = str(message.get("role")) if isinstance(message, dict) else ""
        if role not in EDITABLE_ROLES:
            raise ValueError(f"Entry {target.id} holds no message that can be edited")
        if all(entry is not target for entry in tree.path(tree.leaf_id)):
            raise ValueError(f"Entry {target.id} is not on the current path")
        return role

    def append_usage(
        self, kind: str, provider: str, model: str, usage: dict[str, Any], note: str | None = None
    ) -> str:
        """Note what a call of a model cost that is no answer in the conversation.

        ``kind`` says what for, in a word of the caller's own ("cache_warm"). It counts in totals.
        """
        fields: dict[str, Any] = {"kind": kind, "provider": provider, "model": model}
        fields["usage"] = usage
        put_given(fields, "note", note or None)
        return self._session.append("usage", fields)

    def append_custom_entry(self, custom_type: str, data: Any = None) -> str:
        """Add what a program wants to remember; the model never sees it."""
        fields: dict[str, Any] = {"customType": custom_type}
        put_given(fields, "data", data)
        return self._session.append("custom", fields)

    def append_custom_message_entry(
        self,
        custom_type: str,
        content: str | Sequence[dict[str, Any]],
        display: bool,
        details: Any = None,
    ) -> str:
        """Add a program's own message to the model; people see it if ``display``."""
        blocks = content if isinstance(content, str) else [*content]
        fields: dict[str, Any] = {"customType": custom_type, "content": blocks, "display": display}
        put_given(fields, "details", details)
        return self._session.append("custom_message", fields)

    def append_label_change(self, target_id: str, label: str | None) -> str:
        """Name an entry; None or an empty label takes the name away. EntryNotFoundError."""
        self._session.tree.get(target_id)
        fields: dict[str, Any] = {"targetId": target_id}
        put_given(fields, "label", label or None)
        return self._session.append("label", fields)

    def append_ttsr_injection(self, rules: Sequence[str]) -> str:
        """Note that these rules were put into the conversation."""
        return self._session.append("ttsr_injection", {"injectedRules": [*rules]})

    def append_session_init(
        self, system_prompt: str, task: str, tools: Sequence[str], output_schema: Any = None
    ) -> str:
        """Note what the agent was started with; the model does not see it."""
        fields: dict[str, Any] = {"systemPrompt": system_prompt, "task": task, "tools": [*tools]}
        put_given(fields, "outputSchema", output_schema)
        return self._session.append("session_init", fields)

    def append_mode_change(self, mode: str, data: Any = None) -> str:
        """From here on the agent is in this mode ("none" leaves it)."""
        fields: dict[str, Any] = {"mode": mode}
        put_given(fields, "data", data)
        return self._session.append("mode_change", fields)

    def append_session_info(self, name: str) -> str:
        """Name the session as pi does; see ``set_session_name`` for names of any dialect."""
        return self._session.append("session_info", {"name": name})


def put_given(fields: dict[str, Any], key: str, value: Any) -> None:
    """Set a field, unless there is nothing to set it to."""
    if value is not None:
        fields[key] = value
