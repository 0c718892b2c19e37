"""A session that lies in several files is shown once."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.agent_samples import claude_answer, claude_prompt, put_claude, put_codex
from tests.unit.discovery.places import put, talk

from sessiontree import SessionInfo, SessionManager, search
from sessiontree.discovery.copies import put_copies_below
from sessiontree.importers.imports import import_session
from sessiontree.profiles import get_profile

ONE, TWO, THREE = (f"{digit * 8}-1111-4111-8111-111111111111" for digit in "123")


def put_one(home: Path, *more: tuple[str, int], session_id: str = ONE, first: str = "a") -> Path:
    said = [("user", "about quokkas", 1), ("assistant", "they smile", 2)]
    said += [("user" if number % 2 else "assistant", text, number) for text, number in more]
    records = []
    for role, text, number in said:
        make = claude_prompt if role == "user" else claude_answer
        above = f"{first}{number - 1}" if number > 1 else None
        records.append(make(text, number, uuid=f"{first}{number}", parentUuid=above))
    return put_claude(home, session_id, *records)


def shown(found: list[list[SessionInfo]]) -> list[list[str]]:
    return [[info.agent for info in family] for family in found]


def test_an_imported_session_is_listed_and_found_once(home: Path) -> None:
    source = put_one(home)
    put_codex(home, TWO, ("user", "quokkas elsewhere"), ("assistant", "yes"))
    copy = import_session(source).path

    found = SessionManager.list_all(agents="all")
    assert {info.path: info.copy_of for info in found if info.copy_of} == {copy: str(source)}
    assert sorted(shown(put_copies_below(found))) == [["claude-code", "sessiontree"], ["codex"]]

    hits = search("quokkas", agents="all", limit=2)
    assert sorted(hit.profile for hit in hits) == ["claude-code", "codex", "sessiontree"]
    assert [hit.path for hit in hits if hit.session.copy_of == str(source)] == [copy]
    assert hits.total == 2
    assert search("quokkas", agents="all", limit=1).total == 2


def test_what_was_continued_here_leads(home: Path) -> None:
    source = put_one(home)
    copy = import_session(source).path
    with SessionManager.open(copy) as session:
        session.append_message({"role": "user", "content": "and wombats"})
    (family,) = put_copies_below(SessionManager.list_all(agents="all"))
    assert [info.path for info in family] == [copy, str(source)]
    (hit,) = search("wombats", agents="all")
    assert hit.session.copy_of is None


@pytest.mark.parametrize("is_read_only", [True, False])
def test_a_fork_stands_with_its_source(home: Path, is_read_only: bool) -> None:
    if is_read_only:
        first = put_one(home)
        second = put_one(home, ("and wombats", 3), session_id=TWO)
    else:
        folder = Path(get_profile("pi").sessions_dir) / "--srv-shop--"
        first = put(folder, *talk("about quokkas", "they smile"), session_id="a" * 16)
        second = Path(SessionManager.fork_from(first, "/srv/shop", profile="pi").session_file or "")
    found = SessionManager.list_all(agents="all")
    (family,) = put_copies_below(found)
    assert {info.path for info in family} == {str(first), str(second)}
    assert len(search("quokkas", agents="all")) == 2
    assert search("quokkas", agents="all").total == 1
    assert [info.copy_of for info in family] == [None, family[0].path]


def test_strangers_stay_apart(home: Path) -> None:
    put_one(home)
    put_one(home, session_id=TWO, first="b")
    put_codex(home, THREE, ("user", "about quokkas"), ("assistant", "yes"))
    assert all(info.copy_of is None for info in SessionManager.list_all(agents="all"))
    assert search("quokkas", agents="all").total == 3


def test_one_profile_is_listed_file_by_file(home: Path) -> None:
    source = put_one(home)
    import_session(source)
    (info,) = SessionManager.list_all()
    assert info.copy_of is None
    (hit,) = search("quokkas", profile="sessiontree")
    assert hit.session.copy_of is None
