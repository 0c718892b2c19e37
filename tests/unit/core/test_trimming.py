"""What goes to disk: cut, spilled, externalised, and wholly restored."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from typing import Any, Literal

import msgspec
import pytest
from tests.samples import entry, message, user

from sessiontree.core.trimming import (
    EditedText,
    MissingBlob,
    Trimmed,
    cut_text,
    restore,
    trim,
    trim_all,
)

Wire = dict[str, Any]
LIMIT = 500_000
NOTICE = "\n\n[Session persistence truncated large content]"
LONG = "x" * (LIMIT + 1)
EMOJI = "\U0001f600"
PICTURE = base64.b64encode(bytes(range(256)) * 3).decode()  # exactly 1,024 characters


def units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def digest(raw: bytes | str) -> str:
    data = raw.encode("utf-8", "surrogatepass") if isinstance(raw, str) else raw
    return hashlib.sha256(data).hexdigest()


def ref(raw: bytes | str) -> str:
    return f"blob:sha256:{digest(raw)}"


def persist(wire: Wire, dialect: Literal["omp", "pi"] = "omp") -> tuple[Wire, dict[str, bytes]]:
    """The line an entry becomes, strictly parsed, and the blobs to store before it."""
    before = copy.deepcopy(wire)
    trimmed = trim(wire, dialect)
    expected = msgspec.structs.replace(trimmed, blobs=[*trimmed.blobs])
    # many short lines are looked through in another way than one, or than long ones
    short, long = message("s", None, user("short")), message("l", None, user("x" * 2_000))
    for others in ([], [short] * 9, [long] * 9, [short, long] * 9):
        assert last_of([*others, wire], dialect) == expected
    assert wire == before, "memory was touched"
    assert b"\n" not in trimmed.line
    return json.loads(trimmed.line), {ref(raw): raw for raw in trimmed.blobs}


def last_of(wires: list[Wire], dialect: Literal["omp", "pi"]) -> Trimmed:
    """What ``trim_all`` makes of the last one, whichever of its two answers it gives."""
    made = trim_all(wires, dialect)
    if isinstance(made, list):
        return msgspec.structs.replace(made[-1], blobs=[*made[-1].blobs])
    text, lengths = made
    lines = text.split(b"\n")
    assert lines.pop() == b""
    assert [*lengths] == list(map(len, lines))
    return Trimmed(lines[-1], blobs=[])


def load(line: Wire, blobs: dict[str, bytes]) -> tuple[Wire, list[MissingBlob]]:
    missing: list[MissingBlob] = []
    return restore(copy.deepcopy(line), blobs.get, missing.append), missing


def assert_restored(wire: Wire) -> Wire:
    """An entry survives going to disk and back; the line it was meanwhile."""
    line, blobs = persist(wire)
    assert load(line, blobs) == (wire, [])
    return line


def image(data: str, **fields: Any) -> Wire:
    return {"type": "image", "data": data, "mimeType": "image/png", **fields}


# -- cutting ----------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "x" * LIMIT,
        "é" * LIMIT,
        EMOJI * (LIMIT // 2),
        "x" + EMOJI * (LIMIT // 2 - 1) + "y",
        "\ud83d" * LIMIT,
    ],
)
def test_a_text_of_up_to_500_000_units_is_left_alone(text: str) -> None:
    assert cut_text(text) is text


@pytest.mark.parametrize(
    "text",
    [
        "x" * (LIMIT + 1),
        "é" * (LIMIT + 1),
        EMOJI * (LIMIT // 2) + "x",
        "x" + EMOJI * (LIMIT // 2),
        "xx" + EMOJI * LIMIT,
        "x" * 10_000_000,
        "漢" * (LIMIT + 7),
        ("x" + EMOJI) * LIMIT,
        ("xy" + EMOJI) * LIMIT,
    ],
)
def test_a_longer_text_is_cut_to_500_000_units_in_all_as_javascript_cuts_it(text: str) -> None:
    room = (LIMIT - len(NOTICE)) * 2
    expected = text.encode("utf-16-le")[:room].decode("utf-16-le", "ignore") + NOTICE
    cut = cut_text(text)
    assert cut == expected
    assert units(cut) in (LIMIT, LIMIT - 1)


@pytest.mark.parametrize("lead", range(4))
def test_no_pair_of_surrogates_is_torn(lead: int) -> None:
    text = "x" * lead + EMOJI * LIMIT
    cut = cut_text(text).removesuffix(NOTICE)
    assert text.startswith(cut)
    assert cut.encode("utf-8").decode("utf-8") == cut
    assert units(cut + NOTICE) == LIMIT - (LIMIT - len(NOTICE) - lead) % 2


def test_a_lone_surrogate_is_not_left_at_the_end() -> None:
    room = LIMIT - len(NOTICE)
    cut = cut_text("x" * (room - 1) + "\ud83d" * LIMIT)
    assert cut == "x" * (room - 1) + NOTICE


# -- spilling ----------------------------------------


def test_a_long_text_is_cut_on_disk_and_whole_in_the_store() -> None:
    wire = message("a", None, user([{"type": "text", "text": LONG}]))
    line, blobs = persist(wire)
    assert line["message"]["content"][0]["text"] == LONG[: LIMIT - len(NOTICE)] + NOTICE
    assert line["spilled"] == {"/message/content/0/text": ref(LONG)}
    assert blobs == {ref(LONG): LONG.encode()}
    assert list(line) == [*wire, "spilled"]
    assert load(line, blobs) == (wire, [])


def test_pointers_name_any_key() -> None:
    wire = entry("custom", "a", None, customType="x", data={"a/b": {"c~d": ["", {"~1/": LONG}]}})
    line = assert_restored(wire)
    assert list(line["spilled"]) == ["/data/a~1b/c~0d/1/~01~1"]


@pytest.mark.parametrize("key", ["", " ", "0", "a\nb", "é", "\ud83d", "%25", '"'])
def test_pointers_name_odd_keys_too(key: str) -> None:
    assert_restored(entry("custom", "a", None, customType="x", data={key: LONG, "other": [LONG]}))


def test_every_string_of_every_entry_type_may_be_cut() -> None:
    for wire in (
        entry("compaction", "a", None, summary=LONG, firstKeptEntryId="b", tokensBefore=1),
        entry("session_init", "a", None, systemPrompt=LONG, task=LONG, tools=[LONG]),
        entry("of the future", "a", None, deep=[[[{"x": LONG}]]]),
        message("a", None, user(LONG)),
    ):
        line = assert_restored(wire)
        assert max(map(units, strings(line))) <= LIMIT


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


def test_texts_beyond_ascii_come_back_whole() -> None:
    for text in (EMOJI * LIMIT, "漢" * (LIMIT + 1), "\ud83d" * (LIMIT + 1), "\x00" * (LIMIT + 1)):
        assert_restored(message("a", None, user(text)))


@pytest.mark.parametrize("key", ["thinkingSignature", "thoughtSignature", "textSignature"])
def test_signatures_are_never_cut(key: str) -> None:
    wire = message("a", None, user([{"type": "text", "text": "x", key: LONG}]))
    assert persist(wire) == (wire, {})


def test_a_line_count_follows_the_cut_content() -> None:
    content = "line\n" * 200_000
    cut = content[: LIMIT - len(NOTICE)] + NOTICE
    wire = entry(
        "custom", "a", None, customType="x", data={"content": content, "lineCount": 200_001}
    )
    line, blobs = persist(wire)
    assert line["data"]["lineCount"] == len(cut.split("\n"))
    assert load(line, blobs) == (wire, [])


@pytest.mark.parametrize("count", ["7", None, [7], True])
def test_a_line_count_that_is_no_number_is_left_alone(count: object) -> None:
    wire = entry("custom", "a", None, customType="x", data={"content": LONG, "lineCount": count})
    line, _ = persist(wire)
    assert line["data"]["lineCount"] == count


def test_a_line_count_is_left_alone_when_nothing_was_cut() -> None:
    wire = entry("custom", "a", None, data={"content": "a\nb", "lineCount": 99, "other": LONG})
    line, _ = persist(wire)
    assert line["data"]["lineCount"] == 99


def test_without_its_blob_the_cut_text_stays_and_the_loss_is_told() -> None:
    line, _ = persist(message("a", None, user(LONG)))
    loaded, missing = load(line, {})
    assert loaded == line
    assert [(found.ref, found.pointer) for found in missing] == [(ref(LONG), "/message/content")]


def test_one_missing_blob_does_not_keep_the_others_away() -> None:
    wire = message(
        "a", None, user([{"type": "text", "text": LONG}, {"type": "text", "text": LONG + "y"}])
    )
    line, blobs = persist(wire)
    del blobs[ref(LONG)]
    loaded, missing = load(line, blobs)
    assert loaded["message"]["content"][1]["text"] == LONG + "y"
    assert loaded["message"]["content"][0]["text"].endswith(NOTICE)
    assert loaded["spilled"] == {"/message/content/0/text": ref(LONG)}
    assert len(missing) == 1


def test_an_entry_with_a_missing_blob_can_be_written_again_without_losing_the_reference() -> None:
    gone = {"/message/content/0/text": ref("gone")}
    wire = {**message("a", None, user([{"type": "text", "text": "cut"}, LONG])), "spilled": gone}
    line, _ = persist(wire)
    assert line["spilled"] == {**gone, "/message/content/1": ref(LONG)}


@pytest.mark.parametrize(
    "pointer",
    [
        "",
        "/",
        "message",
        "/message/nope",
        "/message/content/9",
        "/message/content/-1",
        "/message/content/" + "9" * 5_000,
        "/message/content/0/text/deeper",
        "/message",
        "/message/content",
        "/timestamp/0",
    ],
)
def test_a_pointer_that_leads_nowhere_changes_nothing(pointer: str) -> None:
    wire = message("a", None, user([{"type": "text", "text": "cut"}]))
    line = {**wire, "spilled": {pointer: ref("text")}}
    assert load(line, {ref("text"): b"text"})[0] == line


@pytest.mark.parametrize("spilled", [None, 5, "x", [], ["blob"], {"/id": 5}, {"/id": "not a ref"}])
def test_a_foreign_field_called_spilled_is_data(spilled: object) -> None:
    line = {**message("a", None, user(ref("x"))), "spilled": spilled}
    assert load(line, {ref("x"): b"x"})[0] == line


def test_a_spilled_text_that_is_no_text_stays_cut_and_is_told() -> None:
    line = {**message("a", None, user("cut")), "spilled": {"/message/content": ref(b"\xff\x00")}}
    loaded, missing = load(line, {ref(b"\xff\x00"): b"\xff\x00"})
    assert loaded == line
    assert len(missing) == 1


ROOM = LIMIT - len(NOTICE)


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        "é" * (LIMIT + 1),
        "x" * (ROOM - 1) + EMOJI * 30,
        EMOJI * LIMIT,
        "x" * (ROOM - 1) + "\ud83d" * 60,
        "x" * (ROOM - 1) + "\ud83d\ude00" * 60,
        "x" * ROOM + NOTICE + "y",
        "\n" * (LIMIT + 1),
    ],
)
def test_what_was_cut_and_left_alone_comes_back_whole(text: str) -> None:
    wire = json.loads(json.dumps(message("a", None, user(text))))
    line, blobs = persist(wire)
    edited: list[EditedText] = []
    assert restore(copy.deepcopy(line), blobs.get, on_edited=edited.append) == wire
    assert edited == []


@pytest.mark.parametrize(
    "change",
    [
        lambda cut: "another text",
        lambda cut: "",
        lambda cut: cut + " ",
        lambda cut: cut.removesuffix(NOTICE),
        lambda cut: "X" + cut[1:],
        lambda cut: cut[1:],
        lambda cut: LONG[:ROOM] + "z" + NOTICE,
    ],
)
def test_a_text_that_is_not_what_was_cut_stays_with_its_reference(change: Any) -> None:
    wire = message(
        "a", None, user([{"type": "text", "text": LONG}, {"type": "text", "text": EMOJI * LIMIT}])
    )
    line, blobs = persist(wire)
    line["message"]["content"][0]["text"] = change(line["message"]["content"][0]["text"])
    edited: list[EditedText] = []
    loaded = restore(copy.deepcopy(line), blobs.get, on_edited=edited.append)
    pointer = "/message/content/0/text"
    assert loaded["message"]["content"][0] == line["message"]["content"][0]
    assert loaded["message"]["content"][1] == wire["message"]["content"][1]
    assert loaded["spilled"] == {pointer: ref(LONG)}
    assert edited == [EditedText(ref(LONG), pointer)]
    again, more = persist(loaded)
    assert load(again, blobs | more)[0]["message"] == loaded["message"]


def test_a_line_count_that_is_not_what_cutting_gave_stays() -> None:
    content = "a\n" * LIMIT
    wire = entry("custom", "a", None, data={"content": content, "lineCount": LIMIT + 1})
    line, blobs = persist(wire)
    assert load(line, blobs) == (wire, [])
    line["data"]["lineCount"] = 7
    assert load(line, blobs)[0]["data"] == {"content": content, "lineCount": 7}
    line["data"] |= {"content": "b\nb", "lineCount": 2}
    assert load(line, blobs)[0] == line


# -- transient fields ----------------------------------------


@pytest.mark.parametrize("dialect", ["omp", "pi"])
def test_transient_fields_go_at_any_depth(dialect: Literal["omp", "pi"]) -> None:
    wire = entry(
        "custom",
        "a",
        None,
        customType="x",
        partialJson="1",
        data=[{"partialJson": "{", "jsonlEvents": [1], "kept": {"jsonlEvents": LONG, "x": 1}}],
    )
    line, blobs = persist(wire, dialect)
    expected = {**wire, "data": [{"kept": {"x": 1}}]}
    del expected["partialJson"]
    assert line == expected
    assert blobs == {}


def test_their_names_as_values_stay() -> None:
    wire = message("a", None, user('partialJson "jsonlEvents"', note="partialJson"))
    assert persist(wire) == (wire, {})


# -- images ----------------------------------------


def test_an_image_of_1024_characters_becomes_a_reference() -> None:
    assert len(PICTURE) == 1024
    wire = message("a", None, user([{"type": "text", "text": "x"}, image(PICTURE, extra=1)]))
    line, blobs = persist(wire)
    raw = base64.b64decode(PICTURE)
    assert line["message"]["content"][1] == image(ref(raw), extra=1)
    assert blobs == {ref(raw): raw}
    assert "spilled" not in line
    assert load(line, blobs) == (wire, [])


def test_a_smaller_image_stays_inline() -> None:
    small = base64.b64encode(b"x" * 765).decode()
    assert len(small) == 1020
    wire = message("a", None, user([image(small)]))
    assert persist(wire) == (wire, {})


def test_a_large_image_is_a_reference_and_not_a_cut_text() -> None:
    wire = message("a", None, user([image(PICTURE * 2_000)]))
    line = assert_restored(wire)
    assert len(json.dumps(line)) < 1_000


@pytest.mark.parametrize(
    "data",
    [
        PICTURE[:-1],
        PICTURE[:-4] + "!!!!",
        PICTURE[:500] + "\n" + PICTURE[500:],
        " " + PICTURE,
        PICTURE + "====",
        PICTURE.replace("/", "_").replace("+", "-"),
        "é" * 2_000,
        "not base64 " * 100,
        PICTURE[:-1] + "\ud83d",
        "?" * (LIMIT + 5),
        "A" * 1025 + "B==",
    ],
)
def test_what_is_not_valid_base64_stays_inline_untouched(data: str) -> None:
    wire = message("a", None, user([image(data)]))
    assert persist(wire) == (wire, {})


def test_images_in_custom_messages_and_tool_results_too() -> None:
    for wire in (
        entry("custom_message", "a", None, customType="x", content=[image(PICTURE)], display=True),
        message("a", None, {"role": "toolResult", "content": [image(PICTURE)]}),
        message("a", None, {"role": "x", "details": {"content": [image(PICTURE)]}}),
    ):
        assert ref(base64.b64decode(PICTURE)) in json.dumps(assert_restored(wire))


def test_images_elsewhere_stay_inline() -> None:
    wire = message("a", None, {"role": "user", "content": "x", "attachments": [image(PICTURE)]})
    assert persist(wire) == (wire, {})


def test_long_image_data_that_is_no_image_of_a_message_is_cut_as_any_text() -> None:
    wire = entry("custom", "a", None, customType="x", data={"content": [image(PICTURE * 600)]})
    line = assert_restored(wire)
    assert units(line["data"]["content"][0]["data"]) == LIMIT


def test_a_data_url_is_stored_as_the_whole_string() -> None:
    url = f"data:image/png;base64,{PICTURE}"
    wire = message("a", None, user([{"type": "input_image", "image_url": url}]))
    line, blobs = persist(wire)
    assert line["message"]["content"][0]["image_url"] == ref(url)
    assert blobs == {ref(url): url.encode()}
    assert load(line, blobs) == (wire, [])


@pytest.mark.parametrize("url", ["https://example.org/" + "x" * 2_000, "", {"url": "x"}, None])
def test_other_urls_stay(url: object) -> None:
    wire = message("a", None, user([{"type": "input_image", "image_url": url}]))
    assert persist(wire) == (wire, {})


@pytest.mark.parametrize(
    "odd",
    [
        "blob:sha256:",
        "blob:sha256:" + "0" * 63,
        "blob:sha256:" + "0" * 65,
        "blob:sha256:" + "A" * 64,
        "blob:sha256:../../../../etc/passwd",
        "blob:md5:" + "0" * 64,
        " " + ref("x"),
        ref("x") + "\n",
    ],
)
def test_only_an_exact_reference_is_followed(odd: str) -> None:
    from sessiontree import BlobStore, MemorySessionStorage

    store = BlobStore("/blobs", MemorySessionStorage())
    store.put(b"x")
    line = message("a", None, user([image(odd), {"type": "x", "image_url": odd}]))
    assert restore(copy.deepcopy(line), store.get) == line


def test_a_missing_image_leaves_its_reference_and_is_told() -> None:
    line = message("a", None, user([image(ref("x")), {"type": "y", "image_url": ref("z")}]))
    loaded, missing = load(line, {})
    assert loaded == line
    assert {found.ref for found in missing} == {ref("x"), ref("z")}


# -- pi ----------------------------------------


def test_the_pi_dialect_knows_neither_cuts_nor_references() -> None:
    url = f"data:image/png;base64,{PICTURE}"
    wire = message(
        "a",
        None,
        user([{"type": "text", "text": LONG}, image(PICTURE), {"type": "x", "image_url": url}]),
    )
    assert persist(wire, "pi") == (wire, {})


# -- depth ----------------------------------------


def test_deep_content_is_trimmed_and_restored_without_recursion() -> None:
    deep: Any = LONG
    for _ in range(900):
        deep = [deep]
    trimmed = trim(entry("custom", "a", None, customType="x", data=deep), "omp")
    from sessiontree.model import codec

    line = codec.decode(trimmed.line)
    assert list(line["spilled"]) == ["/data" + "/0" * 900]
    value = restore(line, {ref(LONG): LONG.encode()}.get)["data"]
    while isinstance(value, list):
        (value,) = value
    assert value == LONG
