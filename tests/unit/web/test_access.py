"""Who may use the viewer where others can reach it: a password, or a proxy's word."""

from __future__ import annotations

import pytest

from sessiontree.serving.guard import NetworkHosts, loopback_hosts
from sessiontree.web.access import PasswordAccess, ProxyAccess

from .asking import Asker, make_asker

PASSWORD = "correct horse battery"
SECRET = "only-the-proxy-knows-it"


async def log_in(asker: Asker, password: str) -> int:
    answer = await asker.send("/login", password=password)
    if "set-cookie" in answer.headers:
        asker.headers["cookie"] = answer.headers["set-cookie"].partition(";")[0]
    return answer.status


async def test_the_password_opens_the_viewer() -> None:
    asker = make_asker(PasswordAccess(loopback_hosts(8000), PASSWORD))
    asked = await asker.ask("/")
    assert asked.status == 401
    assert 'type="password"' in asked.text
    assert await log_in(asker, "wrong") == 401
    assert (await asker.ask(f"/?token={PASSWORD}")).status == 401
    assert await log_in(asker, PASSWORD) == 303
    assert (await asker.ask("/")).status == 200


async def test_guessing_is_stopped_after_ten_tries() -> None:
    asker = make_asker(PasswordAccess(loopback_hosts(8000), PASSWORD))
    for _ in range(10):
        assert await log_in(asker, "wrong") == 401
    assert await log_in(asker, PASSWORD) == 401


async def test_another_site_cannot_log_in() -> None:
    asker = make_asker(PasswordAccess(loopback_hosts(8000), PASSWORD))
    body = f"password={PASSWORD}".encode()
    assert (await asker.ask("/login", "POST", body)).status == 403
    assert (await asker.ask("/login", "POST", body, origin="http://evil.example")).status == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"x-sessiontree-secret": SECRET, "x-user": "anna"}, 200),
        ({"x-sessiontree-secret": SECRET}, 401),
        ({"x-sessiontree-secret": SECRET, "x-user": ""}, 401),
        ({"x-sessiontree-secret": "guessed", "x-user": "anna"}, 401),
        ({"x-user": "anna"}, 401),
    ],
)
async def test_only_the_proxy_says_who_it_is(headers: dict[str, str], status: int) -> None:
    asker = make_asker(ProxyAccess(loopback_hosts(8000), "X-User", SECRET))
    asker.headers.update(headers)
    answer = await asker.ask("/")
    assert answer.status == status
    assert ("anna" in answer.text) == (status == 200)


async def test_of_a_proxys_visitors_only_writers_change_something() -> None:
    access = ProxyAccess(loopback_hosts(8000), "X-User", SECRET, writers=["anna"])
    asker = make_asker(access)
    for name, status in (("anna", 404), ("ben", 403)):
        asker.headers.update({"x-sessiontree-secret": SECRET, "x-user": name})
        assert (await asker.post("/s/0123456789abcdef/trash")).status == status


async def test_one_visitors_form_token_is_no_use_to_another() -> None:
    asker = make_asker(ProxyAccess(loopback_hosts(8000), "X-User", SECRET))
    asker.headers.update({"x-sessiontree-secret": SECRET, "x-user": "anna"})
    page = (await asker.ask("/")).text
    token = page.partition('name="form-token" content="')[2].partition('"')[0]
    asker.headers["x-user"] = "ben"
    assert (await asker.send("/s/0123456789abcdef/trash", token=token)).status == 403


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("10.1.2.3:8000", True),
        ("[fe80::1]:8000", True),
        ("sessions.example.com", True),
        ("sessions.example.com:8000", True),
        ("evil.example:8000", False),
        ("10.1.2.3:9000", False),
        ("10.1.2.3", False),
        ("10.1.2.3.evil.example:8000", False),
        ("0x7f.1:8000", False),
        ("", False),
        (":8000", False),
        ("10.1.2.3:\u00b2", False),
        ("10.1.2.3:" + "9" * 5000, False),
    ],
)
def test_of_names_only_those_that_were_given_lead_here(host: str, is_ours: bool) -> None:
    assert (host in NetworkHosts(8000, ["sessions.example.com"])) is is_ours
