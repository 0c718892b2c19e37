"""The history that omp keeps beside a compaction's summary, as a model is given it."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest
from tests.samples import assistant, chain, entry, texts, user

from sessiontree import build_session_context, convert_to_llm
from sessiontree.core.archive import (
    MAX_FRAME_DATA,
    has_history,
    history_blocks,
    history_text,
    summary_text,
)

Wire = dict[str, Any]
PNG = base64.b64encode(b"\x89PNG" + bytes(40)).decode()


def frame(data: str = PNG, chars: int = 4, **fields: Any) -> Wire:
    return {"data": data, "mimeType": "image/png", "cols": 10, "rows": 4, "chars": chars, **fields}


def archived(**archive: Any) -> Wire:
    archive = {"frames": [], "totalChars": 0, "truncatedChars": 0, **archive}
    fields = {"summary": "HISTORY\n===", "firstKeptEntryId": "a1", "tokensBefore": 9}
    return entry("compaction", "c", "a1", preserveData={"snapcompact": archive}, **fields)


def remote(*items: Wire, provider: str = "openai") -> Wire:
    kept = {"provider": provider, "replacementHistory": list(items)}
    fields = {"summary": "Remote", "firstKeptEntryId": "a1", "tokensBefore": 9}
    return entry("compaction", "c", "a1", preserveData={"openaiRemoteCompaction": kept}, **fields)


def text(block: Wire) -> str:
    assert block["type"] == "text"
    return str(block["text"])


# -- archives of text and frames --------------------------------------------------------------


def test_an_archive_that_is_all_text_is_one_block() -> None:
    assert history_blocks(archived(textHead="one\u2588two\x0edim\x0f", text="x")) == [
        {"type": "text", "text": "one\ntwodim"}
    ]


def test_text_images_text_in_their_order() -> None:
    blocks = history_blocks(
        archived(
            frames=[frame(detail="original"), frame()],
            textHead="first",
            textTail="last",
            text="first" + "pageoneX" + "last",
        )
    )
    assert text(blocks[0]).startswith("first\n")
    assert text(blocks[-1]).endswith("\nlast")
    image = {"type": "image", "data": PNG, "mimeType": "image/png"}
    assert blocks[1:3] == [
        {**image, "detail": "original", "alt": "page"},
        {**image, "alt": "oneX"},
    ]


def test_a_frame_in_the_blob_store_is_fetched() -> None:
    raw = b"\x89PNG" + bytes(2_000)
    ref = "blob:sha256:" + hashlib.sha256(raw).hexdigest()
    (image,) = history_blocks(archived(frames=[frame(ref)]), {ref: raw}.get)
    assert image["data"] == base64.b64encode(raw).decode()


def test_frames_that_are_gone_are_named_where_they_were() -> None:
    gone = frame("blob:sha256:" + "0" * 64)
    blocks = history_blocks(archived(frames=[frame(), gone, gone, frame()]))
    assert [block["type"] for block in blocks] == ["image", "text", "image"]
    assert "2 archived image frames unavailable" in text(blocks[1])


def test_the_newest_frames_are_sent_if_all_are_too_much() -> None:
    big = "A" * (MAX_FRAME_DATA // 2)
    blocks = history_blocks(archived(frames=[frame(big), frame(big), frame(big)]))
    assert [block["type"] for block in blocks] == ["text", "image", "image"]
    assert "1 archived image frame too large" in text(blocks[0])


@pytest.mark.parametrize(
    "broken",
    [
        None,
        7,
        {},
        {"frames": "x"},
        {"frames": [None, {"data": PNG}, {"data": 1, "mimeType": "image/png"}]},
        {"textHead": "", "text": 3},
    ],
)
def test_a_broken_archive_is_none(broken: object) -> None:
    wire = archived()
    wire["preserveData"] = {"snapcompact": broken}
    assert not has_history(wire)
    assert history_blocks(wire) == []
    assert history_text(wire) == ""


def test_the_whole_text_of_an_archive() -> None:
    assert history_text(archived(textHead="a", textTail="c", text="a\u2588b\u2588c")) == "a\nb\nc"
    assert history_text(archived(textHead="a", textTail="c")) == "a\nc"


def test_the_model_is_given_the_archive_after_the_lead_in() -> None:
    wires = [*chain(user("kept")), archived(frames=[frame()], textHead="long ago")]
    context = build_session_context(wires)
    assert [m["role"] for m in context.messages] == ["compactionSummary", "user"]
    sent = convert_to_llm(context.messages)[0]
    assert sent["role"] == "user"
    assert [block["type"] for block in sent["content"]] == ["text", "text", "image"]
    assert sent["content"][0]["text"] == "HISTORY\n==="
    assert sent["content"][1]["text"].startswith("long ago")


# -- histories of a provider ------------------------------------------------------------------


def test_items_of_a_provider_are_read_as_far_as_they_can_be() -> None:
    wire = remote(
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "fix it"}]},
        {"type": "function_call", "name": "bash", "arguments": '{"command":"ls"}', "call_id": "1"},
        {"type": "function_call_output", "call_id": "1", "output": "a.py"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
        {"type": "compaction", "encrypted_content": "opaque"},
    )
    (block,) = history_blocks(wire)
    found = text(block)
    order = ["only openai reads", "fix it", "bash", '{"command":"ls"}', "a.py", "hm", "done"]
    assert [found.index(word) for word in order] == sorted(found.index(word) for word in order)
    assert "opaque" not in found


def test_what_follows_in_the_context_is_not_repeated() -> None:
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]}
    other = {"type": "message", "role": "user", "content": "older"}
    wires = [*chain(user("kept")), remote(item, other)]
    context = build_session_context(wires)
    assert texts(context.messages)[1:] == ["kept"]
    (block,) = context.messages[0]["blocks"]
    assert "older" in text(block)
    assert "kept" not in text(block)


def test_images_of_a_provider_history_are_images() -> None:
    url = f"data:image/png;base64,{PNG}"
    item = {"role": "user", "content": [{"type": "input_image", "image_url": url}]}
    assert {"type": "image", "data": PNG, "mimeType": "image/png"} in history_blocks(remote(item))


@pytest.mark.parametrize("items", [[7], "x", None, [None]])
def test_a_broken_provider_history_is_none(items: Any) -> None:
    wire = remote()
    wire["preserveData"]["openaiRemoteCompaction"]["replacementHistory"] = items
    assert not has_history(wire)


def test_a_summary_that_only_the_provider_data_holds_is_found() -> None:
    wire = archived()
    wire["preserveData"] = {"anthropicCompaction": {"provider": "anthropic", "content": "notes"}}
    wire["summary"] = ""
    assert summary_text(wire) == "notes"
    wires = [*chain(user("kept"), assistant("x")), wire]
    assert build_session_context(wires, "c").messages[0]["summary"] == "notes"
