"""What a live session tells becomes what the chat shows, also while the conversation is re-read."""

from __future__ import annotations

from typing import Any

from sessiontree.errors import PersistenceError
from sessiontree.runtime import events
from sessiontree.runtime.events import Delta
from sessiontree.tui.chat.event_state import Narrator
from sessiontree.tui.transcript.blocks import Conversation

from .support import assistant, call, result, user


def narrator() -> Narrator:
    return Narrator(lambda: 100.0)


def tell(made: Narrator, *told: Any) -> Narrator:
    for event in told:
        made.hear(event)
    return made


def shown(made: Narrator) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for block in made.conversation.blocks]


def wants_reload(made: Narrator) -> bool:
    return made.needs_reload


def test_a_turn_with_a_tool_in_the_order_it_is_told() -> None:
    prompt = user("go")
    calling = assistant(content=[call("1", "ls", path=".")], stopReason="toolUse")
    listing = result("1", "ls", "a\nb")
    answer = assistant("Two files.")
    made = tell(
        narrator(),
        events.AgentStart(),
        events.TurnStart(),
        events.MessageStart(prompt),
        events.MessageSaved("e1", prompt),
        events.MessageEnd(prompt),
        events.MessageStart(calling),
        events.MessageUpdate(calling, Delta("tool_call", "")),
        events.MessageSaved("e2", calling),
        events.MessageEnd(calling),
        events.ToolStart("1", "ls", {}),
    )
    assert (made.running_since, made.activity) == (100.0, "Running ls")
    tell(made, events.ToolUpdate("1", "ls", "a"))
    assert made.conversation.blocks[1].text == "a"
    tell(
        made,
        events.ToolEnd("1", "ls", listing),
        events.MessageStart(listing),
        events.MessageEnd(listing),
        events.MessageStart(answer),
        events.MessageUpdate(answer, Delta("text", "Two files.")),
        events.MessageEnd(answer),
        events.AgentEnd(),
    )
    assert shown(made) == [("user", "go"), ("tool", "a\nb"), ("answer", "Two files.")]
    assert [b.entry_id for b in made.conversation.blocks] == ["e1", "e2", None]
    assert made.running_since is None
    assert round(made.cost, 2) == 0.02


def test_what_is_told_while_the_conversation_is_read_is_neither_lost_nor_doubled() -> None:
    known, fresh = user("in the file already"), user("said meanwhile")
    made = narrator()
    made.hold()
    tell(
        made,
        events.MessageStart(known),
        events.MessageSaved("e1", known),
        events.MessageEnd(known),
        events.MessageStart(fresh),
        events.MessageSaved("e2", fresh),
        events.MessageEnd(fresh),
    )
    assert shown(made) == []
    read = Conversation()
    read.add_message(known, "e1")
    made.install(read, frozenset({"e1"}))
    assert shown(made) == [("user", "in the file already"), ("user", "said meanwhile")]


def test_an_answer_that_streams_on_after_the_conversation_was_read_is_whole() -> None:
    growing = assistant("Half of it")
    made = tell(narrator(), events.MessageStart(growing))
    tell(made, events.MessageUpdate(growing, Delta("text", "Half of it")))
    made.hold()
    made.install(Conversation(), frozenset())
    growing["content"][0]["text"] = "Half of it and the rest"
    tell(made, events.MessageUpdate(growing, Delta("text", " and the rest")))
    tell(made, events.MessageEnd(growing))
    assert shown(made) == [("answer", "Half of it and the rest")]


def test_a_reading_that_fails_loses_nothing() -> None:
    made = narrator()
    made.hold()
    tell(made, events.MessageEnd(user("said meanwhile")))
    made.release()
    assert shown(made) == [("user", "said meanwhile")]


def test_notices_are_said_and_reloads_are_asked_for() -> None:
    made = tell(
        narrator(),
        events.PersistenceFailed(PersistenceError("/x", "disk full"), 3),
        events.ModelFallback("a/b", None, "gone"),
        events.ThinkingLevelChanged("low", "high"),
        events.CompactionStart("threshold"),
    )
    assert made.unsaved == 3
    assert [bad for _, bad in made.notices] == [True, True, False]
    assert "nearly full" in made.activity
    tell(made, events.CompactionEnd("threshold", None, "Compaction cancelled"))
    assert made.notices[-1] == ("Compaction cancelled", True)
    assert wants_reload(made) is False
    tell(made, events.CompactionEnd("threshold", "e9"))
    assert wants_reload(made) is True
    tell(made, events.PersistenceRestored(3))
    assert made.unsaved == 0


def test_a_failed_call_says_which_attempt_comes_when_until_something_answers() -> None:
    now = [100.0]
    made = tell(
        Narrator(lambda: now[0]),
        events.AgentStart(),
        events.ModelRetry(2, 4, 2.5, "529 Overloaded"),
    )
    assert made.doing == "Waiting for the model · attempt 2 of 4 in 3 s · 529 Overloaded"
    now[0] = 103.0
    assert made.doing == "Waiting for the model · attempt 2 of 4 · 529 Overloaded"
    tell(made, events.MessageUpdate(assistant("Hi"), Delta("text", "Hi")))
    assert made.doing == "Answering"
    tell(made, events.ModelRetry(3, 4, 9.0, "broke off"), events.AgentEnd())
    assert made.doing == ""


def test_queues_are_told_in_words() -> None:
    made = tell(
        narrator(), events.QueueChanged((user("steer"),), (user("follow"),), (user("next"),))
    )
    assert made.steering == ("steer",)
    assert made.queued == ("follow", "next")


def test_another_session_asks_for_a_reload() -> None:
    made = tell(narrator(), events.SessionReplaced("id", None))
    assert made.needs_reload
