"""Which requests get through to the viewer's pages, and what every answer forbids."""

from __future__ import annotations

from typing import Any

import pytest

from sessiontree.serving.guard import loopback_hosts
from sessiontree.web.access import LinkAccess

from .asking import ORIGIN, enter, make_asker


async def test_the_link_is_exchanged_for_a_cookie_that_scripts_and_other_paths_never_see() -> None:
    asker = make_asker()
    assert (await asker.ask("/")).status == 401
    assert isinstance(asker.access, LinkAccess)
    answer = await asker.ask(f"/?token={asker.access.token}")
    cookie = answer.headers["set-cookie"]
    root = asker.access.root
    assert len(root) > 10
    assert cookie.endswith(f"; Path={root}; HttpOnly; SameSite=Strict")
    assert asker.access.token not in cookie
    assert asker.access.token not in answer.text
    assert f"url={root}/" in answer.text
    await asker.enter()
    assert (await asker.ask("/")).status == 200


async def test_a_wrong_token_gets_nothing() -> None:
    answer = await make_asker().ask("/?token=wrong")
    assert answer.status == 401
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "evil.example:8000"}, 403),
        ({"host": "127.0.0.1:9000"}, 403),
        ({"host": None}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"cookie": None}, 401),
        ({"cookie": "sessiontree=wrong"}, 401),
        ({"cookie": "sessiontree="}, 401),
        ({"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "cors"}, 403),
        ({"sec_fetch_site": "same-site", "sec_fetch_mode": "navigate"}, 200),
        ({"sec_fetch_site": "same-origin", "sec_fetch_mode": "cors"}, 200),
        ({"sec_fetch_site": "none", "sec_fetch_mode": "navigate"}, 200),
    ],
)
async def test_who_gets_in(headers: dict[str, Any], status: int) -> None:
    asker = await enter()
    assert (await asker.ask("/", **headers)).status == status


async def test_cookies_of_other_servers_on_this_machine_do_no_harm() -> None:
    asker = await enter()
    own = asker.headers["cookie"]
    odd = f'other={{"a":"b"}}; sessiontree=theirs; {own}; x="'
    assert (await asker.ask("/", cookie=odd)).status == 200


async def test_outside_of_its_path_there_is_nothing() -> None:
    asker = await enter()
    for root in ("", f"{asker.access.root}x", f"/x{asker.access.root}"):
        asker.root = root
        assert (await asker.ask("/")).status == 404


async def test_changes_need_an_origin_a_form_token_and_post() -> None:
    asker = await enter()
    path = "/s/0123456789abcdef/rename"
    assert (await asker.ask(path)).status == 405
    assert (await asker.ask(path, "PUT", origin=ORIGIN)).status == 403
    assert (await asker.ask(path, "DELETE", origin=ORIGIN)).status == 403
    assert (await asker.ask(path, "POST")).status == 403  # a program without an origin
    assert (await asker.ask(path, "POST", origin="http://evil.example")).status == 403
    assert (await asker.send(path, name="x")).status == 403
    assert (await asker.send(path, name="x", token="wrong")).status == 403
    assert (await asker.post(path, name="x")).status == 404  # now only the session is missing


async def test_who_may_only_look_changes_nothing_and_sees_no_buttons() -> None:
    asker = make_asker(LinkAccess(loopback_hosts(8000), can_write=False))
    await asker.enter()
    assert (await asker.post("/s/0123456789abcdef/rename", name="x")).status == 403
    assert "read only" in (await asker.ask("/")).text


@pytest.mark.parametrize("path", ["/", "/nowhere", "/s/none", "/assets/x/view.css", "/?token=x"])
async def test_every_answer_forbids_what_a_page_never_needs(path: str) -> None:
    answer = await (await enter()).ask(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert not any(name.startswith("access-control") for name in answer.headers)


async def test_pages_are_not_kept_by_the_browser() -> None:
    assert (await (await enter()).ask("/")).headers["cache-control"] == "no-store"


async def test_a_body_without_end_is_not_read_into_memory() -> None:
    asker = await enter()
    answer = await asker.ask(
        "/s/0123456789abcdef/rename", "POST", b"token=" + b"x" * 1_000_000, origin=ORIGIN
    )
    assert answer.status == 403
