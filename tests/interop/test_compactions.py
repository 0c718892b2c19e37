"""omp's own compactions: what it gives its model of the history that they carry, ours is given."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

from sessiontree import SessionManager, convert_to_llm
from sessiontree.export.convert import convert_session

from .living import Peer
from .ours import read_session
from .scripts import Step
from .talk import assistant, talk, user

NEWLINE = "\u2588"
_OWN = ("alt",)


def archive(seed: int) -> dict[str, Any]:
    """Text at the ends, frames between them, as snapcompact lays a history out."""
    r = random.Random(f"archive/{seed}")
    words = ["\u00b6user: fix it", "\u00b6ai: done", "\x0edim\x0f", "<out>1\u25882</out>", "42"]

    def text() -> str:
        return NEWLINE.join(r.choice(words) for _ in range(r.randint(1, 9)))

    pages = [text() for _ in range(r.choice([0, 0, 1, 3]))]
    head, tail = r.choice(["", text()]), r.choice(["", text()])
    if not (pages or head or tail):
        head = text()
    frames = [
        {
            "data": base64.b64encode(r.randbytes(r.choice([30, 900, 40_000]))).decode(),
            "mimeType": "image/png",
            "cols": 176,
            "rows": 98,
            "chars": len(page),
            "font": "8x13",
            "variant": "bw",
            "lineRepeat": 1,
            **({"detail": "original"} if r.random() < 0.5 else {}),
        }
        for page in pages
    ]
    return {
        "frames": frames,
        "totalChars": sum(map(len, [head, tail, *pages])),
        "truncatedChars": r.choice([0, 120_000]),
        "text": "".join([head, *pages, tail]),
        **({"textHead": head} if head else {}),
        **({"textTail": tail} if tail else {}),
    }


def compaction(keep: int, preserve: dict[str, Any], **fields: Any) -> Step:
    step = {"do": "compaction", "summary": "FILES\n\nHISTORY\n===", "keep": keep, "tokens": 9}
    return {**step, "preserve": preserve, **fields}


def bare(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in b.items() if key not in _OWN} for b in blocks]


def test_an_archive_goes_to_the_model_as_omp_gives_it(
    omp: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    steps = [*talk(3), compaction(4, {"snapcompact": archive(seed)}), user("and now?")]
    made = omp.ask("write", cwd=project, dir=session_dir, steps=[*steps, assistant("this")])
    file = Path(made["file"])
    before = file.read_bytes()
    theirs = omp.ask("read", file=file)
    ours = read_session(file, "omp")
    assert [m["role"] for m in ours["messages"]] == [
        m["role"] for m in theirs["context"]["messages"]
    ]
    summary = theirs["context"]["messages"][0]
    assert bare(ours["messages"][0]["blocks"]) == summary["blocks"]
    assert bare(ours["llm"][0]["content"]) == theirs["llm"][0]["content"]
    assert file.read_bytes() == before


def test_an_archive_that_we_wrote_omp_reads(
    omp: Peer, seed: int, project: Path, session_dir: Path
) -> None:
    kept = archive(seed)
    with SessionManager.create(project, session_dir, profile="omp") as manager:
        first = manager.append_message(user("one")["message"])
        manager.append_message(assistant("two")["message"])
        manager.append_compaction("HISTORY", first, 9, preserve_data={"snapcompact": kept})
        file = str(manager.session_file)
        blocks = manager.build_session_context().messages[0]["blocks"]
    theirs = omp.ask("read", file=file)["context"]["messages"][0]
    assert bare(blocks) == theirs["blocks"]


def test_a_history_of_the_provider_is_given_as_far_as_it_can_be_read(
    omp: Peer, project: Path, session_dir: Path
) -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "begin"}]},
        {"type": "function_call_output", "call_id": "c", "output": "42 files"},
        {"type": "compaction", "encrypted_content": "b3BhcXVl"},
    ]
    remote = {"openaiRemoteCompaction": {"provider": "openai", "replacementHistory": items}}
    steps = [*talk(3), compaction(4, remote, through=5), user("and now?"), assistant("this")]
    made = omp.ask("write", cwd=project, dir=session_dir, steps=steps)
    theirs = omp.ask("read", file=made["file"])["context"]["messages"]
    ours = read_session(Path(made["file"]), "omp")["messages"]
    # Its provider is given the items themselves; of those ours is given all that is text, and
    # the kept turns, which are in the items only for the eyes of that provider.
    assert theirs[0]["providerPayload"]["items"] == items
    (block,) = ours[0]["blocks"]
    assert "begin" in block["text"]
    assert "42 files" in block["text"]
    said = [m.get("content") for m in theirs[1:]]
    assert [m.get("content") for m in ours[1:]][-len(said) :] == said
    assert [m.get("content") for m in ours[1:3]] == ["question 2", talk(3)[5]["message"]["content"]]


def test_a_converted_archive_is_whole_for_pi_and_comes_back(
    omp: Peer, pi_process: Peer, seed: int, project: Path, session_dir: Path, tmp_path: Path
) -> None:
    kept = archive(seed)
    steps = [*talk(3), compaction(4, {"snapcompact": kept}), user("and now?"), assistant("this")]
    file = omp.ask("write", cwd=project, dir=session_dir, steps=steps)["file"]
    to_pi = convert_session(file, "pi", session_dir=tmp_path / "pi", source_profile="omp").path
    assert "blob:sha256:" not in Path(to_pi).read_text()
    summary = pi_process.ask("read", file=to_pi)["context"]["messages"][0]["summary"]
    for page in kept["text"].translate({0x0E: None, 0x0F: None}).split(NEWLINE):
        assert page in summary
    back = convert_session(to_pi, "omp", session_dir=tmp_path / "omp", source_profile="pi").path
    theirs = omp.ask("read", file=file)["context"]["messages"]
    again = omp.ask("read", file=back)["context"]["messages"]
    assert again == theirs
    assert convert_to_llm(read_session(Path(back), "omp")["messages"])
