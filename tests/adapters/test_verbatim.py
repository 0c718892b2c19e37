"""Packed objects come back exactly, also through a session file."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessiontree import MemoryStore, SessionManager
from sessiontree.adapters.verbatim import UnpackError, pack, plain, unpack

TEXT = "a text that is long enough for a pointer to be shorter"

keys = st.text() | st.sampled_from(["$", "partialJson", "lineCount", "jsonlEvents", "type", "data"])
texts = st.text() | st.just(TEXT) | st.just("blob:sha256:" + "0" * 64) | st.just("\ud800")
numbers = st.integers() | st.floats()
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
    max_leaves=20,
)


def same(one: Any, two: Any) -> bool:
    """Equal to the type, the sign of a zero and the order of keys."""
    if type(one) is not type(two):
        return False
    if isinstance(one, dict):
        return [*one] == [*two] and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return repr(one) == repr(two)


@given(values, values)
def test_a_packed_value_comes_back_through_a_file(value: Any, content: Any) -> None:
    store = MemoryStore()
    message = {"role": "user", "content": [{"type": "text", "text": TEXT}, plain(content)]}
    with SessionManager.create("/work", storage=store, id="s") as session:
        entry = {"type": "message", "message": message, "native": {"x": pack(value, message)}}
        session.append_many([entry])
        ref = session.ref
    with SessionManager.open(ref, storage=store) as session:
        data = session.get_entries()[0].data
        assert same(unpack(data["native"]["x"], data["message"]), value)


def test_a_text_that_the_message_has_is_kept_once() -> None:
    message = {"role": "user", "content": TEXT}
    assert pack({"text": TEXT, "n": 1}, message) == {"text": {"$": "/content"}, "n": 1}
    assert pack([TEXT], [{"content": "-"}, message]) == [{"$": "/1/content"}]


def test_a_picture_that_the_message_has_is_kept_once() -> None:
    data = "iVBORw0KGgo=" * 9
    message = {"role": "user", "content": [{"type": "image", "data": data}]}
    uri = f"data:image/png;base64,{data}"
    packed = pack({"uri": uri}, message)
    assert packed == {"uri": {"$": {"after": ["data:image/png;base64,", "/content/0/data"]}}}
    assert unpack(packed, message) == {"uri": uri}


def test_arguments_that_the_message_has_are_kept_once() -> None:
    call = {"type": "toolCall", "arguments": {"path": "a", "n": 1}}
    message = {"role": "assistant", "content": [call]}
    pointer = {"$": "/content/0/arguments"}
    assert pack({"input": {"path": "a", "n": 1}}, message) == {"input": pointer}
    assert pack({"input": {"path": "a", "n": 1.0}}, message)["input"] == {"path": "a", "n": 1.0}
    one = unpack(pointer, message)
    one["path"] = "changed"
    assert call["arguments"]["path"] == "a"  # type: ignore[index]


@pytest.mark.parametrize(
    "packed",
    [
        *({"$": "/content/7"}, {"$": "later"}, {"$": 3}, {"$": "/content", "x": 1}, {"$": [["a"]]}),
        *({"$": {"after": ["a", "/content"]}}, {"$": {"after": ["a", "b"]}}),
    ],
)
def test_what_cannot_be_unpacked_is_one_error(packed: Any) -> None:
    with pytest.raises(UnpackError):
        unpack(packed, {"role": "user", "content": []})


def test_what_is_no_json_is_refused() -> None:
    for value in (b"bytes", {1: 2}, {"x": object()}):
        with pytest.raises(TypeError):
            pack(value)


def test_what_a_message_may_hold_is_made_of_anything() -> None:
    assert plain({"partialJson": 1, "x": (1, math.inf, b"y")}) == {"x": [1, None, "b'y'"]}


def test_a_text_in_a_changed_message_is_the_changed_one() -> None:
    packed = pack({"text": TEXT}, {"content": TEXT})
    assert unpack(packed, {"content": "[redacted]"}) == {"text": "[redacted]"}


def test_enums_are_kept_by_their_value() -> None:
    class Kind(str, Enum):  # noqa: UP042 - the frameworks' own are like this
        AGENT = "agent"

    class Level(IntEnum):
        HIGH = 3

    assert same(pack({"kind": Kind.AGENT, "level": Level.HIGH}), {"kind": "agent", "level": 3})
