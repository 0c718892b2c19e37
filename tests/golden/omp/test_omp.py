"""A session as omp 18 writes it, by hand, and what we must make of it; living omp is asked
elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sessiontree import SessionManager

HERE = Path(__file__).parent
SLOT_BYTES = 256


def test_the_title_slot_overrides_the_header(golden: Path) -> None:
    with SessionManager.open(golden, profile="omp") as session:
        assert session.session_name == "Zähl die Birnen"
        assert session.session_id == "019cae1c-7d00-7abc-8def-0123456789cd"
        assert len(session.get_entries()) == 13
    (info,) = SessionManager.list("/srv/shop", profile="omp")
    assert info.title == "Zähl die Birnen"
    assert golden.read_bytes() == (HERE / "every-entry.jsonl").read_bytes()


def test_a_reset_hides_what_came_before_it_and_keeps_the_state(golden: Path) -> None:
    with SessionManager.open(golden, profile="omp") as session:
        context = session.build_session_context()
    assert [m["role"] for m in context.messages] == ["user", "assistant"]
    assert context.messages[0]["content"][0]["text"] == "second topic"
    assert context.thinking_level == "high"
    assert context.models == {"default": "anthropic/claude-sonnet-4-5"}


def test_entries_that_only_omp_writes_keep_their_place(golden: Path) -> None:
    with SessionManager.open(golden, profile="omp") as session:
        kinds = [entry.type for entry in session.get_branch()]
        session.rewrite_entries()
    for kind in ("service_tier_change", "credential_pin", "title_change", "model_usage"):
        assert kind in kinds
    assert golden.read_bytes() == (HERE / "every-entry.jsonl").read_bytes()


@pytest.mark.parametrize("title", ["short", "", "Birnen 🍐 " * 60])
def test_a_rename_stays_within_the_slot(golden: Path, title: str) -> None:
    before = golden.read_bytes()
    with SessionManager.open(golden, profile="omp") as session:
        session.set_session_name(title)
    after = golden.read_bytes()
    slot = after[:SLOT_BYTES]
    assert slot.endswith(b"}\n")
    value = json.loads(slot)
    assert (value["type"], value["v"]) == ("title", 1)
    assert title.strip().startswith(value["title"])
    assert bool(value["title"]) == bool(title)
    # Everything behind the slot stands where it stood; a note of the change may follow it.
    assert after[SLOT_BYTES:].startswith(before[SLOT_BYTES:])
    with SessionManager.open(golden, profile="omp") as again:
        assert again.session_name == (value["title"] or None)
