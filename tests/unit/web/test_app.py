"""The viewer's pages and changes, on session files."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from tests.samples import TALK, assistant, chain, entry, header, lines, message, read, user, write

from sessiontree.scope import Scope

from .asking import Asker, enter

CLAUDE_ID = "11112222-3333-4444-5555-666677778888"


def session_file(home: Path, name: str = "1f9d2a6b9c0d1234") -> Path:
    folder = home / ".sessiontree" / "agent" / "sessions" / "--work-pi--"
    return folder / f"2026-02-16T10-20-30-000Z_{name}.jsonl"


def claude_file(home: Path) -> Path:
    return home / ".claude" / "projects" / "-work-pi" / f"{CLAUDE_ID}.jsonl"


def claude_line(kind: str, text: str, uuid: str, parent: str | None) -> dict[str, Any]:
    return {
        "type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": CLAUDE_ID, "cwd": "/work/pi",
        "timestamp": "2026-02-16T10:20:30.000Z", "version": "2.0.0",
        "message": {"role": kind, "content": [{"type": "text", "text": text}], "model": "claude"},
    }  # fmt: skip


async def only_session(asker: Asker) -> str:
    """The address of the one session that is listed."""
    page = (await asker.ask("/")).text
    assert page.count('class="name') == 1
    address = page.partition('<a class="name')[2].partition('href="')[2].partition('"')[0]
    return address.removeprefix(asker.access.root)


async def wait_for_news(asker: Asker, address: str) -> dict[str, Any]:
    """Ask as the page does, again and again: a session that took long to read gets a rest."""
    for _ in range(500):
        answer = await asker.ask(address)
        if answer.status == 200:
            made: dict[str, Any] = answer.json
            return made
        await asyncio.sleep(0.02)
    raise AssertionError("no news")


def outline_of(page: str) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(page.partition('id="outline">')[2].partition("</script>")[0])
    return made


async def test_sessions_of_all_agents_are_listed(home: Path) -> None:
    write(session_file(home), header(title="Ours"), *TALK)
    write(claude_file(home), claude_line("user", "theirs", "u1", None),
          claude_line("assistant", "yes", "u2", "u1"))  # fmt: skip
    page = (await (await enter()).ask("/")).text
    assert "2 sessions" in page
    assert ">Ours</a>" in page
    assert ">theirs</a>" in page
    assert '<option value="claude-code">claude-code</option>' in page


async def test_without_sessions_the_page_says_what_to_do() -> None:
    page = (await (await enter()).ask("/")).text
    assert "No sessions yet" in page
    assert "sessiontree demo" in page


async def test_while_thousands_of_sessions_are_read_the_page_says_how_far_it_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(session_file(home), header(), *chain(user("zoo")))
    go_on = threading.Event()
    whole = Scope.list

    def slow(self: Scope, on_progress: Any = None) -> Any:
        on_progress(1_200, 6_000)
        go_on.wait(10)
        return whole(self)

    monkeypatch.setattr(Scope, "list", slow)
    monkeypatch.setattr("sessiontree.web.app._PATIENCE_S", 0.2)
    asker = await enter()
    page = (await asker.ask("/")).text
    assert "1,200 of 6,000" in page
    assert 'http-equiv="refresh"' in page
    go_on.set()
    for _ in range(100):
        page = (await asker.ask("/")).text
        if "zoo" in page:
            break
    assert 'http-equiv="refresh"' not in page


async def test_search_as_you_type(home: Path) -> None:
    write(session_file(home), header(), *chain(user("where is the zebra"), assistant("in the zoo")))
    asker = await enter()
    found = (await asker.ask("/rows?q=zebra")).json
    assert "<mark>zebra</mark>" in found["rows"]
    assert found["told"].startswith("1 of 1 session")  # it may still be indexing
    assert (await asker.ask("/rows?q=giraffe")).json["rows"] == ""
    assert (await asker.ask('/rows?q="%20(*%20OR')).status == 200


async def test_filters_are_those_of_the_picker(home: Path) -> None:
    write(session_file(home), header(title="Named"), *chain(user("zebra"), assistant("in a zoo")))
    write(session_file(home, "2f9d2a6b9c0d1234"), header(id="2f9d2a6b9c0d1234", cwd="/work/other"),
          *chain(user("zebra and giraffe"), assistant("yes", model="gpt-5.2")))  # fmt: skip
    asker = await enter()

    async def names(query: str) -> list[str]:
        rows = (await asker.ask(f"/rows?{query}")).json["rows"]
        return sorted(part.partition("</a>")[0].rpartition(">")[2]
                      for part in rows.split('<a class="name')[1:])  # fmt: skip

    other = "zebra and giraffe"
    assert await names("") == ["Named", other]
    assert await names("is=named") == ["Named"]
    assert await names("project=/work/other") == [other]
    assert await names("agent=pi") == []
    assert await names("q=model:gpt") == [other]
    assert await names("model=sonnet") == ["Named"]
    assert await names("q=date:2026-02") == ["Named", other]
    assert await names("q=date:2026-03") == []
    assert await names("q=zebra+is:named") == ["Named"]
    assert await names("q=zoo&role=user") == []
    assert await names("q=zoo&role=assistant") == ["Named"]
    told = (await asker.ask("/rows?q=date:soon")).json["told"]
    assert "date:soon is not a date" in told
    assert "zebra" in (await asker.ask("/rows?q=zerba&idle=1")).json["told"]  # did you mean


async def test_a_sessions_page_has_its_outline_and_asks_for_articles(home: Path) -> None:
    write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    facts = outline_of((await asker.ask(address)).text)
    assert [row[4] for row in facts["rows"]] == ["1", "2", "3", "4"]
    assert facts["leaf"] == 3
    articles = (await asker.ask(f"{address}/entries?n=1-2")).text
    assert 'id="m-a2"' in articles
    assert 'id="m-a3"' in articles
    assert 'id="m-a1"' not in articles
    assert (await asker.ask(f"{address}/find?q=3")).json == [2]


@pytest.mark.parametrize("numbers", ["", "x", "9", "0-999999999", "-", "3-1", ",,", "1" * 50, "-1"])
async def test_odd_numbers_give_few_articles_and_no_error(home: Path, numbers: str) -> None:
    write(session_file(home), header(), *TALK)
    asker = await enter()
    answer = await asker.ask(f"{await only_session(asker)}/entries?n={numbers}")
    assert answer.status == 200
    assert answer.text.count("<article") <= 4


@pytest.mark.parametrize("number", ["%C2%B2", "%D9%A3", "-1", "9" * 50])
async def test_what_is_no_number_is_no_error(home: Path, number: str) -> None:
    """Not all that Unicode calls a digit is one to count with."""
    write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    for path in (
        f"/?start={number}",
        f"/rows?q=word&start={number}",
        f"{address}/entries?n={number},0-{number}",
        f"{address}/news?count={number}",
        f"{address}/compare?left={number}&right={number}",
        f"/usage?days={number}",
    ):
        assert (await asker.ask(path)).status == 200
    answer = await asker.post(f"{address}/label", entry=unquote(number), label="x")
    assert answer.status in (200, 400)


# -- growing ---------------------------------------------------------------------------------------


async def test_a_page_hears_of_what_others_write(home: Path) -> None:
    file = write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    facts = outline_of((await asker.ask(address)).text)
    news = f"{address}/news?count=4&mark={facts['mark']}"
    assert (await asker.ask(news)).status == 204
    with file.open("ab") as out:
        out.write(lines(message("b1", "a4", user("and now?")),
                        entry("label", "b2", "b1", targetId="a1", label="start")))  # fmt: skip
    told = await wait_for_news(asker, news)
    assert [row[4] for row in told["rows"]] == ["and now?", "start"]
    assert told["leaf"] == 5
    assert told["labels"] == [[0, "start"]]
    assert not told["isOther"]
    assert (await asker.ask(f"{address}/news?count=6&mark={told['mark']}")).status == 204


async def test_a_session_that_was_rewritten_is_loaded_again(home: Path) -> None:
    file = write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    facts = outline_of((await asker.ask(address)).text)
    write(file, header(), *chain(user("other"), assistant("one"), user("two"), start="x"))
    told = await wait_for_news(asker, f"{address}/news?count=4&mark={facts['mark']}")
    assert told["isOther"]
    assert (await asker.ask(f"{address}/news?count=99&mark=none")).json["isOther"]


async def test_sessions_of_other_agents_grow_too(home: Path) -> None:
    file = write(claude_file(home), claude_line("user", "one", "u1", None),
                 claude_line("assistant", "two", "u2", "u1"))  # fmt: skip
    asker = await enter()
    address = await only_session(asker)
    facts = outline_of((await asker.ask(address)).text)
    count = len(facts["rows"])
    with file.open("ab") as out:
        out.write(lines(claude_line("user", "three", "u3", "u2")))
    told = await wait_for_news(asker, f"{address}/news?count={count}&mark={facts['mark']}")
    assert not told["isOther"]
    assert [row[4] for row in told["rows"]] == ["three"]


async def test_a_session_that_is_gone_is_a_line_and_no_error(home: Path) -> None:
    file = write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    assert (await asker.ask(address)).status == 200
    file.unlink()
    answer = await asker.ask(address)
    assert answer.status == 404
    assert "no such session" in answer.text
    assert (await asker.ask("/s/../../etc/passwd")).status == 404


# -- changes ---------------------------------------------------------------------------------------


async def test_a_name_is_written_as_its_agent_reads_it(home: Path) -> None:
    file = write(session_file(home), header(), *TALK)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    asker = await enter()
    address = await only_session(asker)
    answer = await asker.post(f"{address}/rename", name="A <b>name</b>\nof two lines")
    assert answer.json == {"title": "A <b>name</b>"}
    assert read(file)[0]["title"] == "A <b>name</b>"
    assert file.stat().st_mtime == 1_700_000_000
    assert "A &lt;b&gt;name&lt;/b&gt;</a>" in (await asker.ask("/")).text


async def test_a_label_is_an_entry_and_its_session_stays_where_it_was(home: Path) -> None:
    file = write(session_file(home), header(), *TALK)
    asker = await enter()
    address = await only_session(asker)
    assert (await asker.post(f"{address}/label", entry="1", label="good")).status == 200
    last = read(file)[-1]
    assert (last["type"], last["targetId"], last["label"]) == ("label", "a2", "good")
    assert '<mark class="label">good</mark>' in (await asker.ask(f"{address}/entries?n=1")).text
    await asker.post(f"{address}/label", entry="1", label="")
    assert "label" not in read(file)[-1]
    for number in ("", "99", "-1", "x"):
        assert (await asker.post(f"{address}/label", entry=number, label="x")).status == 400


async def test_what_is_removed_can_be_restored(home: Path) -> None:
    file = write(session_file(home), header(title="Keep me"), *TALK)
    asker = await enter()
    address = await only_session(asker)
    told = (await asker.post(f"{address}/trash")).json
    assert not file.exists()
    assert "No sessions yet" in (await asker.ask("/")).text
    assert "Keep me" in (await asker.ask("/trash")).text
    answer = await asker.post(f"/trash/{told['trashed']}/restore", back="1")
    assert answer.status == 303
    assert answer.headers["location"].startswith(f"{asker.access.root}/trash?restored=")
    assert file.exists()
    assert await only_session(asker) == address
    assert (await asker.post(f"/trash/{told['trashed']}/restore")).status == 404


async def test_sessions_of_other_agents_are_never_written(home: Path) -> None:
    file = write(claude_file(home), claude_line("user", "one", "u1", None),
                 claude_line("assistant", "two", "u2", "u1"))  # fmt: skip
    before = file.read_bytes()
    asker = await enter()
    address = await only_session(asker)
    for action in ("rename", "label", "trash"):
        answer = await asker.post(f"{address}/{action}", name="x", entry="0", label="x")
        assert answer.status == 403
        assert "read only" in answer.text
    page = (await asker.ask(address)).text
    assert "data-dialog" not in page
    assert file.read_bytes() == before


async def test_a_page_can_be_taken_along_and_without_secrets(home: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    write(session_file(home), header(), *chain(user(f"use {secret}"), assistant("ok")))
    asker = await enter()
    address = await only_session(asker)
    whole = await asker.ask(f"{address}/export.html")
    assert secret in whole.text
    assert whole.headers["content-disposition"].startswith("attachment")
    assert secret not in (await asker.ask(f"{address}/export.html?redact=1")).text
