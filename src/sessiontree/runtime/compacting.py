"""Summaries by the agent itself, and compaction with them.

Owns who writes a summary (the agent's one-shot call, or a hook), when compaction happens by itself,
and what the agent does afterwards. The decisions are `core.compaction`'s, the words
`core.summaries`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sessiontree.core import summaries
from sessiontree.core.compaction import (
    BranchPlan,
    CompactionCancelledError,
    CompactionError,
    CompactionPlan,
    estimate_path,
    is_context_overflow,
    plan_compaction,
    should_compact,
)
from sessiontree.core.usage import ContextEstimate, estimate_text
from sessiontree.errors import EntryNotFoundError
from sessiontree.logs import get_logger
from sessiontree.model.entries import Entry
from sessiontree.model.messages import text_of
from sessiontree.runtime import events
from sessiontree.runtime.events import Message
from sessiontree.runtime.hooks import Cancel, ProvidedSummary
from sessiontree.runtime.state import SummaryCancelled, Wiring
from sessiontree.session.manager import SessionManager

logger = get_logger(__name__)

Reason = Literal["threshold", "overflow", "request"]

_PROMPT_TOKENS = 1_500
"""Tokens for our own words around the material."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, ready for an entry."""

    text: str
    details: Any = None
    from_extension: bool = False


# --- asking the agent -------------------------------------------------------------------------


async def summarise_compaction(
    wiring: Wiring, plan: CompactionPlan, instructions: str | None
) -> Summary:
    """Have the agent summarise what the plan names. CompactionError if it can't."""
    history = plan.previous_summary and summaries.strip_files(plan.previous_summary)
    for run in _runs(wiring, plan.messages, history):
        text = summaries.conversation_text(run, _limit(wiring, history))
        history = await _ask(wiring, summaries.compaction_prompt(text, history, instructions))
    turn = None
    for run in _runs(wiring, plan.turn_prefix, None):
        text = summaries.conversation_text(run, _limit(wiring, None))
        part = await _ask(wiring, summaries.turn_prefix_prompt(text))
        turn = part if turn is None else f"{turn}\n\n{part}"
    whole = summaries.join_summary(history, turn)
    return Summary(summaries.with_files(whole, plan.files), plan.files.details)


async def summarise_branch(wiring: Wiring, plan: BranchPlan, instructions: str | None) -> Summary:
    """Have the agent summarise the branch that is left. CompactionError if it can't."""
    text = summaries.conversation_text(plan.messages, _limit(wiring, None))
    notes = await _ask(wiring, summaries.branch_prompt(text, instructions))
    whole = summaries.with_files(summaries.BRANCH_PREAMBLE + notes, plan.files)
    return Summary(whole, plan.files.details)


def summary_budget(wiring: Wiring, carried: str | None = None) -> int:
    """The tokens of material that fit one question to the agent."""
    taken = wiring.compaction.summary_tokens + _PROMPT_TOKENS + estimate_text(carried or "")
    return max(1_000, wiring.window - taken)


def _limit(wiring: Wiring, carried: str | None) -> int:
    return summary_budget(wiring, carried) * 4


def _runs(wiring: Wiring, messages: Sequence[Message], carried: str | None) -> list[list[Message]]:
    return summaries.split_to_fit(messages, summary_budget(wiring, carried))


async def _ask(wiring: Wiring, prompt: str) -> str:
    model = wiring.agent.model
    most = wiring.compaction.summary_tokens
    answer = await wiring.agent.complete(
        system=summaries.SYSTEM_PROMPT,
        messages=[{"role": "user", "content": [{"type": "text", "text": prompt}], "timestamp": 0}],
        max_tokens=min(most, model.max_output) if model else most,
    )
    if answer.get("stopReason") == "aborted":
        raise SummaryCancelled
    if answer.get("stopReason") == "error":
        raise CompactionError(f"Summary failed: {answer.get('errorMessage') or 'unknown error'}")
    text = text_of(answer.get("content"), "").strip()
    if not text:
        raise CompactionError("Summary failed: the model gave no text")
    return text


# --- compaction -------------------------------------------------------------------------------


