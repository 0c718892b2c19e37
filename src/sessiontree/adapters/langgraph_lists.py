"""Find what is new in a channel's list, without serializing unchanged items again.

LangGraph hands over a whole list at every step, and keeps the objects in it from one step to the
next. So of each object there is a copy of what it said when it was serialized. One that says the
same is not serialized again, and one that a node has changed in place is.

To compare a thousand messages takes longer than to write one. So in longer lists only the newest
are compared if the whole list was a moment ago (``_PAUSE``), unless a task has just written one of
the others. A model takes longer than that moment to answer, so all messages of an agent that asks
one are compared in each step.

A list is kept as its difference to an earlier one: so many of its items, then these. An item is a
digest, a spelled value (``langgraph_values``) or a number. Knows nothing of sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from operator import attrgetter, eq, is_
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from sessiontree.adapters.langgraph_values import Typed, spell
from sessiontree.model.ids import sha256_hex

Item: TypeAlias = str | dict[str, Any] | int | float | bool | None
"""A digest, a spelled value, or the value itself."""

INLINE = 256
"""Bytes of a serialized value that stands where it is used; a larger one has its own entry."""
DIGEST = 32
"""Characters of a digest."""

_FIELDS = attrgetter("__dict__")
_EXTRA = attrgetter("__pydantic_extra__")
_VALUES = dict.values
_BLOCK = 128
"""How many messages are compared at a time: few enough for the processor's cache."""
_AT_MOST = 8
"""Blocks of a list that is always compared as a whole."""
_NEWEST = 2
"""Blocks of a longer list that are always compared."""
_PAUSE = 8
"""How many times as long as it took to compare a longer list passes until that is done again."""
_IMMUTABLE = frozenset((str, int, float, bool, bytes, type(None)))
_NUMBERS = frozenset((int, float, bool, type(None)))


class Coder:
    """A serializer, and whether its output may be shown."""

    def __init__(self, serde: SerializerProtocol) -> None:
        self.serde = serde
        self.is_plain = isinstance(serde, JsonPlusSerializer)
        """Whether what it writes is not a secret: an encrypting one hides the messages."""

    def dump(self, value: Any) -> Dumped:
        """Serialize a value. Raises what the serializer raises."""
        kind, data = self.serde.dumps_typed(value)
        return Dumped(digest_of((kind, bytes(data))), (kind, bytes(data)))


class Dumped(NamedTuple):
    """A value as its serializer gives it, and what names it."""

    digest: str
    typed: Typed

    @property
    def is_short(self) -> bool:
        return len(self.typed[1]) <= INLINE

    def spelled(self) -> dict[str, Any]:
        return spell(self.typed)


def digest_of(typed: Typed) -> str:
    """The name of a serialized value: the same for the same bytes of the same type."""
    return sha256_hex(typed[0].encode() + b"\0" + typed[1])[:DIGEST]


@dataclass
class Listed:
    """A list as it was handed over, and the items that it came to.

    The next list is nearly always this one and something more, so it grows in place: nothing is to
    be copied that is as long as the conversation.
    """

    objects: list[Any] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    """What each of the objects said then."""
    items: list[Item] = field(default_factory=list)
    is_said: bool = True
    """Whether all of them are messages that say something."""
    has_extra: bool = False
    """Whether any of them has fields that its type does not know."""
    places: dict[int, int] = field(default_factory=dict)
    """Where each of the objects stands, by its identity."""
    look_at: float = 0.0
    """When all of them are compared again."""
    said: list[list[Any]] = field(default_factory=list)
    """The values in the states of messages, one after the other: a list for each _BLOCK."""
    kept: int = 0
    """How many of its items are written."""
    new: dict[str, Dumped] = field(default_factory=dict)
    """What was serialized for the others, as far as it needs an entry."""

    def note(self, value: Any, state: Any, item: Item) -> None:
        """Know one more object, what it said, and the item that it came to."""
        self.is_said = self.is_said and is_message(value)
        self.has_extra = self.has_extra or (isinstance(value, BaseModel) and bool(_EXTRA(value)))
        if self.is_said and not self.has_extra:
            if len(self.objects) % _BLOCK == 0:
                self.said.append([])
            self.said[-1] += state.values() if type(state) is dict else (state,)
        self.places[id(value)] = len(self.objects)
        self.objects.append(value)
        self.states.append(state)
        self.items.append(item)

    def note_touched(self, values: Sequence[Any]) -> None:
        """Compare all objects in the next step if any of these is one of them."""
        if any(id(each) in self.places for each in values):
            self.look_at = 0.0

    def says_the_same(self) -> bool:
        """Whether messages say what they said: all of them, or those that are compared now."""
        begun, blocks = perf_counter(), len(self.said)
        is_whole = blocks <= _AT_MOST or begun >= self.look_at
        first = 0 if is_whole else blocks - _NEWEST
        if not all(
            _says(self.objects[at * _BLOCK : (at + 1) * _BLOCK], self.said[at])
            for at in range(first, blocks)
        ):
            return False
        if is_whole:
            now = perf_counter()
            self.look_at = now + _PAUSE * (now - begun)
        return True

    def keep(self) -> None:
        """Note that all of its items are written."""
        self.kept, self.new = len(self.items), {}

    def written(self) -> Listed:
        """The list as it is written: without what was noted for a write that failed."""
        if len(self.items) == self.kept:
            return self
        listed = Listed()
        for each in islice(zip(self.objects, self.states, self.items, strict=True), self.kept):
            listed.note(*each)
        listed.keep()
        return listed


