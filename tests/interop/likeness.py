"""What "alike" means between a peer's view of a session and ours, and where they differ on purpose.

Each difference is a function that turns our view into the peer's, so that the tests state it and
still compare everything.
"""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree.core.usage import Usage

from .scripts import Writer

Message = dict[str, Any]

# What omp adds to a summary message for its own display; the model never sees it.
_OMP_SUMMARY_EXTRAS = (
    "shortSummary",
    "tokensAfter",
    "method",
    "providerPayload",
    "blocks",
    "images",
    "warning",
)


def assert_alike(theirs: dict[str, Any], ours: dict[str, Any], writer: Writer) -> None:
    """Everything a reader of the session can see is the same on both sides."""
    assert_same_log(theirs, ours)
    assert ours["leaf"] == theirs["leaf"]
    assert ours["branch"] == theirs["branch"]
    assert ours["labels"] == theirs["labels"]
    assert ours["name"] == theirs["name"]
    assert ours["tree"] == theirs["tree"]
    context = theirs["context"]
    assert ours["thinking"] == context["thinkingLevel"]
    if writer != "omp":
        assert [bare_summary(m) for m in ours["messages"]] == context["messages"]
        assert ours["llm"] == theirs["llm"]
        assert default_model_as_pi(ours) == context["model"]
        if theirs["usage"] is not None:
            assert_same_usage(theirs["usage"], ours["used"])
        return
    expected = as_omp_sends(ours["messages"])
    assert [bare_summary(m) for m in expected] == [bare_summary(m) for m in context["messages"]]
    assert ours["models"] == context["models"]
    assert ours["mode"] == context["mode"]
    assert ours["mode_data"] == context.get("modeData")
    assert ours["rules"] == context["injectedTtsrRules"]


def assert_same_log(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    """Header and entries, key by key and in order."""
    for key in ("id", "cwd", "timestamp", "version", "parentSession"):
        assert ours["header"].get(key) == theirs["header"].get(key), key
    assert [e["id"] for e in ours["entries"]] == [e["id"] for e in theirs["entries"]]
    for mine, their in zip(ours["entries"], theirs["entries"], strict=True):
        assert mine == their


def assert_same_usage(theirs: list[dict[str, Any]], used: Usage) -> None:
    """All that was paid for: answers, tools, summaries and what else called a model."""
    assert used.input + used.output + used.cache_read + used.cache_write == sum(
        each["tokens"] for each in theirs
    )
    assert used.cost == pytest.approx(sum(each["cost"] for each in theirs))


def bare_summary(message: Message) -> Message:
    if message.get("role") != "compactionSummary":
        return message
    return {k: v for k, v in message.items() if k not in _OMP_SUMMARY_EXTRAS}


def default_model_as_pi(ours: dict[str, Any]) -> dict[str, str] | None:
    """pi lets a later answer override the user's choice of model; we keep the choice.

    So pi's model is that of the last entry on the path that names one.
    """
    by_id = {e["id"]: e for e in ours["entries"]}
    for entry in (by_id[i] for i in reversed(ours["branch"])):
        if entry["type"] == "model_change":
            return {"provider": entry["provider"], "modelId": entry["modelId"]}
        if entry["type"] == "message" and entry["message"]["role"] == "assistant":
            message = entry["message"]
            return {"provider": message["provider"], "modelId": message["model"]}
    return None


def as_omp_sends(messages: list[Message]) -> list[Message]:
    """omp edits the context: empty failed turns, calls without a result and failed turns go.

    Our context is what the log says; making it acceptable to a provider is a later step there.
    """
    kept = [m for m in messages if not _is_empty_failure(m)]
    answered = {m["toolCallId"] for m in kept if m["role"] == "toolResult"}
    kept = [m for m in (_without_dangling_calls(m, answered) for m in kept) if m is not None]
    return _without_failed_turns(kept)


def _is_empty_failure(message: Message) -> bool:
    if message["role"] != "assistant" or message["stopReason"] != "error":
        return False
    return not any(
        block["type"] == "toolCall"
        or block.get("text", "").strip()
        or block.get("thinking", "").strip()
        or block.get("thinkingSignature", "").strip()
        for block in message["content"]
    )


def _without_dangling_calls(message: Message, answered: set[str]) -> Message | None:
    if message["role"] != "assistant":
        return message
    blocks = message["content"]
    left = [b for b in blocks if b["type"] != "toolCall" or b["id"] in answered]
    if len(left) == len(blocks):
        return message
    # A turn that was changed can no longer carry its signatures.
    left = [{k: v for k, v in b.items() if k != "thinkingSignature"} for b in left]
    return {**message, "content": left} if left else None


def _without_failed_turns(messages: list[Message]) -> list[Message]:
    kept = list(messages)
    for at in range(len(kept) - 1, -1, -1):
        message = kept[at]
        if message["role"] != "assistant" or message["stopReason"] not in ("aborted", "error"):
            continue
        calls = {b["id"] for b in message["content"] if b["type"] == "toolCall"}
        rest = [
            m for m in kept[at + 1 :] if m["role"] != "toolResult" or m["toolCallId"] not in calls
        ]
        kept[at:] = rest
    return kept