async def compact(
    wiring: Wiring, reason: Reason, instructions: str | None = None, *, will_retry: bool = False
) -> str:
    """Compact the conversation of the idle agent; the new entry's id.

    Only while ``wiring.operating`` is held. Raises CompactionError with the reason, and then
    nothing has changed.
    """
    settings = wiring.compaction
    plan = await wiring.disk.run(
        lambda: plan_compaction(wiring.manager.get_branch(), settings),
    )
    await wiring.emit(events.CompactionStart(reason))
    try:
        entry_id, from_extension = await _compact(wiring, plan, reason, instructions)
    except SummaryCancelled:
        cancelled = CompactionCancelledError()
        await wiring.emit(events.CompactionEnd(reason, error=str(cancelled)))
        raise cancelled from None
    except BaseException as error:
        await wiring.emit(events.CompactionEnd(reason, error=str(error) or type(error).__name__))
        raise
    await wiring.hooks.emit(events.SessionCompact(entry_id, from_extension))
    await wiring.emit(events.CompactionEnd(reason, entry_id, will_retry=will_retry))
    return entry_id


async def _compact(
    wiring: Wiring, plan: CompactionPlan, reason: Reason, instructions: str | None
) -> tuple[str, bool]:
    answer = await wiring.hooks.ask(
        events.SessionBeforeCompact(
            reason,
            plan.first_kept_entry_id,
            plan.tokens_before,
            plan.entry_ids,
            plan.previous_summary,
            instructions,
        )
    )
    if isinstance(answer, Cancel):
        raise SummaryCancelled
    first_kept = plan.first_kept_entry_id
    if isinstance(answer, ProvidedSummary):
        summary = Summary(answer.summary, answer.details, from_extension=True)
        first_kept = answer.first_kept_entry_id or first_kept
        if wiring.manager.get_entry(first_kept) is None:
            raise EntryNotFoundError(first_kept)
    else:
        summary = await wiring.run_summary(summarise_compaction(wiring, plan, instructions))
    return await _write(wiring, plan, summary, first_kept), summary.from_extension


async def _write(wiring: Wiring, plan: CompactionPlan, summary: Summary, first_kept: str) -> str:
    manager = wiring.manager
    before = manager.leaf_id
    entry_id = await wiring.disk.run(
        manager.append_compaction,
        summary.text,
        first_kept,
        plan.tokens_before,
        short_summary=summaries.short_summary(summary.text),
        details=summary.details,
        from_extension=summary.from_extension or None,
    )
    try:
        await wiring.refresh()
    except BaseException:
        # The log keeps the entry, but the conversation goes on as if it were not there.
        if before is not None:
            await wiring.disk.run(manager.branch, before)
        raise
    return entry_id


# --- by itself --------------------------------------------------------------------------------


async def is_over_threshold(wiring: Wiring) -> bool:
    """Whether the conversation has outgrown the model's window minus the reserve."""
    if not wiring.settings.compaction.enabled:
        return False
    estimate = await wiring.disk.run(estimate_session, wiring.manager)
    return should_compact(estimate.tokens, wiring.window, wiring.settings.compaction)


def estimate_session(manager: SessionManager) -> ContextEstimate:
    """Estimate the context at the session's leaf."""
    return estimate_path(_since_the_cut(manager), manager.build_session_context().messages)


def _since_the_cut(manager: SessionManager) -> list[Entry]:
    """The end of the path, from its latest cut on: all that an estimate asks of it.

    This is asked at every turn, and a day's path is long.
    """
    found: list[Entry] = []
    entry = manager.leaf_entry
    while entry is not None:
        found.append(entry)
        if entry.type in ("compaction", "reset_boundary") or entry.parent_id is None:
            break
        entry = manager.get_entry(entry.parent_id)
    found.reverse()
    return found


async def compact_by_itself(wiring: Wiring, reason: Reason, *, will_retry: bool = False) -> bool:
    """Compact automatically; return whether that worked. Reports a failure, never raises it."""
    try:
        await compact(wiring, reason, will_retry=will_retry)
    except CompactionError as error:
        logger.info("automatic compaction (%s): %s", reason, error)
        return False
    except Exception:
        logger.exception("automatic compaction (%s) failed", reason)
        return False
    return True


def is_overflow(wiring: Wiring) -> bool:
    """Whether the agent's last answer is the error that the conversation no longer fits."""
    if not wiring.settings.compaction.enabled or not wiring.agent.messages:
        return False
    last = wiring.agent.messages[-1]
    return last.get("stopReason") == "error" and is_context_overflow(last, wiring.window)


def drop_failed_answer(wiring: Wiring) -> None:
    """Remove the error answer from the agent's conversation, so that it can try again.

    The session keeps it.
    """
    messages = list(wiring.agent.messages)
    if messages and messages[-1].get("stopReason") == "error":
        wiring.replace_messages(messages[:-1])
