"""What can be appended to a session: one method for each kind of entry (docs/format.md#entries).

Where the line goes, and what it becomes, is the session's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sessiontree.model.dialects import extension_key, spell_model_change
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
        first_kept_entry_id: str,
        tokens_before: int,
        *,
        short_summary: str | None = None,
        details: Any = None,
        preserve_data: Any = None,
        from_extension: bool | None = None,
    ) -> str:
        """From here on the model sees ``summary`` instead of what was before the first kept entry.

        Nothing is removed. ``short_summary`` is a title for those who have given none.
        """
        fields: dict[str, Any] = {"summary": summary}
        put_given(fields, "shortSummary", short_summary)
        fields |= {"firstKeptEntryId": first_kept_entry_id, "tokensBefore": tokens_before}
        put_given(fields, "details", details)
        put_given(fields, "preserveData", preserve_data)
        put_given(fields, extension_key(self._session.log.dialect), from_extension)
        return self._session.append("compaction", fields)

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