def list_items(coder: Coder, value: Sequence[Any], known: Listed | None) -> Listed:
    """The items of a list; of what ``known`` has and is as it was, nothing is serialized."""
    if known is None:
        return _add(coder, Listed(), value)
    if _continues(known, value):
        return _add(coder, known, value[len(known.objects) :])
    listed = Listed()
    for each in value:
        at = known.places.get(id(each))
        if at is not None and known.states[at] == _state(each):
            listed.note(each, known.states[at], known.items[at])
        else:
            _add(coder, listed, (each,))
    return listed


def note_items(objects: Sequence[Any], items: Sequence[Item]) -> Listed:
    """The same for objects that were just made of these items."""
    listed = Listed()
    for each, item in zip(objects, items, strict=True):
        listed.note(each, _copy_state(each), item)
    listed.keep()
    return listed


def count_same(one: Sequence[Item], other: Sequence[Item]) -> int:
    """The number of items that two lists have in common before they part."""
    for at, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine is not theirs and not _is_same(mine, theirs):
            return at
    return min(len(one), len(other))


def _is_same(one: Item, other: Item) -> bool:
    if isinstance(one, str):
        return one == other
    return repr(one) == repr(other)  # to == 1 is True


def _continues(known: Listed, value: Sequence[Any]) -> bool:
    """Whether a list begins with all objects that are known, and each says what it said."""
    count = len(known.objects)
    if len(value) < count or not all(map(is_, known.objects, value)):
        return False
    if not known.is_said or known.has_extra:
        return all(map(eq, map(_state, known.objects), known.states))
    return known.says_the_same()


def _says(messages: Sequence[Any], said: Sequence[Any]) -> bool:
    """Whether messages say what they said. Each step asks it of many messages, so C does the work.

    The values of all their fields stand in one list. Looking at those and not at ``states`` saves
    reading as much memory again, which is what it costs; most of them are the very same objects.
    """
    values = [*chain.from_iterable(map(_VALUES, map(_FIELDS, messages)))]
    return values == said and not any(map(_EXTRA, messages))


def _add(coder: Coder, listed: Listed, objects: Sequence[Any]) -> Listed:
    for each in objects:
        listed.note(each, _copy_state(each), _item_of(coder, each, listed.new))
    return listed


def _item_of(coder: Coder, value: Any, new: dict[str, Dumped]) -> Item:
    if coder.is_plain and type(value) in _NUMBERS and _fits(value):
        return value  # type: ignore[no-any-return]
    dumped = coder.dump(value)
    if dumped.is_short and not isinstance(value, BaseMessage):
        return dumped.spelled()
    new[dumped.digest] = dumped
    return dumped.digest


def _fits(value: Any) -> bool:
    """Whether msgpack has such a number; else the serializer is to say what is wrong with it."""
    return type(value) is not int or -(2**63) <= value < 2**64


def is_message(value: Any) -> bool:
    """Whether a value is a message that says something."""
    return isinstance(value, BaseMessage) and value.type != "remove"


# -- what an object says -----------------------------------------------------------------------


class _Unknown:
    """The state of an object that cannot be copied: never the same."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


def _state(value: Any) -> Any:
    if not isinstance(value, BaseModel):
        return value
    extra = _EXTRA(value)
    return (_FIELDS(value), extra) if extra else _FIELDS(value)


def _copy_state(value: Any) -> Any:
    try:
        return _copy(_state(value))
    except (TypeError, RecursionError):
        return _Unknown()


_NO_FIELDS: dict[Any, Any] = {}
_NO_ITEMS: list[Any] = []
"""Shared by all copies: a message has several empty fields, and memory is what comparing takes."""


def _copy(value: Any) -> Any:
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {key: _copy(item) for key, item in value.items()} if value else _NO_FIELDS
    if kind is list:
        return [_copy(item) for item in value] if value else _NO_ITEMS
    if kind is tuple:
        return tuple([_copy(item) for item in value])
    raise TypeError(f"{kind.__name__} may change unseen")
