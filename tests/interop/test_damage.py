"""Files that damage, or another program, left behind: what a living peer makes of them, and we.

Each test states both. When a newer peer gets one right, its half of the test fails: then the
statement goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sessiontree import NotASessionError, SessionManager

from .living import Peer, PeerDiedError, PeerError, PeerHangsError
from .ours import play, read_session
from .talk import (
    ALL_SIX,
    assistant,
    entry_line,
    header_line,
    our_texts,
    texts,
    their_texts,
    user,
    write_lines,
)

HANG_TIMEOUT_S = 4.0
REFUSAL = {"pi": "not a valid pi session", "omp": "The file was not modified"}

# A walk that never ends fills an array meanwhile: what is first, the time-out, the end of the
# memory or the longest array there can be, depends on the machine.
ENDLESS = (PeerHangsError, PeerDiedError, PeerError)
HOW_IT_ENDS = "gave no answer|ended with|is gone|RangeError"


@pytest.fixture
def doomed(peer: Peer, peer_root: Path) -> Iterator[Peer]:
    """A second process of the same peer, to be lost without harm."""
    second = Peer(peer.name, peer_root, peer.home, HANG_TIMEOUT_S)
    yield second
    second.close()


# -- damage to the file ---------------------------------------------------------------------------


def test_after_a_torn_last_line_everybody_goes_on_from_what_is_whole(
    peer: Peer, file: Path, twin: Path
) -> None:
    whole = file.read_bytes()
    torn = whole[:-30]
    for path in (file, twin):
        path.write_bytes(torn)
    more = [user("question 3", 31), assistant("answer 3", 32)]
    peer.ask("append", file=file, steps=more)
    with SessionManager.open(twin, profile=peer.name) as manager:
        play(manager, more)
    expected = [*ALL_SIX[:5], "question 3", "answer 3"]
    assert our_texts(twin, peer) == expected
    assert their_texts(peer, file) == expected


def test_after_a_last_line_without_newline_omp_loses_two_entries_and_we_none(
    peer: Peer, file: Path, twin: Path
) -> None:
    for path in (twin, file):
        path.write_bytes(file.read_bytes().removesuffix(b"\n"))
    more = [user("question 3", 31), assistant("answer 3", 32)]
    peer.ask("append", file=file, steps=more)
    with SessionManager.open(twin, profile=peer.name) as manager:
        play(manager, more)
    assert our_texts(twin, peer) == [*ALL_SIX, "question 3", "answer 3"]
    theirs = their_texts(peer, file)
    if peer.name == "omp":
        # The last answer and the new question are glued on one line; the path ends behind them.
        assert "question 0" not in theirs or "question 3" not in theirs
    else:
        assert theirs == [*ALL_SIX, "question 3", "answer 3"]
    # What the peer glued together we take apart again.
    assert our_texts(file, peer) == [*ALL_SIX, "question 3", "answer 3"]


def test_a_damaged_header_stops_the_peers_and_is_salvaged_by_us(
    peer: Peer, file: Path, twin: Path
) -> None:
    lines = file.read_bytes().split(b"\n")
    head = 1 if peer.name == "pi" else 2
    damaged = b"\n".join([b'{"type":"sess', *lines[head:]])
    for path in (file, twin):
        path.write_bytes(damaged)
    with pytest.raises(PeerError, match=REFUSAL[peer.name]):
        peer.ask("read", file=file)
    assert file.read_bytes() == damaged
    assert our_texts(twin, peer) == ALL_SIX
    kept = [path for path in twin.parent.iterdir() if ".corrupt-" in path.name]
    assert [path.read_bytes() for path in kept] == [damaged]


def test_a_file_of_another_kind_is_refused_by_everybody(peer: Peer, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("# Years of work\n")
    with pytest.raises(NotASessionError):
        SessionManager.open(readme, profile=peer.name)
    with pytest.raises(PeerError, match=REFUSAL[peer.name]):
        peer.ask("read", file=readme)
    assert readme.read_text() == "# Years of work\n"


def test_one_corrupt_line_cuts_the_peers_context_and_we_bridge_it(
    peer: Peer, file: Path, twin: Path
) -> None:
    lines = file.read_bytes().split(b"\n")
    broken = next(n for n, line in enumerate(lines) if b"answer 1" in line)
    lines[broken] = lines[broken][:90] + lines[broken][110:]
    for path in (file, twin):
        path.write_bytes(b"\n".join(lines))
    assert their_texts(peer, file) == ["question 2", "answer 2"]
    with SessionManager.open(twin, profile=peer.name) as manager:
        context = manager.build_session_context()
        assert texts(context.messages) == [*ALL_SIX[:3], "question 2", "answer 2"]
        assert manager.warnings
        play(manager, [user("question 3", 31)])
        manager.rewrite_entries()
    rejected = Path(f"{twin}.rejected").read_bytes()
    assert lines[broken] in rejected
    if peer.name == "omp":
        peer.ask("append", file=file, steps=[user("question 3", 31)])
        assert b"answer 1" not in b"".join(p.read_bytes() for p in file.parent.iterdir())


@pytest.mark.parametrize(
    "odd",
    [
        "null",
        '{"type":"message","id":"0badbad0","parentId":"00000002","message":null}',
    ],
)
def test_a_line_that_makes_peers_throw_is_tolerated_by_us(
    peer: Peer, project: Path, tmp_path: Path, odd: str
) -> None:
    path = write_lines(
        tmp_path / "odd.jsonl",
        header_line(project),
        entry_line(1, None, "user", "question 0"),
        entry_line(2, "00000001", "assistant", "answer 0"),
        odd,
    )
    if (peer.name, odd) == ("pi", "null"):
        assert their_texts(peer, path) == ["question 0", "answer 0"]
    else:
        with pytest.raises(PeerError, match="TypeError"):
            peer.ask("read", file=path)
    assert our_texts(path, peer)[:2] == ["question 0", "answer 0"]


# -- trees that are none --------------------------------------------------------------------------


def test_a_cycle_hangs_pi_and_we_return(
    peer: Peer, doomed: Peer, project: Path, tmp_path: Path
) -> None:
    path = write_lines(
        tmp_path / "cycle.jsonl",
        header_line(project),
        entry_line(1, "00000002", "user", "question 0"),
        entry_line(2, "00000001", "assistant", "answer 0"),
    )
    seen = read_session(path, peer.name)
    assert sorted(texts(seen["messages"])) == ["answer 0", "question 0"]
    assert len(seen["tree"]) == 2
    if peer.name == "pi":
        with pytest.raises(ENDLESS, match=HOW_IT_ENDS):
            doomed.ask("read", file=path)
    else:
        # omp's context walk ends, but its tree has no root left: both entries are invisible in it.
        assert doomed.ask("read", file=path)["tree"] == []


def test_an_id_used_twice_hides_an_entry_from_the_peers_and_none_from_us(
    peer: Peer, doomed: Peer, project: Path, tmp_path: Path
) -> None:
    path = write_lines(
        tmp_path / "twice.jsonl",
        header_line(project),
        entry_line(1, None, "user", "question 0"),
        entry_line(2, "00000001", "assistant", "answer 0"),
        entry_line(3, "00000002", "user", "question 1", entry_id="00000001"),
    )
    seen = read_session(path, peer.name)
    assert texts(seen["messages"]) == ["question 0", "answer 0", "question 1"]
    assert len({entry["id"] for entry in seen["entries"]}) == 3
    # In the peers' maps the later entry takes the earlier one's place and is its own ancestor.
    with pytest.raises(ENDLESS, match=HOW_IT_ENDS):
        doomed.ask("read", file=path)


def test_150_000_children_of_one_node_are_too_many_for_pi(
    pi: Peer, project: Path, tmp_path: Path
) -> None:
    line = entry_line(3, "00000002", "user", "and?")
    children = (line.replace("00000003", f"{n:08x}") for n in range(16, 16 + 150_000))
    path = write_lines(
        tmp_path / "star.jsonl",
        header_line(project),
        entry_line(1, None, "user", "question 0"),
        entry_line(2, "00000001", "assistant", "answer 0"),
        *children,
    )
    with pytest.raises(PeerError, match="RangeError"):
        pi.ask("read", file=path)
    with SessionManager.open(path, profile="pi") as manager:
        (root,) = manager.get_tree()
        assert len(root.children[0].children) == 150_000
