"""A session as pi writes it, by hand, and what we must make of it; living pi is asked elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path

from sessiontree import SessionManager, convert_to_llm

HERE = Path(__file__).parent


def test_the_last_name_counts_and_cleared_labels_are_gone(golden: Path) -> None:
    with SessionManager.open(golden, profile="pi") as session:
        assert session.session_name == "second name"
        assert session.get_label("40000003") == "start"
        assert session.get_label("40000004") is None
        assert session.leaf_id == "40000011"


def test_the_context_starts_at_what_the_compaction_kept(golden: Path) -> None:
    with SessionManager.open(golden, profile="pi") as session:
        context = session.build_session_context()
    assert context.thinking_level == "medium"
    assert context.models == {"default": "anthropic/claude-sonnet-4-5"}
    assert [m["role"] for m in context.messages] == [
        "compactionSummary",
        "assistant",
        "toolResult",
        "bashExecution",
        "bashExecution",
        "custom",
        "branchSummary",
        "user",
    ]


def test_the_model_is_told_in_pis_words(golden: Path) -> None:
    with SessionManager.open(golden, profile="pi") as session:
        sent = convert_to_llm(session.build_session_context().messages)
    assert [m["role"] for m in sent] == [
        "user",
        "assistant",
        "toolResult",
        "user",
        "user",
        "user",
        "user",
    ]
    compaction, shell, custom, branch = (sent[n]["content"][0]["text"] for n in (0, 3, 4, 5))
    assert compaction == (
        "The conversation history before this point was compacted into the following summary:"
        "\n\n<summary>\nThey said hello.\n</summary>"
    )
    assert shell == (
        "Ran `false`\n(no output)\n\nCommand exited with code 1"
        "\n\n[Output truncated. Full output: /tmp/pi-bash-1.log]"
    )
    assert custom == "2 things left"
    assert branch == (
        "The following is a summary of a branch that this conversation came back from:"
        "\n\n<summary>\nLooked around.</summary>"
    )


def test_what_we_add_is_spelled_as_pi_spells_it(golden: Path) -> None:
    with SessionManager.open(golden, profile="pi") as session:
        session.append_model_change("openai/gpt-5.2")
        session.append_compaction("so far", "40000011", 7, from_extension=True)
        session.set_session_name("third name")
    assert golden.read_bytes().startswith((HERE / "every-entry.jsonl").read_bytes())
    model, compaction, info = (json.loads(x) for x in golden.read_bytes().splitlines()[-3:])
    assert (model["provider"], model["modelId"]) == ("openai", "gpt-5.2")
    assert "model" not in model
    assert compaction["fromHook"] is True
    assert "fromExtension" not in compaction
    assert (info["type"], info["name"]) == ("session_info", "third name")
    assert info["parentId"] == compaction["id"]


def test_a_new_session_has_a_version_7_uuid(golden: Path) -> None:
    with SessionManager.create("/srv/shop", profile="pi") as session:
        seven = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
        assert re.fullmatch(seven, session.session_id)


def test_images_stay_inline_in_a_copy(golden: Path, tmp_path: Path) -> None:
    with SessionManager.fork_from(golden, tmp_path, tmp_path / "copies", profile="pi") as fork:
        image = fork.get_entries()[2].data["message"]["content"][1]
        copied = Path(str(fork.session_file)).read_text()
        assert fork.header["parentSession"] == str(golden)
    assert image["data"] in copied
    assert "blob:" not in copied
